"""Slices in step with the node, whatever others and the API server do."""

import pytest

from device_plugin.dra import cluster, publisher, view
from device_plugin.dra.cluster import ApiError
from device_plugin.dra.publisher import Publisher
from tests.unit.dra.made import DRIVER, HALF, NODE, Api, bare, gpu, offer, wait_for


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch):
    """Every delay is what it is, only shorter."""
    monkeypatch.setattr(cluster, "FIRST_DELAY", 0.01)
    monkeypatch.setattr(cluster, "FIRST_DELAY_REFUSED", 0.02)
    monkeypatch.setattr(cluster, "LONGEST_DELAY", 0.05)
    monkeypatch.setattr(publisher, "SETTLE", 0.01)
    monkeypatch.setattr(publisher, "FIRST_REST", 0.005)
    monkeypatch.setattr(publisher, "LONGEST_REST", 0.01)
    monkeypatch.setattr(publisher, "LONGEST_QUARREL", 0.01)
    monkeypatch.setattr(view, "STOP_TIMEOUT", 10.0)
    monkeypatch.setattr(publisher, "STOP_TIMEOUT", 10.0)


@pytest.fixture
def api():
    return Api()


@pytest.fixture
def started(api):
    """A publisher that watches already."""
    publishers = []

    def start(*offers, **rest):
        one = Publisher(api, DRIVER, NODE)
        publishers.append(one)
        one.start()
        one.publish(offers, **rest)
        wait_for(lambda: not one.problem and api.watches)
        return one

    yield start
    for one in publishers:
        one.stop()
        assert not one._thread.is_alive()
        assert not one._view._thread.is_alive()


def in_step(api, one, *names):
    wait_for(lambda: api.devices() == list(names) and not one.problem)


def refuse_once(api, call, error):
    """The next call fails."""
    left = [error]
    api.refuse = lambda what: left.pop() if left and what == call else None
    return lambda: not left


def test_offers_are_published(api, started):
    one = started(offer(gpu("gpu-0"), gpu("gpu-1")))
    assert api.devices() == ["gpu-0", "gpu-1"]
    assert one.problem == ""
    assert api.writes() == ["create"]


def test_nothing_is_asked_before_the_first_offers(api):
    one = Publisher(api, DRIVER, NODE)
    assert one.problem == "starting"
    one.start()
    one.stop()
    assert api.calls == []


def test_nothing_is_written_when_nothing_changed(api, started):
    one = started(offer(gpu("gpu-0")))
    for reason in ("", "broken"):
        one.publish([offer(gpu("gpu-0", reason))])
    wait_for(lambda: "taints" in api.specs()[0]["devices"][0])
    assert api.writes() == ["create", "replace"]
    assert api.calls.count("list") == 1


def test_a_second_process_finds_all_in_order(api, started):
    started(offer(gpu("gpu-0", "broken", replicas=3)))
    started(offer(gpu("gpu-0", "broken", replicas=3)))
    assert api.writes() == ["create"]


def test_the_newest_offers_win(api, started):
    one = started()
    for n in range(100):
        one.publish([offer(*bare(f"d{n}"))])
    in_step(api, one, "d99")
    assert len(api.writes()) < 50


def test_the_effect_of_taints(api, started):
    one = started(offer(gpu("gpu-0", "broken")), unhealthy="NoExecute")
    (taint,) = api.specs()[0]["devices"][0]["taints"]
    assert taint["effect"] == "NoExecute"
    one.publish([offer(gpu("gpu-0", "broken"))], unhealthy="NoSchedule")
    wait_for(lambda: api.specs()[0]["devices"][0]["taints"][0]["effect"] == "NoSchedule")


def test_wiped_slices_come_back(api, started):
    one = started(offer(*bare(*(f"d{n}" for n in range(130)))))
    before = api.specs()
    api.remove()
    wait_for(lambda: api.specs() == before and not one.problem)


def test_what_others_change_is_changed_back(api, started):
    one = started(offer(gpu("gpu-0")))
    before = api.specs()
    (name,) = api.stored
    api.edit(name, lambda slice_: slice_["spec"].update(devices=[]))
    wait_for(lambda: api.specs() == before and not one.problem)


def test_what_others_add_goes(api, started):
    one = started(offer(gpu("gpu-0")))
    (name,) = api.stored
    with api.changed:
        api._store("a-foreign-slice", {**api.stored[name], "metadata": {}}, "ADDED")
    wait_for(lambda: [*api.stored] == [name] and not one.problem)


def test_own_writes_are_no_reason_to_list_again(api, started):
    one = started(offer(gpu("gpu-0")))
    for n in range(20):
        one.publish([offer(*bare(f"d{n}"))])
        in_step(api, one, f"d{n}")
    assert api.calls.count("list") == 1


@pytest.mark.parametrize(
    "error",
    [
        ApiError("cannot: connection refused"),
        ApiError("cannot: no answer in time"),
        ApiError("cannot: slow down", 429, retry_after=0.05),
        ApiError("cannot: the server is busy", 503),
        ApiError("cannot: forbidden", 403),
    ],
)
@pytest.mark.parametrize("call", ["node", "list", "create", "replace", "delete"])
def test_a_call_that_fails_is_made_again(api, started, call, error):
    one = started(offer(*bare(*(f"d{n}" for n in range(65)))))
    done = refuse_once(api, call, error)
    api.remove(min(api.stored))  # list, node, create
    in_step(api, one, *(f"d{n}" for n in range(65)))
    one.publish([offer(*bare("d0"))])  # replace, delete
    in_step(api, one, "d0")
    assert done()


def test_the_problem_is_what_the_api_server_says(api, started):
    one = started(offer(gpu("gpu-0")))
    api.refuse = lambda what: (
        ApiError("cannot replace: forbidden", 403) if what == "replace" else None
    )
    one.publish([offer(gpu("gpu-0", "broken"))])
    wait_for(lambda: one.problem == "cannot replace: forbidden")
    api.refuse = lambda _: None
    wait_for(lambda: not one.problem)
    assert "taints" in api.specs()[0]["devices"][0]


def test_somebody_was_faster(api, started):
    one = started(offer(gpu("gpu-0")))
    done = refuse_once(api, "replace", ApiError("the object has been modified", 409))
    one.publish([offer(gpu("gpu-0", "broken"))])
    wait_for(lambda: done() and "taints" in api.specs()[0]["devices"][0])
    assert api.calls.count("list") == 2


def test_a_create_whose_answer_was_lost(api, started):
    one = started()
    create = api.create

    def lose(slice_):
        api.create = create
        create(slice_)
        raise ApiError("no answer in time")

    api.remove()
    api.create = lose
    in_step(api, one)
    wait_for(lambda: len(api.stored) == 1 and not one.problem)


def test_a_watch_that_breaks(api, started):
    one = started(offer(gpu("gpu-0")))
    api.refuse = lambda what: ApiError("cannot watch", 500) if what == "watch" else None
    one._view._watch.stop()
    wait_for(lambda: one.problem == "cannot watch")
    assert api.calls.count("list") == 1  # it goes on from where it was
    api.remove()
    api.refuse = lambda _: None
    in_step(api, one, "gpu-0")


def test_a_watch_from_too_long_ago(api, started):
    one = started(offer(gpu("gpu-0")))
    api.refuse = lambda what: ApiError("cannot watch", 500) if what == "watch" else None
    one._view._watch.stop()
    wait_for(lambda: one.problem)
    with api.changed:
        api.stored.clear()
        api.version += 1000
        api.forgotten = api.version
    api.refuse = lambda _: None
    in_step(api, one, "gpu-0")


def test_a_change_that_no_watch_told(api, started, monkeypatch):
    monkeypatch.setattr(publisher, "AUDIT", 0.05)
    one = started(offer(gpu("gpu-0")))
    with api.changed:
        api.stored.clear()
    in_step(api, one, "gpu-0")


def test_a_node_that_came_anew(api, started):
    one = started(offer(gpu("gpu-0")))
    api.uid = "another"
    api.remove()
    in_step(api, one, "gpu-0")
    (slice_,) = api.stored.values()
    assert slice_["metadata"]["ownerReferences"][0]["uid"] == "another"


@pytest.mark.parametrize(
    ("dropped", "names", "note"),
    [
        ("allowMultipleAllocations", ["a", "a-r1", "b", "c-half-0", "c-half-1", "c"], "replica"),
        ("consumesCounters", ["a", "b", "c"], "whole"),
        ("sharedCounters", ["a", "b", "c"], "whole"),
        ("taints", ["a", "c-half-0", "c-half-1", "c"], "unhealthy"),
    ],
)
def test_fields_that_the_cluster_drops(api, started, dropped, names, note):
    api.drops = {dropped}
    one = started(
        offer(gpu("a", replicas=2), gpu("b", "broken")),
        offer(gpu("c"), parts=(HALF,), name="example.com/c"),
    )
    assert api.devices() == names
    assert note in one.notes[0]
    writes = len(api.writes())
    one.publish([offer(*bare("d0"))])
    in_step(api, one, "d0")
    assert len(api.writes()) - writes <= 2


def test_a_bug_does_not_end_it(api, started, monkeypatch):
    one = started(offer(gpu("gpu-0")))
    broken = monkeypatch.context()
    with broken as patch:
        patch.setattr(publisher, "LONGEST_DELAY", 0.01)
        patch.setattr(publisher, "wanted", lambda *_: 1 / 0)
        one.publish([])
        wait_for(lambda: one.problem == "publishing failed unexpectedly")
    one.publish([offer(*bare("d0"))])
    in_step(api, one, "d0")


def test_rests_grow_and_start_over(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    pace = publisher._Pace(0.02)
    assert [pace.rest() for _ in range(4)] == [0.005, 0.01, 0.02, 0.02]
    now[0] += 100
    assert pace.rest() == 0.005
