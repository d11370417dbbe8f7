"""GetPreferredAllocation: which IDs go together."""

import time
from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_plugin.allocation import Refused, prefer, shares
from device_plugin.config import Allocation, PerContainer, Resource
from device_plugin.device import Device
from device_plugin.listing import Listed, Snapshot


def resource(how="pack", **rules):
    limits = PerContainer(**rules)
    return Resource("example.com/r", (), allocation=Allocation(how), per_container=limits)


def snapshot(replicas, *, unhealthy=()):
    """Devices a, b, ... with so many replicas each."""
    devices = (Device(chr(97 + i), replicas=count) for i, count in enumerate(replicas))
    return Snapshot(tuple(Listed(d, "bad" if d.id in unhealthy else "") for d in devices))


def by_device(ids):
    return Counter(id_[0] for id_ in ids)


resources = st.builds(
    resource,
    st.sampled_from(["numa", "pack", "spread"]),
    max=st.none() | st.integers(1, 6),
    distinct=st.booleans(),
)
rooms = st.lists(st.integers(1, 4), min_size=1, max_size=5)


@st.composite
def requests(draw):
    """A snapshot, what is available and what must be in it, as the kubelet asks."""
    state = snapshot(draw(rooms), unhealthy=draw(st.sets(st.sampled_from("abcde"), max_size=2)))
    available = draw(st.sets(st.sampled_from(list(state.by_id))))
    must = draw(st.sets(st.sampled_from(sorted(available)), max_size=3)) if available else set()
    return state, available, must


@given(resources, requests(), st.integers(-2, 12))
def test_the_answer_has_the_size_the_fixed_ones_and_none_that_is_not_available(
    resource, request, size
):
    state, available, must = request
    chosen = prefer(resource, state, available, must, size)
    if chosen:
        assert len(chosen) == len(set(chosen)) == size
        assert must <= set(chosen) <= available
        assert all(state.by_id[id_].healthy for id_ in set(chosen) - must)


@given(resources, requests(), st.integers(0, 12))
def test_there_is_an_answer_wherever_allocate_would_accept_one(resource, request, size):
    state, available, must = request

    def accepted(ids):
        try:
            shares(resource, state, ids)
        except Refused:
            return False
        return must <= set(ids)

    chosen = prefer(resource, state, available, must, size)
    could = any(accepted(ids) for ids in combinations(available, size))
    assert bool(chosen) == (could and size > 0) or not all(state.by_id[m].healthy for m in must)
    if chosen and all(state.by_id[m].healthy for m in must):
        assert accepted(chosen)


@given(resources, requests(), st.integers(0, 8), st.randoms())
def test_order_and_repetition_of_the_request_mean_nothing(resource, request, size, rng):
    state, available, must = request
    expected = prefer(resource, state, available, must, size)
    again = prefer(resource, state, twice(available, rng), twice(must, rng), size)
    assert again == expected


def twice(ids, rng):
    doubled = [*sorted(ids), *sorted(ids)]
    rng.shuffle(doubled)
    return doubled


@given(
    st.lists(st.integers(1, 6), min_size=2, max_size=6),
    st.sets(st.sampled_from(["a", "a-r1", "b", "c-r2"]), max_size=2),
    st.integers(1, 20),
)
@settings(max_examples=300)
def test_packing_takes_the_fewest_devices_and_leaves_the_least_behind(rooms, must, size):
    state = snapshot(rooms)
    must &= set(state.by_id)
    chosen = prefer(resource("pack"), state, state.by_id, must, size)
    room, held, taken = by_device(state.by_id), set(by_device(must)), by_device(chosen)
    ways = [
        (count, sum(room[device] for device in devices))
        for count in range(1, len(rooms) + 1)
        for devices in combinations(room, count)
        if held <= set(devices)
    ]
    if chosen:
        best = min((count, total) for count, total in ways if total >= size)
        assert (len(taken), sum(room[device] for device in taken)) == best


@pytest.mark.parametrize(
    ("rooms", "size", "taken"),
    [
        ([5, 4, 3, 3], 6, {"c": 3, "d": 3}),  # the largest first would leave two
        ([4, 1, 2, 3], 2, {"c": 2}),
        ([2, 2, 2], 4, {"a": 2, "b": 2}),
        ([1, 1, 1], 3, {"a": 1, "b": 1, "c": 1}),
        ([3, 5], 4, {"b": 4}),
    ],
)
def test_packing_by_example(rooms, size, taken):
    state = snapshot(rooms)
    assert by_device(prefer(resource(), state, state.by_id, (), size)) == taken


def test_packing_begins_with_the_devices_that_the_container_has():
    state = snapshot([1, 3, 3])
    chosen = prefer(resource(), state, state.by_id, ["c-r1"], 3)
    assert by_device(chosen) == {"c": 3}


@given(rooms, st.sets(st.sampled_from(["a", "a-r1", "b", "b-r1", "c"])), st.integers(1, 12))
def test_spreading_is_as_even_as_can_be(rooms, must, size):
    state = snapshot(rooms)
    must &= set(state.by_id)
    chosen = prefer(resource("spread"), state, state.by_id, must, size)
    assert bool(chosen) == (len(must) <= size <= len(state.by_id))
    counts, fixed = by_device(chosen), by_device(must)
    for fuller in counts:
        if counts[fuller] > fixed[fuller]:  # one was chosen here; was there a better place?
            for emptier, room in by_device(state.by_id).items():
                assert counts[emptier] == room or counts[fuller] <= counts[emptier] + 1


def test_spreading_prefers_the_device_with_most_left():
    state = snapshot([1, 3, 2])
    assert prefer(resource("spread"), state, state.by_id, (), 1) == ["b"]
    assert by_device(prefer(resource("spread"), state, state.by_id, (), 4)) == {
        "a": 1,
        "b": 2,
        "c": 1,
    }


def test_distinct_never_takes_two_of_one_device():
    state = snapshot([3, 3, 1])
    for how in ("numa", "pack", "spread"):
        rules = resource(how, distinct=True)
        assert max(by_device(prefer(rules, state, state.by_id, ["a-r2"], 3)).values()) == 1
        assert prefer(rules, state, state.by_id, ["a-r2"], 4) == []
        assert prefer(rules, state, state.by_id, ["a", "a-r1"], 3) == []
    assert prefer(resource(distinct=True), state, state.by_id, (), 1) == ["c"]
    assert prefer(resource("spread", distinct=True), state, state.by_id, (), 1) == ["a"]
    for how in ("numa", "pack"):
        some = snapshot([3, 2, 1, 1])
        assert prefer(resource(how, distinct=True), some, some.by_id, (), 3) == ["c", "d", "b"]


def test_more_than_a_container_may_have_is_left_to_allocate_to_refuse():
    state = snapshot([3])
    assert prefer(resource(max=2), state, state.by_id, (), 3) == []
    assert len(prefer(resource(max=2), state, state.by_id, (), 2)) == 2


@pytest.mark.parametrize(
    ("available", "must", "size"),
    [
        (["a", "b"], ["x"], 1),  # unknown
        (["a", "b"], ["a", "b"], 1),  # more fixed than wanted
        (["a", "b"], [], 3),  # too few
        (["bad", "x", ""], [], 1),
        ([], [], 1),
        ([], [], 0),
        (["a"], [], -1),
    ],
)
def test_what_cannot_be_is_left_to_the_kubelet(available, must, size):
    assert prefer(resource(), snapshot([1, 1]), available, must, size) == []


def test_a_fixed_one_is_kept_though_it_is_broken_or_not_offered():
    state = snapshot([1, 1, 1], unhealthy=["a"])
    assert prefer(resource(), state, ["b", "c"], ["a"], 2) == ["a", "b"]


@pytest.mark.parametrize("how", ["numa", "pack", "spread"])
@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("shape", [[1] * 10_000, [4, 3] * 1400, [100] * 100, [10_000]])
def test_ten_thousand_ids_are_chosen_from_in_no_time(how, distinct, shape):
    devices = (Device(f"d{i:05}", replicas=count) for i, count in enumerate(shape))
    state = Snapshot(tuple(map(Listed, devices)))
    ids = sorted(state.by_id, key=lambda id_: id_[::-1])
    started = time.perf_counter()
    for size in (1, 3, 101, 5001):
        prefer(resource(how, distinct=distinct), state, ids, ids[: size // 2], size)
    taken = (time.perf_counter() - started) / 4
    print(f"{how} {distinct} {len(shape)} devices: {taken * 1000:.1f} ms")
    assert taken < 0.5
