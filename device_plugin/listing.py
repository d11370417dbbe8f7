"""What the kubelet is told of each device, and what one look at the node changes in it.

An ID without its device, a replica too many for instance, is an entry of its own.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from types import MappingProxyType

import msgspec

from device_plugin.device import (
    ID_LIMIT,
    REMOVED,
    Candidate,
    Device,
    natural_key,
    split_replica,
)

NOT_IN_CONFIG = "not in config"  # the reason of an ID that the config had and has no more
# The reason of a device that moved to DRA while a Pod has it: the scheduler must not see it at all,
# for a claim may tolerate what is wrong with a device.
HELD_BY_PLUGIN = "a container holds it through the device plugin"
CLAIMED = "a claim holds it"  # the other way round
HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"

# The kubelet's receive limit is 4 MiB a message and a longer list ends the stream. What every
# device would take at worst: the ID, "Unhealthy", and the lengths and tags around them; NUMA nodes
# come on top.
LIST_LIMIT = 4 * 1024 * 1024 - 1024
_ENTRY_OVERHEAD = len(UNHEALTHY) + 8


class Listed(msgspec.Struct, frozen=True):
    """One device as the kubelet is told of it; `reason` says why it is unhealthy, if it is.

    `present`: the last look found it. `since`: when the reason became what it is, in seconds since
    the epoch.
    """

    device: Device
    reason: str = ""
    present: bool = True
    since: float = 0.0

    @property
    def healthy(self) -> bool:
        return not self.reason

    @property
    def health(self) -> str:
        """As the kubelet spells it."""
        return UNHEALTHY if self.reason else HEALTHY


class Snapshot(msgspec.Struct, frozen=True, dict=True):
    """All devices of one resource at one moment, in natural ID order."""

    devices: tuple[Listed, ...] = ()

    @cached_property
    def by_id(self) -> MappingProxyType[str, Listed]:
        """Every schedulable ID, replicas included, in list order."""
        return MappingProxyType(
            {id_: listed for listed in self.devices for id_ in listed.device.replica_ids}
        )

    @cached_property
    def positions(self) -> MappingProxyType[str, int]:
        """The place of every schedulable ID in list order."""
        return MappingProxyType({id_: i for i, id_ in enumerate(self.by_id)})


class Change(msgspec.Struct, frozen=True):
    """A device that appeared, or whose health turned."""

    listed: Listed
    before: Listed | None


class Update(msgspec.Struct, frozen=True):
    """What came of one look."""

    changes: tuple[Change, ...] = ()
    withheld: tuple[Candidate, ...] = ()  # never seen whole: no device yet
    refused: tuple[str, ...] = ()  # IDs of new devices that the list has no room for

    @property
    def notes(self) -> list[str]:
        """What is on the node but not offered, and why."""
        notes = [f"{c.device.id}: {c.problem}" for c in self.withheld]
        return notes + [f"{id_}: the list is full" for id_ in self.refused]


def merge(
    before: Snapshot,
    found: Iterable[Candidate],
    now: float,
    *,
    held: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
    dropped: Collection[str] = (),
    disabled: Mapping[str, str] = MappingProxyType({}),
    failed: str = "",
) -> tuple[Snapshot, Update]:
    """The list after a look; the same object where nothing is new. See `Inventory.replace`."""
    known = {listed.device.id: listed for listed in before.devices}
    merged = _Merge(known, now, dropped, disabled, failed)
    held_devices = {split_replica(id_)[0] for id_ in held}
    for candidate in found:
        merged.take(candidate, is_held=candidate.device.id in held_devices)
    merged.lose()
    merged.add_held(held)
    refused = _fit(list(known.values()), merged.kept, merged.newcomers, merged.surplus)
    devices, changes = merged.outcome()
    update = Update(tuple(changes), tuple(merged.withheld), tuple(refused))
    if not changes and len(devices) == len(known):
        return before, update
    return Snapshot(tuple(devices)), update


class _Merge:
    """What was listed, and what becomes of it.

    Entries stay the same objects where nothing is new: that is how a change is told from none.
    """

    def __init__(
        self,
        before: dict[str, Listed],
        now: float,
        dropped: Collection[str],
        disabled: Mapping[str, str],
        failed: str,
    ) -> None:
        self._before, self._now = before, now
        self._dropped, self._disabled = dropped, disabled
        self._failed = failed
        self._present: dict[str, Listed] = {}
        self.kept: list[Listed] = []  # parallel to `before`
        self.surplus: list[Listed] = []  # replicas of kept devices that are now too many
        self.newcomers: list[Listed] = []
        self.withheld: list[Candidate] = []

    def take(self, candidate: Candidate, *, is_held: bool) -> None:
        id_ = candidate.device.id
        old = self._before.get(id_)
        reason = self._disabled.get(id_) or candidate.problem
        if old is not None:
            # A broken device stays what it was when whole.
            stale = candidate.problem and old.device.nodes
            device = old.device if stale or old.device == candidate.device else candidate.device
            self._present[id_] = self._renewed(old, device, reason, present=True)
        elif candidate.problem and not is_held:
            self.withheld.append(candidate)
        else:
            self.newcomers.append(Listed(candidate.device, reason, since=self._now))

    def lose(self) -> None:
        """What was not found is gone, or was dropped."""
        for id_, old in self._before.items():
            reason = NOT_IN_CONFIG if id_ in self._dropped or old.reason == NOT_IN_CONFIG else ""
            new = self._present.get(id_)
            new = new or self._renewed(old, old.device, reason or self._gone(old), present=False)
            self.kept.append(new)
            if new.device.replicas < old.device.replicas:
                ids = old.device.replica_ids[new.device.replicas :]
                nodes = old.device.numa_nodes
                self.surplus += [self._left_over(id_, NOT_IN_CONFIG, nodes) for id_ in ids]

    def _gone(self, old: Listed) -> str:
        """Why a device is not found; where looking failed, nobody knows whether it is there."""
        was_removed = not old.present and old.reason == REMOVED
        return REMOVED if was_removed or not self._failed else self._failed

    def add_held(self, held: Mapping[str, tuple[int, ...]]) -> None:
        """List what containers hold and nothing else lists; before newcomers, if room is scarce."""
        listed = [*self.kept, *self.surplus, *self.newcomers]
        replicas = {one.device.id: one.device.replicas for one in listed}
        missing = [id_ for id_ in held if id_ not in replicas and not _replica_in(id_, replicas)]
        found = self._present.keys() | {one.device.id for one in self.newcomers}
        dropped = found.union(self._dropped)
        self.newcomers[:0] = [
            self._left_over(
                id_, NOT_IN_CONFIG if split_replica(id_)[0] in dropped else REMOVED, held[id_]
            )
            for id_ in missing
        ]

    def outcome(self) -> tuple[list[Listed], list[Change]]:
        """All entries in order, and those that are new or changed."""
        pairs = list(zip(self.kept, self._before.values(), strict=True))
        added = self.newcomers + self.surplus
        kept = self.kept
        if not all(one.present for one in kept):  # replicas that are back are listed with theirs
            whole = {one.device.id: one.device.replicas for one in [*kept, *self.newcomers]}
            kept = [one for one in kept if one.present or not _is_replica_of(one, whole)]
        changes = [Change(new, old) for new, old in pairs if new is not old]
        changes += [Change(new, None) for new in added]
        return _ordered(kept, added), changes

    def _renewed(self, old: Listed, device: Device, reason: str, *, present: bool) -> Listed:
        if (device, reason, present) == (old.device, old.reason, old.present):
            return old
        since = old.since if reason == old.reason else self._now
        return Listed(device, reason, present, since)

    def _left_over(self, id_: str, reason: str, numa_nodes: tuple[int, ...]) -> Listed:
        # Without its NUMA nodes a kubelet that restarts may reject the Pod that holds it.
        device = Device(id_, numa_nodes=numa_nodes)
        return Listed(device, reason, present=False, since=self._now)


def _is_replica_of(listed: Listed, whole: Mapping[str, int]) -> bool:
    base, _ = split_replica(listed.device.id)
    return base != listed.device.id and _replica_in(listed.device.id, whole)


def _replica_in(id_: str, whole: Mapping[str, int]) -> bool:
    base, number = split_replica(id_)
    return number < whole.get(base, 0)


def _fit(
    known: list[Listed], kept: list[Listed], newcomers: list[Listed], surplus: list[Listed]
) -> list[str]:
    """Undo what the list has no room for; returns the IDs. What is listed stays as it was."""
    refused: list[str] = []
    grown = [i for i, (new, old) in enumerate(zip(kept, known, strict=True)) if _grew(new, old)]
    if not grown and not newcomers:
        return refused
    room = LIST_LIMIT - sum(_size(listed.device) for listed in [*kept, *surplus])
    for i in grown:
        if room < 0:
            refused.append(kept[i].device.id)
            before = known[i].device
            again = set(before.replica_ids)  # those that would have been too many are its own again
            back = [listed for listed in surplus if listed.device.id in again]
            surplus[:] = [listed for listed in surplus if listed.device.id not in again]
            room += _size(kept[i].device) - _size(before)
            room += sum(_size(listed.device) for listed in back)
            kept[i] = _as_before(known[i], kept[i])
    fitting = []
    for newcomer in newcomers:
        size = _size(newcomer.device)
        if size > room:
            refused.append(newcomer.device.id)
        else:
            room -= size
            fitting.append(newcomer)
    newcomers[:] = fitting
    return refused


def _as_before(old: Listed, new: Listed) -> Listed:
    """The entry without its new replicas or NUMA nodes."""
    if (new.reason, new.present) == (old.reason, old.present):
        return old
    return msgspec.structs.replace(new, device=old.device)


def _grew(new: Listed, old: Listed) -> bool:
    return new.device is not old.device and _size(new.device) > _size(old.device)


def _ordered(kept: list[Listed], newcomers: list[Listed]) -> list[Listed]:
    # Without newcomers the order is that of the last snapshot: 10,000 keys need not be made again.
    if not newcomers:
        return kept
    return sorted(kept + newcomers, key=lambda listed: natural_key(listed.device.id))


def _size(device: Device) -> int:
    around = _ENTRY_OVERHEAD + _topology_size(device.numa_nodes)
    if split_replica(device.id)[1]:  # left over: it is one ID and stays one
        return len(device.id) + around
    return device.replicas * (min(len(device.id) + len("-r9999"), ID_LIMIT) + around)


def _topology_size(nodes: tuple[int, ...]) -> int:
    """A tag and a length of at most 3 bytes, and for each node two tags, a length and a varint."""
    return 4 + sum(3 + max(1, -(-node.bit_length() // 7)) for node in nodes) if nodes else 0
