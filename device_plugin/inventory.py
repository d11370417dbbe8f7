"""Which devices the node has and how they are.

Upkeep writes it, everything else reads snapshots, which never change. An ID that was listed once
leaves the list only by `forget` (the kubelet may panic when a held one goes): it turns unhealthy,
and healthy again under the same ID.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType

from device_plugin.device import Candidate
from device_plugin.listing import Snapshot, Update, merge

_EMPTY = Snapshot()
_NOTHING: Mapping[str, str] = MappingProxyType({})
_NONE: Mapping[str, tuple[int, ...]] = MappingProxyType({})


class Inventory:
    """Snapshots by resource, and a way to wait for the next one."""

    def __init__(
        self, resources: Iterable[str] = (), clock: Callable[[], float] = time.time
    ) -> None:
        self._changed = threading.Condition()
        self._snapshots = dict.fromkeys(resources, Snapshot())
        self._clock = clock

    @property
    def resources(self) -> list[str]:
        return list(self._snapshots)

    def snapshot(self, resource: str) -> Snapshot:
        """Empty for a resource that is not there (any more)."""
        return self._snapshots.get(resource, _EMPTY)

    def replace(
        self,
        resource: str,
        found: Iterable[Candidate],
        *,
        held: Mapping[str, tuple[int, ...]] = _NONE,
        dropped: Collection[str] = (),
        disabled: Mapping[str, str] = _NOTHING,
        failed: str = "",
    ) -> Update:
        """Take what discovery found now; what it no longer finds turns unhealthy, "removed".

        held: IDs that a container may hold, and their NUMA nodes: listed, found or not. dropped:
        devices that are not found because the config has them no more. disabled: devices that an
        admin took out, or that cannot be handed out, with the reason. failed: why not everything
        could be looked for: the reason of what was not found then.
        """
        before = self.snapshot(resource)
        after, update = merge(
            before,
            found,
            self._clock(),
            held=held,
            dropped=dropped,
            disabled=disabled,
            failed=failed,
        )
        if after is not before or resource not in self._snapshots:
            self._publish(resource, after)
        return update

    def forget(self, resource: str, devices: Collection[str]) -> None:
        """Take IDs off the list: nobody holds them, and the kubelet may know that they are gone."""
        listed = self.snapshot(resource).devices
        left = tuple(one for one in listed if one.device.id not in devices)
        if len(left) != len(listed):
            self._publish(resource, Snapshot(left))

    def remove(self, resource: str) -> None:
        """Drop a resource that is served no more."""
        with self._changed:
            self._snapshots.pop(resource, None)
            self._changed.notify_all()

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
