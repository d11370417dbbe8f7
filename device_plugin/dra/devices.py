"""Which devices a claim gets, and whether they are free for it. Pure.

This is the last line against giving a device away twice. The scheduler sees to it, too; but it
knows only of claims that exist, and a Pod that was deleted by force may still run.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from device_plugin.allocation import Refused
from device_plugin.attribute import Quantity
from device_plugin.config import Resource
from device_plugin.device import Device
from device_plugin.dra.allocated import Result
from device_plugin.dra.checkpoint import Given
from device_plugin.dra.offer import Offer, Unit, by_name
from device_plugin.listing import HELD_BY_PLUGIN


class Chosen(msgspec.Struct, frozen=True):
    """A device of a claim; `position` is its place among all that there are."""

    resource: Resource
    unit: Unit
    position: int


Index = Mapping[str, Chosen]  # by the name that claims have


def index(offers: Iterable[Offer]) -> Index:
    """Everything that a claim may name, in the order of the config and of IDs."""
    found: dict[str, Chosen] = {}
    for offer in offers:
        for name, unit in by_name((offer,)).items():
            found.setdefault(name, Chosen(offer.resource, unit, len(found)))
    return found


def given(result: Result, known: Index, taint: str) -> Given:
    """One device for a claim; `taint` is the key of the one that unhealthy devices have.

    Raises Refused if it is not there to be given.
    """
    chosen = known.get(result.device)
    if chosen is None:
        raise Refused(
            f"this node offers no device {result.device} now: a container may still hold it through"
            " the device plugin, or the config has it no more (`device-plugin status` says)"
        )
    listed, part = chosen.unit.listed, chosen.unit.part
    admin = bool(result.admin_access)
    tolerated = admin or (listed.reason != HELD_BY_PLUGIN and result.tolerates(taint))
    if listed.reason and not (tolerated and listed.present):
        name = chosen.resource.name
        raise Refused(f"device {result.device} of {name} is unhealthy: {listed.reason}")
    return Given(
        name=result.device,
        device=listed.device.id,
        resource=chosen.resource.name,
        request=result.base,
        share=result.share_id or "",
        replicas=max(1, result.replicas),
        part=part.capacity if part is not None else None,
        admin=admin,
    )


def check_free(device: Device, wanted: Iterable[Given], others: Iterable[Given]) -> None:
    """Raise Refused unless the device has room for what is wanted of it beside what others have.

    Those who only look on take nothing. A share of a device, and one of its replicas by a name of
    its own, are a replica each; a part goes with other parts, as far as their capacities are there.
    """
    taking = [one for one in wanted if not one.admin]
    if not taking:
        return
    what = f"{taking[0].name} of {taking[0].resource}"
    if _meet(device, taking):
        raise Refused(_too_much(device, taking, what))
    held = [one for one in others if not one.admin]
    if held and _meet(device, taking + held):
        raise Refused(
            f"{what} is still prepared for another claim: this is tried again until its Pods have"
            " ended"
        )


def _too_much(device: Device, taking: Sequence[Given], what: str) -> str:
    """Why a claim cannot have all of it, whoever else there is."""
    if _is_twice(taking) or any(one.part is not None for one in taking):
        return f"{what} is allocated twice in the claim"
    count, there = sum(one.replicas for one in taking), device.replicas
    return f"the claim takes {count} replicas of {what}, which has {there}: delete the Pod"


def _is_twice(together: Iterable[Given]) -> bool:
    alone = [one.name for one in together if not one.share]
    return len(set(alone)) < len(alone)


def _meet(device: Device, together: Sequence[Given]) -> bool:
    if _is_twice(together):
        return True
    parts = [one.part for one in together if one.part is not None]
    if not parts:
        return sum(one.replicas for one in together) > device.replicas
    return len(parts) < len(together) or any(
        _taken(parts, name) > _capacity(device, name) for name in frozenset[str]().union(*parts)
    )


def _taken(parts: Iterable[Mapping[str, str]], name: str) -> int:
    return sum(Quantity.parse(part[name]).nano for part in parts if name in part)


def _capacity(device: Device, name: str) -> int:
    value = device.attributes.get(name)
    return value.nano if isinstance(value, Quantity) else 0
