"""What DRA offers of a resource: an inventory of its own, beside what the kubelet is told in lists.

A device is in one of the two, whatever the config says: who has it the other way keeps it.
"""

import time
from collections.abc import Collection, Iterable, Mapping

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


def retire(inventory: Inventory, resource: str, grace: float, claimed: Mapping[str, str]) -> None:
    """Forget absent devices that no claim has, so many seconds after they went."""
    until = time.time() - grace
    listed = inventory.snapshot(resource).devices
    absent = {one.device.id for one in listed if not one.present and one.since < until}
    inventory.forget(resource, absent - claimed.keys())


def unclaimed(candidate: Candidate, claimed: Mapping[str, str]) -> Candidate:
    """Fail a device that a claim has, for the device plugin."""
    if candidate.device.id not in claimed:
        return candidate
    return msgspec.structs.replace(candidate, problem=CLAIMED)
