"""What a stream sends and how often: the list, its differences, its pace."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_plugin import allocation, listing
from device_plugin._api.deviceplugin.v1beta1 import deviceplugin_pb2 as pb
from device_plugin.config import Resource
from device_plugin.device import ID_LIMIT, Candidate, Device
from device_plugin.host import Host
from device_plugin.inventory import Inventory
from device_plugin.listing import Listed, Snapshot
from device_plugin.metrics import Metrics
from device_plugin.plugin import Pace, Plugin, list_message


def health(snapshot, *rest):
    return [(device.ID, device.health) for device in list_message(snapshot, *rest).devices]


entries = st.builds(
    Listed,
    st.builds(
        Device,
        st.sampled_from("abcd"),
        replicas=st.integers(1, 3),
        numa_nodes=st.sampled_from([(), (), (0,), (1,), (0, 1)]),
    ),
    st.sampled_from(["", "", "bad", "worse"]),
)
snapshots = st.lists(entries, max_size=4, unique_by=lambda one: one.device.id).map(
    lambda devices: Snapshot(tuple(sorted(devices, key=lambda one: one.device.id)))
)


def test_replicas_have_the_health_of_their_device():
    snapshot = Snapshot((Listed(Device("a", replicas=2)), Listed(Device("b"), "bad")))
    assert health(snapshot) == [("a", "Healthy"), ("a-r1", "Healthy"), ("b", "Unhealthy")]
    assert health(Snapshot()) == []


def numa(message):
    """The NUMA nodes of each ID; None without a topology."""
    return {
        device.ID: [node.ID for node in device.topology.nodes]
        if device.HasField("topology")
        else None
        for device in message.devices
    }


def test_no_device_says_where_it_is_unless_it_knows():
    (device,) = list_message(Snapshot((Listed(Device("a")),))).devices
    assert not device.HasField("topology")


def test_devices_say_on_which_nodes_they_are_healthy_or_not():
    devices = (
        Device("a", numa_nodes=(0,), replicas=2),
        Device("b"),
        Device("c", numa_nodes=(0, 3)),
    )
    for reason in ("", "bad"):
        message = list_message(Snapshot(tuple(Listed(device, reason) for device in devices)))
        assert numa(message) == {"a": [0], "a-r1": [0], "b": None, "c": [0, 3]}


def test_a_device_that_moves_to_another_node_is_noticed():
    a, b = Listed(Device("a", numa_nodes=(0,))), Listed(Device("b"))
    before = Snapshot((a, b))
    sent = list_message(before)
    for nodes, expected in (((1,), [1]), ((0, 1), [0, 1]), ((), None)):
        after = Snapshot((Listed(Device("a", numa_nodes=nodes)), b))
        message = list_message(after, before, sent)
        assert message != sent
        assert numa(message) == {"a": expected, "b": None}


@given(st.lists(entries, max_size=3), st.lists(st.integers(0, 2**31), max_size=5, unique=True))
def test_the_list_is_no_larger_than_was_reckoned(some, nodes):
    device = Device("x" * (ID_LIMIT - 6), replicas=1100, numa_nodes=tuple(sorted(nodes)))
    snapshot = Snapshot(tuple(Listed(one.device, "bad") for one in [*some, Listed(device)]))
    reckoned = sum(listing._size(one.device) for one in snapshot.devices)
    assert list_message(snapshot).ByteSize() <= reckoned


R = "example.com/r"
LIMIT = 30_000  # bytes


@pytest.fixture
def inventory(monkeypatch):
    """An empty one, of which the kubelet takes no more than LIMIT."""
    monkeypatch.setattr(listing, "LIST_LIMIT", LIMIT)
    return Inventory([R])


def test_what_has_a_topology_fits_into_the_kubelets_limit(inventory):
    found = [Device(f"{i:057}", numa_nodes=(0, 1, 200, 1023)) for i in range(400)]
    assert inventory.replace(R, map(Candidate, found)).refused
    inventory.replace(R, [])
    assert LIMIT * 0.75 < list_message(inventory.snapshot(R)).ByteSize() <= LIMIT


def test_nodes_that_do_not_fit_any_more_are_left_out(inventory):
    known = [Candidate(Device(f"{i:057}")) for i in range(400)]
    listed = len(known) - len(inventory.replace(R, known).refused)
    moved = [Candidate(Device(one.device.id, numa_nodes=(1,))) for one in known[:listed]]
    refused = inventory.replace(R, moved).refused
    inventory.replace(R, [])
    message = list_message(inventory.snapshot(R))
    assert message.ByteSize() <= LIMIT
    assert {device.ID for device in message.devices} == {one.device.id for one in moved}
    assert set(refused) == {id_ for id_, nodes in numa(message).items() if nodes is None}


@given(st.lists(snapshots, min_size=2, max_size=5))
def test_a_list_made_from_the_last_one_is_the_list_made_anew(states):
    before = sent = None
    for state in states:
        last = sent.SerializeToString() if sent else None
        message = list_message(state, before, sent)
        assert message == list_message(state)
        assert sent is None or sent.SerializeToString() == last  # it may be on its way still
        before, sent = state, message


def test_one_flip_among_ten_thousand_is_made_in_no_time():
    devices = [Listed(Device(f"d{i:05}", numa_nodes=(i % 8,))) for i in range(10_000)]
    before = Snapshot(tuple(devices))
    sent = list_message(before)
    devices[5000] = Listed(devices[5000].device, "bad")
    after = Snapshot(tuple(devices))
    started = time.perf_counter()
    message = list_message(after, before, sent)
    taken = time.perf_counter() - started
    print(f"{taken * 1000:.1f} ms")
    assert [d.ID for d in message.devices if d.health == "Unhealthy"] == ["d05000"]
    assert taken < 0.3


def sent_within(seconds, pace=None):
    """How many messages go out where there is always news; the clock begins anywhere."""
    pace = pace or Pace()
    now, count = 5000.0, 0
    end = now + seconds
    while now < end:
        count += 1
        now += pace.after_send(now)
    return count


def test_a_single_change_goes_at_once():
    pace = Pace()
    for day in range(1000):
        assert pace.after_send(day * 86_400.0) == Pace.REST
    assert Pace.REST <= 0.005


def test_a_flood_is_bounded_and_a_burst_is_not():
    assert sent_within(0.5) > 100
    assert sent_within(100) <= Pace.BUDGET + 100 * Pace.REFILL + 2
    assert sent_within(1000) <= Pace.BUDGET + 1000 * Pace.REFILL + 2
    assert sent_within(1000) >= 1000 * Pace.REFILL * 0.9


def test_a_flood_leaves_no_debt():
    pace = Pace()
    sent_within(1000, pace)
    assert pace.after_send(5000.0 + 1000 + Pace.BUDGET / Pace.REFILL + 1) == Pace.REST


@given(st.lists(st.floats(0, 100), min_size=1, max_size=50))
def test_every_rest_is_short_and_the_budget_holds(pauses):
    pace = Pace()
    now = 1.0
    for pause in pauses:
        rest = pace.after_send(now)
        assert rest in (Pace.REST, 1 / Pace.REFILL)
        assert 0 <= pace._budget <= Pace.BUDGET
        now += rest + pause


def test_the_clock_may_begin_at_nought():
    pace = Pace()
    for now in (0.0, 0.0, 0.0):
        assert pace.after_send(now) == Pace.REST
    assert pace._budget == pytest.approx(Pace.BUDGET - 3)


def test_a_preference_that_fails_leaves_the_choice_to_the_kubelet(monkeypatch):
    """For an error it would fail the Pod for good."""
    monkeypatch.setattr(allocation, "prefer", lambda *_: 1 / 0)
    unused: Any = None
    made = Plugin(
        resource=lambda: Resource("example.com/a", devices=()),
        inventory=Inventory(),
        host=Host(),
        handed_out=unused,
        metrics=Metrics(),
        changed=lambda: None,
        suspect=lambda _: None,
        claimed=tuple,
    )
    asked = pb.ContainerPreferredAllocationRequest(available_deviceIDs=["a"], allocation_size=1)
    request = pb.PreferredAllocationRequest(container_requests=[asked, asked])
    answer = made.GetPreferredAllocation(request, unused)
    assert [list(one.deviceIDs) for one in answer.container_responses] == [[], []]
