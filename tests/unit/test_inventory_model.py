"""The inventory against every series of looks that hypothesis can think of."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from device_plugin import listing as module
from device_plugin.device import Candidate, Device, Node, natural_key, split_replica
from device_plugin.inventory import Inventory
from device_plugin.listing import Listed, Snapshot
from device_plugin.plugin import list_message

R = "example.com/r"
LIMIT = 900  # bytes: room for a handful
IDS = ["a", "a1", "a2", "a10", "a01", "b", "b-1", "x" * 57]

devices = st.builds(
    Device,
    id=st.sampled_from(IDS),
    nodes=st.sampled_from([(), (Node("/dev/x"),), (Node("/dev/y"),)]),
    replicas=st.integers(1, 6),
    numa_nodes=st.sampled_from([(), (0,), (0, 1)]),
)
looks = st.lists(
    st.builds(Candidate, devices, st.sampled_from(["", "", "broken", "moved"])),
    max_size=8,
    unique_by=lambda candidate: candidate.device.id,
)
some = st.sets(st.sampled_from(IDS), max_size=2)
holdings = st.sets(st.sampled_from([*IDS, "a-r1", "a-r5", "a1-r9", "b-r2"]), max_size=3)


def worst_size(snapshot):
    """Of the message in which every device is unhealthy."""
    listed = tuple(Listed(one.device, "bad") for one in snapshot.devices)
    return list_message(Snapshot(listed)).ByteSize()


class Looks(RuleBasedStateMachine):
    @initialize()
    def begin(self):
        self.limit, module.LIST_LIMIT = module.LIST_LIMIT, LIMIT
        self.inventory = Inventory([R], clock=lambda: 0.0)
        self.last = None

    def teardown(self):
        module.LIST_LIMIT = self.limit

    @rule(found=looks, held=holdings, dropped=some, disabled=some)
    def look(self, found, held, dropped, disabled):
        reasons = dict.fromkeys(disabled, "disabled")
        before = self.inventory.snapshot(R)
        update = self.inventory.replace(
            R, iter(found), held=dict.fromkeys(held, ()), dropped=dropped, disabled=reasons
        )
        after = self.inventory.snapshot(R)
        self.last = None if update.refused else (found, held, reasons)
        assert before.by_id.keys() <= after.by_id.keys(), "an ID has left the list"
        assert (after is before) == (after == before)
        self.check_changes(before, after, update)
        held_devices = {split_replica(id_)[0] for id_ in held}
        for candidate in found:
            is_held = candidate.device.id in held_devices
            self.check_found(candidate, is_held, reasons, (before, after), update)
        present = {candidate.device.id for candidate in found}
        for listed in after.devices:
            assert listed.present <= (listed.device.id in present)
            assert listed.present or listed.reason in ("removed", "not in config")
        assert held - set(update.refused) <= after.by_id.keys() or update.refused

    def check_changes(self, before, after, update):
        """A change is an entry that is not what it was; one that another took in is none."""
        old = {one.device.id: one for one in before.devices}
        new = {one.device.id: one for one in after.devices}
        changed = {change.listed.device.id: change.listed for change in update.changes}
        assert changed == {id_: one for id_, one in new.items() if one != old.get(id_)}
        assert all(change.before == old.get(change.listed.device.id) for change in update.changes)

    def check_found(self, candidate, is_held, disabled, snapshots, update):
        old, new = ({one.device.id: one for one in snapshot.devices} for snapshot in snapshots)
        id_, device, problem = candidate.device.id, candidate.device, candidate.problem
        withheld = id_ not in old and bool(problem) and not is_held
        assert (candidate in update.withheld) == withheld
        if withheld or id_ in update.refused:
            return
        assert (new[id_].present, new[id_].reason) == (True, disabled.get(id_) or problem)
        if problem and id_ in old and old[id_].device.nodes:
            device = old[id_].device  # it stays what it was when whole
        assert new[id_].device == device

    @rule()
    def look_again(self):
        if self.last is None:
            return  # what was refused may fit now that others have shrunk
        found, held, disabled = self.last
        before = self.inventory.snapshot(R)
        assert (
            self.inventory.replace(
                R, found, held=dict.fromkeys(held, ()), disabled=disabled
            ).changes
            == ()
        )
        assert self.inventory.snapshot(R) is before

    @rule(ids=some)
    def forget(self, ids):
        kept = [one for one in self.inventory.snapshot(R).devices if one.device.id not in ids]
        self.inventory.forget(R, ids)
        self.last = None
        assert list(self.inventory.snapshot(R).devices) == kept

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
        assert list(snapshot.by_id.items()) == expected, "an ID twice"
        assert list(snapshot.positions) == [id_ for id_, _ in expected]
        assert list(snapshot.positions.values()) == list(range(len(expected)))


TestLooks = Looks.TestCase
TestLooks.settings = settings(max_examples=100, stateful_step_count=12, deadline=None)
