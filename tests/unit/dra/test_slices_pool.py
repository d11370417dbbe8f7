"""What is written so that the stored slices become the wanted ones."""

import copy

import pytest

from device_plugin.dra.pool import Plan, Pool, plan, survivors
from device_plugin.dra.slices import Features, wanted
from tests.unit.dra.made import DRIVER, HALF, NODE, Api, bare, gpu, offer

POOL = Pool(DRIVER, NODE, "uid-of-node")
ALL = Features()


def contents(*offers):
    return wanted(offers, DRIVER, "NoSchedule", ALL).contents


def many(count, *broken):
    return offer(*(gpu(f"d{n}", "broken" if n in broken else "") for n in range(count)))


def carried_out(api, todo):
    for name in todo.delete:
        api.delete(name)
    for slice_ in todo.replace:
        api.replace(slice_)
    for slice_ in todo.create:
        api.create(slice_)


def stored(*offers):
    """An API server that has them."""
    api = Api()
    carried_out(api, plan((), contents(*offers), POOL))
    return api


def next_plan(api, *offers, pool=POOL):
    return plan(copy.deepcopy(list(api.stored.values())), contents(*offers), pool)


def generations(api):
    return [
        (spec["pool"]["generation"], spec["pool"]["resourceSliceCount"]) for spec in api.specs()
    ]


def test_the_first_time():
    api = stored(many(130))
    assert generations(api) == [(1, 3)] * 3
    assert [len(spec["devices"]) for spec in api.specs()] == [64, 64, 2]
    for index, (name, one) in enumerate(sorted(api.stored.items())):
        assert name.startswith(f"{index:05x}-{DRIVER}-{NODE}-")
        assert one["apiVersion"] == "resource.k8s.io/v1"
        assert one["spec"]["driver"] == DRIVER
        assert one["spec"]["nodeName"] == one["spec"]["pool"]["name"] == NODE
        (owner,) = one["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"]) == ("Node", NODE, POOL.uid)


def test_nothing_when_nothing_changed():
    assert next_plan(stored(many(130)), many(130)) == Plan()
    assert next_plan(stored(), *()) == Plan()


def test_one_slice_that_changes_is_replaced():
    api = stored(many(130))
    todo = next_plan(api, many(130, 70))
    assert (len(todo.delete), len(todo.replace), len(todo.create)) == (0, 1, 0)
    carried_out(api, todo)
    assert generations(api) == [(1, 3)] * 3
    assert api.specs()[1]["devices"][6]["taints"]


def test_more_than_one_makes_a_generation():
    api = stored(many(130))
    carried_out(api, next_plan(api, many(130, 1, 70)))
    assert generations(api) == [(2, 3)] * 3
    assert next_plan(api, many(130, 1, 70)) == Plan()


def test_a_slice_more():
    api = stored(many(64))
    todo = next_plan(api, many(65))
    assert (len(todo.replace), len(todo.create)) == (1, 1)
    carried_out(api, todo)
    assert generations(api) == [(1, 2)] * 2


def test_two_slices_and_then_three():
    api = stored(many(128))
    carried_out(api, next_plan(api, many(129)))
    assert generations(api) == [(2, 3)] * 3


def test_a_slice_less():
    api = stored(many(65))
    todo = next_plan(api, many(64))
    assert (len(todo.delete), len(todo.replace), len(todo.create)) == (1, 1, 0)
    carried_out(api, todo)
    assert generations(api) == [(1, 1)]


def test_a_slice_that_somebody_deleted():
    api = stored(many(130))
    api.remove(sorted(api.stored)[1])
    todo = next_plan(api, many(130))
    assert (len(todo.replace), len(todo.create)) == (0, 1)
    carried_out(api, todo)
    assert api.devices() == [f"d{n}" for n in range(130)]
    assert generations(api) == [(1, 3)] * 3


def test_a_process_that_died_between_two_writes():
    api = stored(many(130))
    todo = next_plan(api, many(130, 1, 70))
    api.replace(todo.replace[0])
    carried_out(api, next_plan(api, many(130, 1, 70)))
    assert generations(api) == [(2, 3)] * 3
    assert api.devices() == [f"d{n}" for n in range(130)]


def test_two_processes_that_made_the_same():
    api = stored(many(1))
    first = sorted(api.stored)
    carried_out(api, plan((), contents(many(1)), POOL))
    todo = next_plan(api, many(1))
    assert todo == Plan(delete=tuple(sorted(set(api.stored) - set(first))))


def test_what_is_not_named_by_us_goes():
    api = stored(many(1))
    (name,) = api.stored
    foreign = copy.deepcopy(api.stored[name])
    foreign["metadata"]["name"] = "node-a-gpu.example.com-x7x7x"
    api.stored["node-a-gpu.example.com-x7x7x"] = foreign
    assert next_plan(api, many(1)) == Plan(delete=("node-a-gpu.example.com-x7x7x",))


def test_a_node_that_came_anew():
    api = stored(many(1))
    todo = next_plan(api, many(1), pool=Pool(DRIVER, NODE, "another"))
    assert todo.replace[0]["metadata"]["ownerReferences"][0]["uid"] == "another"


def test_quantities_are_compared_as_amounts():
    api = stored(offer(gpu("gpu-0", replicas=4)), offer(gpu("gpu-1"), parts=(HALF,)))
    for one in api.stored.values():
        for device in one["spec"].get("devices", ()):
            device["capacity"]["memory"]["value"] = device["capacity"]["memory"]["value"].replace(
                "80Gi", "81920Mi"
            )
        for counters in one["spec"].get("sharedCounters", ()):
            counters["counters"]["memory"]["value"] = "85899345920"
    offers = [offer(gpu("gpu-0", replicas=4)), offer(gpu("gpu-1"), parts=(HALF,))]
    assert next_plan(api, *offers) == Plan()


def test_another_amount_is_a_change():
    api = stored(offer(gpu("gpu-0")))
    (one,) = api.stored.values()
    one["spec"]["devices"][0]["capacity"]["memory"]["value"] = "40Gi"
    assert len(next_plan(api, offer(gpu("gpu-0"))).replace) == 1


def test_what_the_api_server_adds_is_no_change():
    api = stored(many(2, 0, 1))
    (one,) = api.stored.values()
    one["spec"]["devices"][0]["taints"][0]["timeAdded"] = "2026-11-29T20:00:00Z"
    one["spec"]["devices"][0]["bindsToNode"] = False
    assert next_plan(api, many(2, 0, 1)) == Plan()


def test_a_taint_keeps_its_time_when_the_reason_is_another():
    api = stored(offer(gpu("gpu-0", "it smokes")))
    (one,) = api.stored.values()
    (taint,) = one["spec"]["devices"][0]["taints"]
    taint["timeAdded"] = "2026-11-29T20:00:00Z"
    (slice_,) = next_plan(api, offer(gpu("gpu-0", "it burns"))).replace
    (now,) = slice_["spec"]["devices"][0]["taints"]
    assert now == {**taint, "value": now["value"]}
    assert now["value"] != taint["value"]


def test_a_taint_keeps_its_time():
    api = stored(many(2, 0))
    (one,) = api.stored.values()
    one["spec"]["devices"][0]["taints"][0]["timeAdded"] = "2026-11-29T20:00:00Z"
    (slice_,) = next_plan(api, many(2, 0, 1)).replace
    first, second = (device["taints"][0] for device in slice_["spec"]["devices"])
    assert first["timeAdded"] == "2026-11-29T20:00:00Z"
    assert "timeAdded" not in second


def test_labels_of_others_stay():
    api = stored(many(2))
    (one,) = api.stored.values()
    one["metadata"]["labels"] = {"team": "a"}
    (slice_,) = next_plan(api, many(2, 0)).replace
    assert slice_["metadata"]["labels"] == {"team": "a"}
    assert slice_["metadata"]["resourceVersion"] == one["metadata"]["resourceVersion"]


def test_long_names_keep_their_index():
    pool = Pool("d" * 55 + ".example", "n" * 253, "uid")
    (slice_,) = plan((), contents(), pool).create
    name = slice_["metadata"]["generateName"]
    assert name.startswith("00000-ddd")
    assert len(name) <= 58
    assert name.endswith("d-")


@pytest.mark.parametrize(
    ("fields", "left"),
    [
        ([], Features()),
        (["taints"], Features(taints=False)),
        (["allowMultipleAllocations"], Features(shares=False)),
        (["consumesCounters"], Features(parts=False)),
        (["sharedCounters"], Features(parts=False)),
    ],
)
def test_dropped_fields_are_noticed(fields, left):
    api = Api()
    api.drops = set(fields)
    offers = [
        offer(gpu("a", replicas=2), gpu("b", "broken")),
        offer(gpu("c"), parts=(HALF,), name="example.com/c"),
    ]
    features = Features()
    for slice_ in plan((), contents(*offers), POOL).create:
        features = survivors(features, slice_, api.create(slice_))
    assert features == left


def test_what_was_lost_stays_lost():
    (slice_,) = plan((), contents(offer(*bare("a"))), POOL).create
    assert survivors(Features(parts=False), slice_, slice_) == Features(parts=False)
