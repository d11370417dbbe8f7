"""Which devices the node has and how they are: the daemon's only shared mutable state.

Discovery and health write it, everything else reads snapshots. A device that was listed once
never leaves the list while the process lives (the kubelet may panic when a held ID goes, and it
alone knows which are held): it turns unhealthy, and healthy again under the same ID.
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from device_plugin.device import ID_LIMIT, Candidate, Device, natural_key

REMOVED = "removed"

# The kubelet's receive limit is 4 MiB a message and a longer list ends the stream. What every
# device would take at worst: the ID, "Unhealthy", and the lengths and tags around them.
LIST_LIMIT = 4 * 1024 * 1024 - 1024
_ENTRY_OVERHEAD = len("Unhealthy") + 8


@dataclass(frozen=True, slots=True)
class Listed:
    """One device as the kubelet is told of it; `reason` says why it is unhealthy, if it is."""

    device: Device
    reason: str = ""

    @property
    def healthy(self) -> bool:
        return not self.reason


@dataclass(frozen=True)
class Snapshot:
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


@dataclass(frozen=True, slots=True)
class Change:
    """A device that appeared, or whose health turned."""

    listed: Listed
    before: Listed | None


@dataclass(frozen=True, slots=True)
class Update:
    """What came of one look."""

    changes: tuple[Change, ...] = ()
    withheld: tuple[Candidate, ...] = ()  # never seen whole: no device yet
    refused: tuple[str, ...] = ()  # IDs of new devices that the list has no room for

    @property
    def notes(self) -> list[str]:
        """What is on the node but not offered, and why."""
        notes = [f"{c.device.id} is no device yet: {c.problem}" for c in self.withheld]
        return notes + [f"{id_} left out: the list is full" for id_ in self.refused]


class Inventory:
    """Snapshots by resource, and a way to wait for the next one."""

    def __init__(self, resources: Iterable[str]) -> None:
        self._changed = threading.Condition()
        self._snapshots = dict.fromkeys(resources, Snapshot())

    def snapshot(self, resource: str) -> Snapshot:
        return self._snapshots[resource]

    def replace(self, resource: str, found: Iterable[Candidate]) -> Update:
        """Take what discovery found now; what it no longer finds turns unhealthy, "removed"."""
        before = {listed.device.id: listed for listed in self._snapshots[resource].devices}
        after = {id_: _gone(listed) for id_, listed in before.items()}
        room = LIST_LIMIT - sum(_size(listed.device) for listed in before.values())
        refused: list[str] = []
        withheld: list[Candidate] = []
        for candidate in found:
            device, known = candidate.device, before.get(candidate.device.id)
            if known is not None:
                room += _size(known.device)
            elif candidate.problem:
                withheld.append(candidate)
                continue
            if _size(device) > room:
                refused.append(device.id)
                if known is None:
                    continue
                device = known.device
            room -= _size(device)
            after[device.id] = _listed(device, candidate.problem, known)
        changes = tuple(
            Change(listed, before.get(id_))
            for id_, listed in after.items()
            if listed is not before.get(id_)
        )
        if changes:
            self._publish(resource, Snapshot(tuple(_ordered(after, came=len(after) > len(before)))))
        return Update(changes, tuple(withheld), tuple(refused))

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


def _ordered(after: dict[str, Listed], *, came: bool) -> Iterable[Listed]:
    # Without newcomers the order is that of the last snapshot: 10,000 keys need not be made again.
    if not came:
        return after.values()
    return sorted(after.values(), key=lambda listed: natural_key(listed.device.id))


def _listed(device: Device, problem: str, known: Listed | None) -> Listed:
    if known is not None and problem:
        device = known.device  # what it was when it was whole
    listed = Listed(device, problem)
    return known if known == listed and known is not None else listed


def _gone(listed: Listed) -> Listed:
    return listed if listed.reason == REMOVED else Listed(listed.device, REMOVED)


def _size(device: Device) -> int:
    return device.replicas * (min(len(device.id) + len("-r9999"), ID_LIMIT) + _ENTRY_OVERHEAD)
