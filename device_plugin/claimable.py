"""What DRA offers of a resource: an inventory of its own, beside what the kubelet is told in lists.

A device is in one of the two, whatever the config says: who has it the other way keeps it.
"""

import time
from collections.abc import Callable, Collection, Container, Iterable, Mapping

import msgspec

from device_plugin.device import Candidate
from device_plugin.inventory import Inventory
from device_plugin.listing import CLAIMED, HELD_BY_PLUGIN, Update


def offer(
    inventory: Inventory,
    resource: str,
    found: Iterable[Candidate],
    *,
    holders: Mapping[str, str],
    claimed: Mapping[str, str],
    dropped: Collection[str],
    disabled: Mapping[str, str],
    failed: str,
) -> Update:
    """Take what claims may have: not what a container has through the device plugin.

    holders, claimed: the resource of each device that a container has so, or a claim. The others
    are those of `Inventory.replace`.
    """
    candidates = [
        msgspec.structs.replace(one, problem=HELD_BY_PLUGIN) if one.device.id in holders else one
        for one in found
    ]
    return inventory.replace(
        resource,
        candidates,
        held={id_: () for id_, name in claimed.items() if name == resource},
        dropped=dropped,
        # Claims may tolerate a device that is out of service, but not one that somebody has.
        disabled={id_: why for id_, why in disabled.items() if id_ not in holders},
        failed=failed,
    )


class Absences:
    """Since when devices have been absent, by a clock that nobody sets."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: dict[str, dict[str, float]] = {}  # by resource and device

    def retire(
        self, inventory: Inventory, resource: str, grace: float, claimed: Container[str]
    ) -> None:
        """Forget absent devices that no claim has, so many seconds after they went."""
        now, before = self._clock(), self._since.get(resource, {})
        listed = inventory.snapshot(resource).devices
        absent = [one.device.id for one in listed if not one.present]
        since = self._since[resource] = {id_: before.get(id_, now) for id_ in absent}
        over = [id_ for id_ in absent if now - since[id_] > grace and id_ not in claimed]
        inventory.forget(resource, over)


def unclaimed(candidate: Candidate, claimed: Mapping[str, str]) -> Candidate:
    """Fail a device that a claim has, for the device plugin."""
    if candidate.device.id not in claimed:
        return candidate
    return msgspec.structs.replace(candidate, problem=CLAIMED)
