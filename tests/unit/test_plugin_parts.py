"""What a stream sends and how often: the list, its differences, its pace."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_plugin.device import Device
from device_plugin.listing import Listed, Snapshot
from device_plugin.plugin import Pace, list_message


def health(snapshot, *rest):
    return [(device.ID, device.health) for device in list_message(snapshot, *rest).devices]


listed = st.builds(
    Listed,
    st.builds(Device, st.sampled_from("abcd"), replicas=st.integers(1, 3)),
    st.sampled_from(["", "", "bad", "worse"]),
)
snapshots = st.lists(listed, max_size=4, unique_by=lambda one: one.device.id).map(
    lambda devices: Snapshot(tuple(sorted(devices, key=lambda one: one.device.id)))
)


def test_replicas_have_the_health_of_their_device():
    snapshot = Snapshot((Listed(Device("a", replicas=2)), Listed(Device("b"), "bad")))
    assert health(snapshot) == [("a", "Healthy"), ("a-r1", "Healthy"), ("b", "Unhealthy")]
    assert health(Snapshot()) == []


def test_no_device_says_where_it_is_unless_it_knows():
    (device,) = list_message(Snapshot((Listed(Device("a")),))).devices
    assert not device.HasField("topology")


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
    devices = [Listed(Device(f"d{i:05}")) for i in range(10_000)]
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
