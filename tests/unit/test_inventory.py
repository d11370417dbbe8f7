"""What the inventory promises to the kubelet, and to those who wait for news."""

import threading
import time

import pytest

from device_plugin.device import ID_LIMIT, MAX_REPLICAS, REMOVED, Candidate, Device, Node
from device_plugin.inventory import Inventory
from device_plugin.listing import LIST_LIMIT, Change, Listed, Snapshot
from device_plugin.plugin import list_message

R, S = "example.com/r", "example.com/s"
MIB4 = 4 * 1024 * 1024


@pytest.fixture
def inventory():
    return Inventory([R, S], clock=lambda: 7.0)


def health(inventory):
    return {one.device.id: one.reason for one in inventory.snapshot(R).devices}


def look(inventory, *found, resource=R):
    return inventory.replace(resource, [Candidate(Device(id_), why) for id_, why in found])


def test_a_device_comes_breaks_goes_and_returns_under_the_same_id(inventory):
    states = []
    for found in ([("a", "")], [("a", "broken")], [], [("a", "broken")], [("a", "")]):
        update = look(inventory, *found)
        assert len(update.changes) == 1
        states.append(health(inventory))
    assert states == [{"a": ""}, {"a": "broken"}, {"a": REMOVED}, {"a": "broken"}, {"a": ""}]


def test_what_is_not_found_where_looking_failed(inventory):
    """Nobody knows whether it is there; only what was removed before stays removed."""
    look(inventory, ("a", ""), ("b", ""))
    look(inventory, ("a", ""))
    failed = "the kind acme failed"
    for _ in range(2):
        inventory.replace(R, [], failed=failed)
        assert health(inventory) == {"a": failed, "b": REMOVED}
    look(inventory, ("b", ""))
    assert health(inventory) == {"a": REMOVED, "b": ""}


def test_a_device_never_seen_whole_is_withheld_and_named(inventory):
    update = look(inventory, ("a", "no companion"))
    assert health(inventory) == {}
    assert update.notes == ["a: no companion"]


def test_a_device_that_a_container_holds_is_listed_whatever_is_wrong(inventory):
    inventory.replace(R, [Candidate(Device("a"), "moved")], held={"a": ()})
    assert health(inventory) == {"a": "moved"}


def test_a_broken_device_stays_what_it_was_when_whole(inventory):
    whole = Device("a", (Node("/dev/a"), Node("/dev/b")), replicas=3)
    inventory.replace(R, [Candidate(whole)])
    inventory.replace(R, [Candidate(Device("a", (Node("/dev/a"),)), "/dev/b does not exist")])
    assert inventory.snapshot(R).devices == (Listed(whole, "/dev/b does not exist", since=7.0),)


def test_replicas_follow_the_health_of_their_device(inventory):
    inventory.replace(R, [Candidate(Device("a", replicas=3))])
    inventory.replace(R, [])
    message = list_message(inventory.snapshot(R))
    assert {d.ID: d.health for d in message.devices} == dict.fromkeys(
        ("a", "a-r1", "a-r2"), "Unhealthy"
    )


def test_replicas_too_many_keep_their_numa_nodes(inventory):
    for replicas in (3, 1):
        inventory.replace(R, [Candidate(Device("a", replicas=replicas, numa_nodes=(1,)))])
    nodes = {one.device.id: one.device.numa_nodes for one in inventory.snapshot(R).devices}
    assert nodes == {"a": (1,), "a-r1": (1,), "a-r2": (1,)}


def test_fewer_replicas_with_numa_nodes_that_do_not_fit(inventory, monkeypatch):
    """The device stays as it was, and so do its replicas: each ID once."""
    inventory.replace(R, [Candidate(Device("a", replicas=3))])
    monkeypatch.setattr("device_plugin.listing.LIST_LIMIT", 0)
    update = inventory.replace(R, [Candidate(Device("a", replicas=2, numa_nodes=(0, 1, 2, 3)))])
    assert update.refused == ("a",)
    ids = [id_ for one in inventory.snapshot(R).devices for id_ in one.device.replica_ids]
    assert ids == ["a", "a-r1", "a-r2"]


def test_nothing_new_is_no_new_snapshot(inventory):
    look(inventory, ("a", ""), ("b", ""))
    before = inventory.snapshot(R)
    assert look(inventory, ("b", ""), ("a", "")).changes == ()
    assert inventory.snapshot(R) is before


def test_a_change_of_nodes_is_a_change_of_the_snapshot(inventory):
    inventory.replace(R, [Candidate(Device("a", (Node("/dev/a"),)))])
    more = Device("a", (Node("/dev/a"), Node("/dev/b")))
    (change,) = inventory.replace(R, [Candidate(more)]).changes
    assert change.listed.device == more
    assert change.before is not None


def test_resources_are_apart(inventory):
    look(inventory, ("a", ""))
    assert inventory.snapshot(S) == Snapshot()
    before = inventory.snapshot(R)
    look(inventory, ("a", "broken"), ("b", ""), resource=S)
    assert inventory.snapshot(R) is before


def test_an_update_says_what_was_before(inventory):
    (new,) = look(inventory, ("a", "")).changes
    (broken,) = look(inventory, ("a", "broken")).changes
    assert new == Change(Listed(Device("a"), since=7), None)
    assert broken == Change(Listed(Device("a"), "broken", since=7), new.listed)


def longest(count, replicas=1):
    room = ID_LIMIT - len(f"-r{MAX_REPLICAS - 1}")
    return [Candidate(Device(f"{i:0{room}}", replicas=replicas)) for i in range(count)]


@pytest.mark.parametrize(("count", "replicas"), [(60_000, 1), (10, MAX_REPLICAS)])
def test_the_list_never_outgrows_the_kubelets_limit(inventory, count, replicas):
    found = longest(count, replicas)
    started = time.monotonic()
    update = inventory.replace(R, found)
    assert time.monotonic() - started < 5
    listed = inventory.snapshot(R).devices
    assert [*(one.device.id for one in listed), *update.refused] == [c.device.id for c in found]
    inventory.replace(R, [])
    size = list_message(inventory.snapshot(R)).ByteSize()
    assert MIB4 * 0.75 < size <= MIB4 - 1024
    assert size <= LIST_LIMIT


def test_listed_devices_stay_when_others_crowd_in(inventory):
    look(inventory, ("zz", ""))
    update = inventory.replace(R, [*longest(10, MAX_REPLICAS), Candidate(Device("zz"))])
    assert health(inventory)["zz"] == ""
    assert update.refused
    assert update.notes[0] == f"{update.refused[0]}: the list is full"


def test_replicas_that_do_not_fit_are_refused_and_the_device_stays(inventory):
    others = longest(5, MAX_REPLICAS)
    inventory.replace(R, [*others, Candidate(Device("a", replicas=2000))])
    grown = [*others, Candidate(Device("a", replicas=MAX_REPLICAS))]
    before = inventory.snapshot(R)
    assert inventory.replace(R, grown).refused == ("a",)
    assert inventory.snapshot(R) is before


def test_a_waiter_hears_of_every_change_and_wake(inventory):
    looked = threading.Semaphore(0)
    is_over = threading.Event()
    seen = []

    def predicate():
        seen.append(health(inventory))
        looked.release()
        return is_over.is_set()

    waiter = threading.Thread(target=inventory.wait_for, args=(predicate,))
    waiter.start()
    looked.acquire()
    look(inventory, ("a", ""))
    looked.acquire()
    inventory.wake()
    looked.acquire()
    look(inventory, ("a", ""))  # no change: nobody is woken
    is_over.set()
    inventory.wake()
    waiter.join(5)
    assert seen == [{}, {"a": ""}, {"a": ""}, {"a": ""}]


def test_waiting_ends_in_time(inventory):
    started = time.monotonic()
    assert not inventory.wait_for(lambda: False, 0.05)
    assert inventory.wait_for(lambda: True, 0)
    assert 0.05 <= time.monotonic() - started < 2


def test_many_waiters_all_see_the_last_state(inventory):
    last, waiters = 200, []

    def wait():
        inventory.wait_for(lambda: len(inventory.snapshot(R).devices) == last, 10)
        ends.append(len(inventory.snapshot(R).devices))

    ends: list[int] = []
    for _ in range(8):
        waiters.append(threading.Thread(target=wait))
        waiters[-1].start()
    for count in range(1, last + 1):
        look(inventory, *((f"d{i}", "") for i in range(count)))
    for waiter in waiters:
        waiter.join(10)
    assert ends == [last] * 8


def test_snapshots_cannot_be_changed(inventory):
    look(inventory, ("a", ""))
    snapshot = inventory.snapshot(R)
    with pytest.raises(TypeError):
        snapshot.by_id["b"] = snapshot.by_id["a"]
    with pytest.raises(AttributeError):
        snapshot.devices = ()
