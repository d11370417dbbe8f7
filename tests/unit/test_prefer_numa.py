"""GetPreferredAllocation by NUMA node and PCIe root: what is near each other goes together."""

import random
import time
from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_plugin.allocation import prefer
from device_plugin.config import Allocation, PerContainer, Resource
from device_plugin.device import Device
from device_plugin.listing import Listed, Snapshot
from device_plugin.preference import reasons

ANYWHERE = ()


def resource(how="numa", **rules):
    limits = PerContainer(**rules)
    return Resource("example.com/r", (), allocation=Allocation(how), per_container=limits)


def device(id_, nodes=ANYWHERE, root=None, replicas=1):
    attributes = {"pcie_root": root} if root else {}
    return Device(id_, replicas=replicas, attributes=attributes, numa_nodes=nodes)


def snapshot(*devices, unhealthy=()):
    return Snapshot(tuple(Listed(d, "bad" if d.id in unhealthy else "") for d in devices))


def chosen(state, size, must=(), available=None, **rules):
    available = state.by_id if available is None else available
    return prefer(resource(**rules), state, available, must, size)


places = st.lists(
    st.tuples(
        st.sampled_from([(), (0,), (0,), (1,), (1,), (2,), (3,), (0, 1), (1, 2), (0, 1, 3)]),
        st.sampled_from([None, "p", "q", "r", "s"]),
        st.integers(1, 3),
    ),
    min_size=1,
    max_size=7,
)


@st.composite
def requests(draw):
    """What is there, what is available and what must be had, as the kubelet asks."""
    devices = [device(chr(97 + i), *place) for i, place in enumerate(draw(places))]
    broken = draw(st.sets(st.sampled_from([d.id for d in devices]), max_size=1))
    state = snapshot(*devices, unhealthy=broken)
    ids = sorted(state.by_id)[:11]
    available = draw(st.sets(st.sampled_from(ids), min_size=len(ids) // 2))
    must = draw(st.sets(st.sampled_from(sorted(available)), max_size=2)) if available else set()
    return state, available, must


def cost(state, ids, free):
    """What `numa` keeps small, the most important first: see `allocation.prefer` in the docs."""
    devices = {state.by_id[id_].device.id: state.by_id[id_].device for id_ in ids}
    nodes = {node for d in devices.values() for node in d.numa_nodes}
    roots = {d.attributes["pcie_root"] for d in devices.values() if d.attributes}
    room: Counter[object] = Counter()
    for d in (state.by_id[id_].device for id_ in free):
        room.update({d.id: 1, **dict.fromkeys(d.numa_nodes, 1)})
        room.update(d.attributes.values())
    return (
        max(1, len(nodes)),
        max(1, len(roots)),
        len(devices),
        *(sum(room[it] for it in some) for some in (devices, roots, nodes)),
    )


@given(requests(), st.integers(1, 7), st.booleans())
@settings(max_examples=600)
def test_no_other_choice_is_better(request, size, distinct):
    state, available, must = request
    got = chosen(state, size, must, available, distinct=distinct)
    free = {id_ for id_ in available - must if state.by_id[id_].healthy}
    ways = [[*must, *more] for more in combinations(sorted(free), max(0, size - len(must)))]
    ways = [way for way in ways if len(way) == size]
    if distinct:
        ways = [way for way in ways if len({state.by_id[i].device.id for i in way}) == size]
    assert bool(got) == bool(ways)
    if got:
        assert cost(state, got, free) == min(cost(state, way, free) for way in ways)


@given(requests(), st.integers(0, 8), st.booleans(), st.randoms())
def test_order_and_repetition_of_the_request_mean_nothing(request, size, distinct, rng):
    state, available, must = request
    expected = chosen(state, size, must, available, distinct=distinct)
    twice = [*sorted(available), *sorted(available)]
    rng.shuffle(twice)
    again = chosen(state, size, sorted(must, reverse=True), twice, distinct=distinct)
    assert again == expected


@given(requests(), st.integers(0, 8), st.booleans())
def test_where_nothing_is_known_it_is_packing(request, size, distinct):
    state, available, must = request
    state = snapshot(
        *(device(one.device.id, replicas=one.device.replicas) for one in state.devices)
    )
    packed = chosen(state, size, must, available, how="pack", distinct=distinct)
    assert chosen(state, size, must, available, distinct=distinct) == packed


GPUS = snapshot(  # two sockets, each with two PCIe roots with two GPUs
    *(device(f"gpu{i}", (i // 4,), f"pci0000:{i // 2}0") for i in range(8))
)


@pytest.mark.parametrize(
    ("taken", "size", "got"),
    [
        ([], 1, ["gpu0"]),
        ([0], 1, ["gpu1"]),  # of the root that is broken into
        ([0], 2, ["gpu2", "gpu3"]),  # of the node that is broken into, one root all the same
        ([0, 2], 2, ["gpu4", "gpu5"]),  # one root is better than the fuller node
        ([0, 2, 4, 6], 2, ["gpu1", "gpu3"]),
        ([0, 5], 3, ["gpu1", "gpu2", "gpu3"]),
        ([], 4, ["gpu0", "gpu1", "gpu2", "gpu3"]),
        ([1], 4, ["gpu4", "gpu5", "gpu6", "gpu7"]),
        ([1, 7], 4, ["gpu0", "gpu2", "gpu3", "gpu4", "gpu5"]),
    ],
)
def test_gpus_of_two_sockets(taken, size, got):
    free = [id_ for id_ in GPUS.by_id if int(id_[-1]) not in taken]
    ids = chosen(GPUS, size, available=free)
    assert len(ids) == size
    assert set(ids) <= set(got)


def test_what_the_kubelet_has_aligned_stays_so():
    # It offers one node's devices where they are more than enough, and else fixes those and
    # offers all (docs/kubelet.md, A9).
    on_one = ["gpu4", "gpu5", "gpu6", "gpu7"]
    assert chosen(GPUS, 2, available=on_one) == ["gpu4", "gpu5"]
    ids = chosen(GPUS, 6, must=on_one)
    assert ids[:4] == on_one
    assert ids[4:] == ["gpu0", "gpu1"]


def test_what_the_container_has_decides_where_the_rest_is():
    assert chosen(GPUS, 2, must=["gpu7"]) == ["gpu7", "gpu6"]
    assert set(chosen(GPUS, 4, must=["gpu6"])) == {"gpu4", "gpu5", "gpu6", "gpu7"}
    replicas = snapshot(device("a", (0,), replicas=3), device("b", (1,), replicas=2))
    assert chosen(replicas, 2, must=["a-r1"]) == ["a-r1", "a"]


def test_a_node_is_worth_more_than_a_root_and_that_than_a_device():
    state = snapshot(
        device("a", (0,), "p"),
        device("b", (0,), "q"),
        device("c", (1,), "r", 2),
        device("d", (2,), "r", 2),  # one root, two nodes, fewer devices
    )
    assert chosen(state, 2) == ["c", "c-r1"]
    assert chosen(state, 2, available=["a", "b", "c", "d"]) == ["a", "b"]
    state = snapshot(
        device("a", (0,), "p"), device("b", (0,), "p"), device("c", (0,), "q"), device("d", (0,))
    )
    assert chosen(state, 2, available=["b", "c", "d"]) == ["b", "d"]


def test_a_device_on_two_nodes_is_on_both():
    state = snapshot(
        device("a", (0, 1)), device("b", (0,)), device("c", (1,)), device("d", (2,), replicas=2)
    )
    assert chosen(state, 1) == ["b"]
    assert chosen(state, 1, available=["a", "d", "d-r1"]) == ["d"]
    assert set(chosen(state, 2, must=["a"])) == {"a", "b"}
    assert set(chosen(state, 3, available=["a", "b", "c", "d"])) == {"a", "b", "c"}


def test_devices_of_no_known_node_go_with_all():
    state = snapshot(device("a", (0,)), device("b", (1,)), device("c"), device("d", replicas=3))
    assert chosen(state, 1) == ["c"]  # no better, but what has a node stays whole
    assert chosen(state, 2, must=["b"], available=["a", "b", "c"]) == ["b", "c"]
    assert chosen(state, 3) == ["d", "d-r1", "d-r2"]  # as packing does
    state = snapshot(device("a", (0,), "p"), device("b", (0,), "q"), device("c", (0,)))
    assert chosen(state, 2) == ["a", "c"]


def test_roots_count_on_a_machine_without_nodes():
    state = snapshot(device("a", root="p"), device("b", root="q"), device("c", root="p"))
    assert chosen(state, 2) == ["a", "c"]


def test_a_root_is_text_and_what_else_the_attribute_holds_is_none():
    odd = Device("a", attributes={"pcie_root": 1}, numa_nodes=(0,))
    none = Device("b", attributes={"pcie_root": True}, numa_nodes=(0,))
    state = snapshot(odd, none, device("c", (0,), "p"), device("d", (0,), "q"))
    assert set(chosen(state, 3)) == {"a", "b", "c"}
    assert reasons("numa", [odd]) == ["1 device on node 0"]


@given(st.integers(1, 12), st.integers(1, 8), st.integers(1, 800), st.randoms())
@settings(max_examples=60)
def test_many_devices_are_on_no_more_nodes_and_roots_than_need_be(nodes, roots, size, rng):
    spots = [(n, f"{n}-{r}") for n in range(nodes) for r in range(roots)]
    devices = []
    for i in range(800):
        node, root = rng.choice(spots)
        devices.append(device(f"d{i:03}", (node,), root))
    got = {id_: where(one.device) for id_, one in snapshot(*devices).by_id.items()}
    ids = chosen(snapshot(*devices), size)
    assert len(ids) == size
    on_nodes = {got[id_][0] for id_ in ids}
    assert len(on_nodes) == fewest(Counter(node for node, _ in got.values()), size)
    in_these = Counter(root for node, root in got.values() if node in on_nodes)
    assert len({got[id_][1] for id_ in ids}) == fewest(in_these, size)


def where(one):
    return one.numa_nodes[0], one.attributes["pcie_root"]


def fewest(rooms, size):
    """How many of the largest it takes; each device is in one."""
    total = 0
    for count, (_, room) in enumerate(rooms.most_common(), 1):
        total += room
        if total >= size:
            return count
    raise AssertionError


def some(count, top):
    return tuple(sorted(RNG.sample(range(top), count)))


RNG = random.Random(1)  # noqa: S311 - the same each time
SHAPES = {  # by name: how many devices, and where they are, with how many replicas
    "8 nodes": (10_000, lambda i: ((i % 8,),)),
    "8 nodes, 4 roots each": (10_000, lambda i: ((i % 8,), f"{i % 32}")),
    "8 nodes, 16 roots each": (10_000, lambda i: ((i % 8,), f"{i % 128}")),
    "10,000 roots": (10_000, lambda i: ((i % 8,), f"{i}")),
    "two of 8 nodes": (10_000, lambda i: (some(2, 8), f"{i % 16}")),
    "three of 64 nodes": (10_000, lambda _: (some(3, 64),)),
    "64 nodes": (10_000, lambda _: (some(1, 64),)),
    "nothing known of half": (10_000, lambda i: ((i % 2,) * (i % 4 > 1),)),
    "3 or 4 replicas": (2800, lambda i: (some(1, 8), f"{i % 32}", 3 + i % 2)),
    "100 replicas": (100, lambda i: (some(1, 8), f"{i % 16}", 100)),
    "replicas at random": (100, lambda i: (some(1, 8), f"{i % 16}", RNG.randrange(1, 200))),
}


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_ten_thousand_ids_are_chosen_from_in_no_time(distinct, shape):
    count, place = SHAPES[shape]
    state = snapshot(*(device(f"d{i:05}", *place(i)) for i in range(count)))
    ids = sorted(state.by_id, key=lambda id_: id_[::-1])
    slowest = 0.0
    for size, must in ((1, 0), (101, 0), (5001, 0), (9000, 0), (5001, 2500)):
        times = [seconds(state, size, ids[:must], ids, distinct) for _ in range(3)]
        slowest = max(slowest, min(times))
    print(f"{shape}, distinct={distinct}: {slowest * 1000:.1f} ms")
    assert slowest < 0.2


def seconds(state, size, must, ids, distinct):
    started = time.thread_time()
    chosen(state, size, must, ids, distinct=distinct)
    return time.thread_time() - started


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        (
            [device("a", (0,), "pci0000:00"), device("b", (0,), "pci0000:00")],
            ["2 devices on node 0", "one PCIe root pci0000:00"],
        ),
        (
            [device("a", (0,), "p"), device("b", (1,), "q"), device("c")],
            ["2 devices on 2 nodes (0, 1)", "2 PCIe roots (p, q)"],
        ),
        ([device("a", (0, 1)), device("a", (0, 1))], ["1 device on 2 nodes (0, 1)"]),
        ([device("a", root="p")], ["one PCIe root p"]),
        ([device("a"), device("b")], []),
        ([], []),
    ],
)
def test_reasons(devices, said):
    assert reasons("numa", devices) == said
    assert reasons("pack", devices) == reasons("spread", devices) == []
