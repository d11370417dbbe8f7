"""Which devices the node has and how they are: the daemon's only shared mutable state.

Discovery and health write it, everything else reads snapshots. A device that was listed once
never leaves the list while the process lives (the kubelet may panic when a held ID goes, and it
alone knows which are held): it turns unhealthy, and healthy again under the same ID.
"""

import threading
from collections.abc import Callable, Iterable
from functools import cached_property
from types import MappingProxyType

import msgspec

from device_plugin.device import ID_LIMIT, REMOVED, Candidate, Device, natural_key

HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"

# The kubelet's receive limit is 4 MiB a message and a longer list ends the stream. What every
# device would take at worst: the ID, "Unhealthy", and the lengths and tags around them.
LIST_LIMIT = 4 * 1024 * 1024 - 1024
_ENTRY_OVERHEAD = len(UNHEALTHY) + 8


class Listed(msgspec.Struct, frozen=True):
    """One device as the kubelet is told of it; `reason` says why it is unhealthy, if it is."""

    device: Device
    reason: str = ""

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


class Inventory:
    """Snapshots by resource, and a way to wait for the next one."""

    def __init__(self, resources: Iterable[str]) -> None:
        self._changed = threading.Condition()
        self._snapshots = dict.fromkeys(resources, Snapshot())

    def snapshot(self, resource: str) -> Snapshot:
        return self._snapshots[resource]

    def replace(self, resource: str, found: Iterable[Candidate]) -> Update:
        """Take what discovery found now; what it no longer finds turns unhealthy, "removed"."""
        known = {listed.device.id: listed for listed in self._snapshots[resource].devices}
        present: dict[str, Listed] = {}
        newcomers: list[Listed] = []
        withheld: list[Candidate] = []
        for candidate in found:
            old = known.get(candidate.device.id)
            if old is not None:
                present[old.device.id] = _renewed(old, candidate)
            elif candidate.problem and not candidate.handed_out:
                withheld.append(candidate)
            else:
                newcomers.append(Listed(candidate.device, candidate.problem))
        kept = [present.get(id_) or _gone(old) for id_, old in known.items()]
        refused = _fit(list(known.values()), kept, newcomers)
        changes = [
            Change(new, old)
            for new, old in zip(kept, known.values(), strict=True)
            if new is not old
        ]
        changes += [Change(new, None) for new in newcomers]
        if changes:
            self._publish(resource, Snapshot(tuple(_ordered(kept, newcomers))))
        return Update(tuple(changes), tuple(withheld), tuple(refused))

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """Block until `predicate` holds, asked anew at every change and every `wake`."""
        with self._changed:
            return self._changed.wait_for(predicate, timeout)

    def wake(self) -> None:
        """Let every waiter ask its predicate again."""
        with self._changed:
            self._changed.notify_all()

    def _publish(self, resource: str, snapshot: Snapshot) -> None:
        with self._changed:
            self._snapshots[resource] = snapshot
            self._changed.notify_all()


def _renewed(old: Listed, candidate: Candidate) -> Listed:
    """The same object where nothing is new: that is how a change is told from none."""
    device = old.device if candidate.problem else candidate.device  # what it was when whole
    if device == old.device:
        return old if candidate.problem == old.reason else Listed(old.device, candidate.problem)
    return Listed(device, candidate.problem)


def _gone(old: Listed) -> Listed:
    return old if old.reason == REMOVED else Listed(old.device, REMOVED)


def _fit(known: list[Listed], kept: list[Listed], newcomers: list[Listed]) -> list[str]:
    """Undo what the list has no room for; returns the IDs. What is listed stays as it was."""
    refused: list[str] = []
    grown = [i for i, (new, old) in enumerate(zip(kept, known, strict=True)) if _grew(new, old)]
    if not grown and not newcomers:
        return refused
    room = LIST_LIMIT - sum(_size(listed.device) for listed in kept)
    for i in grown:
        if room < 0:
            refused.append(kept[i].device.id)
            room += _size(kept[i].device) - _size(known[i].device)
            kept[i] = _renewed(known[i], Candidate(known[i].device, kept[i].reason))
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


def _grew(new: Listed, old: Listed) -> bool:
    return new.device is not old.device and new.device.replicas > old.device.replicas


def _ordered(kept: list[Listed], newcomers: list[Listed]) -> list[Listed]:
    # Without newcomers the order is that of the last snapshot: 10,000 keys need not be made again.
    if not newcomers:
        return kept
    return sorted(kept + newcomers, key=lambda listed: natural_key(listed.device.id))


def _size(device: Device) -> int:
    return device.replicas * (min(len(device.id) + len("-r9999"), ID_LIMIT) + _ENTRY_OVERHEAD)
