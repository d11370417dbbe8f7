"""The inventory against every series of looks that hypothesis can think of."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from device_plugin import inventory as module
from device_plugin.device import REMOVED, Candidate, Device, Node, natural_key
from device_plugin.inventory import Inventory, Listed, Snapshot
from device_plugin.plugin import list_message

R = "example.com/r"
LIMIT = 700  # bytes: room for a handful

devices = st.builds(
    Device,
    id=st.sampled_from(["a", "a1", "a2", "a10", "a01", "b", "b-1", "x" * 57]),
    nodes=st.sampled_from([(), (Node("/dev/x"),), (Node("/dev/y"),)]),
    replicas=st.integers(1, 6),
)
looks = st.lists(
    st.builds(
        Candidate, devices, st.sampled_from(["", "", "broken", "moved"]), handed_out=st.booleans()
    ),
    max_size=8,
    unique_by=lambda candidate: candidate.device.id,
)


def worst_size(snapshot):
    """Of the message in which every device is unhealthy."""
    listed = tuple(Listed(one.device, "bad") for one in snapshot.devices)
    return list_message(Snapshot(listed)).ByteSize()


class Looks(RuleBasedStateMachine):
    @initialize()
    def begin(self):
        self.limit, module.LIST_LIMIT = module.LIST_LIMIT, LIMIT
        self.inventory = Inventory([R])
        self.last = []

    def teardown(self):
        module.LIST_LIMIT = self.limit

    @rule(found=looks)
    def look(self, found):
        before = self.inventory.snapshot(R)
        update = self.inventory.replace(R, iter(found))
        after = self.inventory.snapshot(R)
        self.last = found
        old = {one.device.id: one for one in before.devices}
        new = {one.device.id: one for one in after.devices}
        assert old.keys() <= new.keys()
        assert {id_: (old.get(id_), one) for id_, one in new.items() if one != old.get(id_)} == {
            change.listed.device.id: (change.before, change.listed) for change in update.changes
        }
        self.check_known(found, old, new, update)
        self.check_newcomers(found, old, new, update)

    def check_known(self, found, old, new, update):
        seen = {candidate.device.id: candidate for candidate in found}
        for id_, before in old.items():
            candidate = seen.get(id_)
            assert new[id_].reason == (candidate.problem if candidate else REMOVED)
            renewed = candidate and not candidate.problem and id_ not in update.refused
            expected = candidate.device if candidate and renewed else before.device
            assert new[id_].device == expected

    def check_newcomers(self, found, old, new, update):
        for candidate in found:
            id_, device = candidate.device.id, candidate.device
            if id_ in old:
                continue
            is_withheld = bool(candidate.problem) and not candidate.handed_out
            assert (candidate in update.withheld) == is_withheld
            if id_ in new:
                assert new[id_] == Listed(device, candidate.problem)
            elif not is_withheld:
                assert id_ in update.refused
                room = LIMIT - sum(map(module._size, (one.device for one in new.values())))
                assert module._size(device) > room

    @rule()
    def look_again(self):
        before = self.inventory.snapshot(R)
        update = self.inventory.replace(R, self.last)
        if not update.refused or all(one.device.id not in update.refused for one in before.devices):
            # What was refused may fit now that others have shrunk, else all is as it was.
            assert all(change.before is None for change in update.changes)
        if not update.changes:
            assert self.inventory.snapshot(R) is before

    @invariant()
    def the_list_fits_and_is_in_order(self):
        snapshot = self.inventory.snapshot(R)
        assert worst_size(snapshot) <= LIMIT
        ids = [one.device.id for one in snapshot.devices]
        assert ids == sorted(ids, key=natural_key)

    @invariant()
    def what_it_is_asked_by_is_the_list(self):
        snapshot = self.inventory.snapshot(R)
        expected = [(id_, one) for one in snapshot.devices for id_ in one.device.replica_ids]
        assert list(snapshot.by_id.items()) == expected
        assert list(snapshot.positions) == [id_ for id_, _ in expected]
        assert list(snapshot.positions.values()) == list(range(len(expected)))


TestLooks = Looks.TestCase
TestLooks.settings = settings(max_examples=60, stateful_step_count=12, deadline=None)
