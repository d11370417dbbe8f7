"""What DRA offers of a resource, and under which names claims are given it. Pure."""

from collections.abc import Iterable, Iterator

import msgspec

from device_plugin.config import Partition, Resource
from device_plugin.device import device_id, split_replica
from device_plugin.listing import Listed, Snapshot


class Offer(msgspec.Struct, frozen=True):
    """A resource and its devices; unhealthy ones are among them, with their reasons."""

    resource: Resource
    snapshot: Snapshot


class Unit(msgspec.Struct, frozen=True):
    """What one name stands for: a device whole, one of its replicas, or a part of it."""

    name: str
    listed: Listed
    part: Partition | None = None


def devices(offer: Offer) -> Iterator[Listed]:
    """The devices of an offer, without what is left over of replicas that the config dropped."""
    return (one for one in offer.snapshot.devices if not split_replica(one.device.id)[1])


def replicas(listed: Listed) -> Iterator[Unit]:
    """A device once for each of its replicas."""
    return (Unit(id_, listed) for id_ in listed.device.replica_ids)


def parts(listed: Listed, partitions: Iterable[Partition]) -> Iterator[Unit]:
    """The parts that a device may be divided into."""
    for partition in partitions:
        for k in range(partition.count):
            name = f"{listed.device.id}-{partition.name}-{k}"
            yield Unit(device_id(name, name), listed, partition)


def by_name(offers: Iterable[Offer]) -> dict[str, Unit]:
    """Every name that a claim may hold, in whichever form the cluster was told of the device."""
    units: dict[str, Unit] = {}
    for offer in offers:
        for listed in devices(offer):
            for unit in (*replicas(listed), *parts(listed, offer.resource.partitions)):
                units.setdefault(unit.name, unit)
    return units
