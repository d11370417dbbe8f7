"""What the scheduler is told: offers as the contents of ResourceSlices. Pure.

Limits are those of resource.k8s.io/v1 (docs/kubelet.md, C4). What does not fit is left out, with a
note: one device of which too much is known must not cost the node all others.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

import msgspec

from device_plugin.attribute import Attribute, Quantity, Version
from device_plugin.config import Partition, Resource
from device_plugin.config.names import ADDRESS, ATTRIBUTE
from device_plugin.device import Device, device_id
from device_plugin.dra.cluster import Json
from device_plugin.dra.offer import Offer, Unit, devices, parts, replicas
from device_plugin.listing import HELD_BY_PLUGIN, Listed

DEVICES_LIMIT = 64  # a slice; 128 without taints and counters, but then a taint would move devices
COUNTER_SETS_LIMIT = 8  # a slice
DESCRIPTION_LIMIT = 32  # attributes and capacities of a device
CAPACITIES_LIMIT = 24  # so that there is always room for ours
TEXT_LIMIT = 64  # bytes of an attribute
LABEL_LIMIT = 63
_LARGEST_INT = 2**63 - 1
_STANDARD = "resource.kubernetes.io/"
_PCIE_ROOT = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")


class Features(msgspec.Struct, frozen=True):
    """What the cluster keeps of a slice; it drops fields of feature gates that are off."""

    shares: bool = True  # consumable capacity; else each replica is a device
    parts: bool = True  # partitions; else devices are whole
    taints: bool = True  # else unhealthy devices are left out


class Wanted(msgspec.Struct, frozen=True):
    """The contents of the slices in their order, and what is left out, and why."""

    contents: tuple[Json, ...]
    notes: tuple[str, ...] = ()


def wanted(offers: Iterable[Offer], driver: str, effect: str, features: Features) -> Wanted:
    """Say what the slices of a pool must hold; effect: of the taint of an unhealthy device."""
    writing = _Writing(driver, effect, features)
    for offer in offers:
        for listed in devices(offer):
            writing.add(listed, offer.resource)
    contents = [
        *({"sharedCounters": some} for some in _chunks(writing.counters, COUNTER_SETS_LIMIT)),
        *({"devices": some} for some in _chunks(writing.devices, DEVICES_LIMIT)),
    ]
    # An empty slice says that there is a driver and that it has no devices.
    return Wanted(tuple(contents or [{}]), tuple(writing.notes))


def _chunks(items: list[Json], size: int) -> Iterator[list[Json]]:
    return (items[i : i + size] for i in range(0, len(items), size))


class _Writing:
    """The devices and counters so far, and what could not be said of them."""

    def __init__(self, driver: str, effect: str, features: Features) -> None:
        self._driver, self._effect, self._features = driver, effect, features
        self._names: set[str] = set()
        self.devices: list[Json] = []
        self.counters: list[Json] = []
        self.notes: list[str] = []

    def add(self, listed: Listed, resource: Resource) -> None:
        # Nobody may see a device that a Pod has by the old way: a claim may tolerate any taint.
        if listed.reason == HELD_BY_PLUGIN or (listed.reason and not self._features.taints):
            return
        device = listed.device
        capacity = self._capacity(device)
        counted = self._counted(device, capacity, resource.partitions)
        if counted:
            self.counters.append({"name": device.id, "counters": _counters(counted)})
            # Parts first: the allocator takes the first that fits, and should spare whole devices.
            for unit in parts(listed, resource.partitions):
                taken = unit.part.capacity if unit.part is not None else {}
                self._add_unit(unit, resource, capacity=taken, counted=taken)
        if counted and device.replicas > 1:
            self._note(device.id, "its replicas are left out: its parts are the shares")
        if counted or self._features.shares or device.replicas == 1:
            shares = 1 if counted else device.replicas
            self._add_unit(Unit(device.id, listed), resource, capacity, counted, shares)
        else:
            for unit in replicas(listed):
                self._add_unit(unit, resource, capacity, counted)

    def _capacity(self, device: Device) -> dict[str, str]:
        found = {
            name: one.text
            for name, one in device.attributes.items()
            if isinstance(one, Quantity) and one.nano >= 0
        }
        if len(found) > CAPACITIES_LIMIT:
            self._surplus(
                device.id, f"{CAPACITIES_LIMIT} capacities", list(found)[CAPACITIES_LIMIT:]
            )
        return dict(islice(found.items(), CAPACITIES_LIMIT))

    def _counted(
        self, device: Device, capacity: Mapping[str, str], partitions: Iterable[Partition]
    ) -> dict[str, str]:
        """The capacities that parts share; empty where there are none."""
        names = dict.fromkeys(name for partition in partitions for name in partition.capacity)
        if not self._features.parts:
            return {}
        if missing := names.keys() - capacity.keys():
            self._note(device.id, f"no parts: it has no capacity {', '.join(sorted(missing))}")
            return {}
        return {name: capacity[name] for name in names}

    def _add_unit(
        self,
        unit: Unit,
        resource: Resource,
        capacity: Mapping[str, str],
        counted: Mapping[str, str],
        shares: int = 1,
    ) -> None:
        if unit.name in self._names:  # one name twice would void the whole pool
            self._note(unit.name, "left out: another device has this name")
            return
        self._names.add(unit.name)
        room = DESCRIPTION_LIMIT - len(capacity) - (shares > 1)
        described: Json = {"name": unit.name, "attributes": self._described(unit, resource, room)}
        if shares > 1:
            described["allowMultipleAllocations"] = True
            described["capacity"] = _shared(capacity, shares)
        elif capacity:
            described["capacity"] = {name: {"value": text} for name, text in capacity.items()}
        if counted:
            consumed = {"counterSet": unit.listed.device.id, "counters": _counters(counted)}
            described["consumesCounters"] = [consumed]
        if unit.listed.reason:
            described["taints"] = [self._taint(unit.listed.reason)]
        self.devices.append(described)

    def _described(self, unit: Unit, resource: Resource, room: int) -> Json:
        attributes: Json = {}
        surplus = []
        for name, value in _attributes(unit, resource):
            if name in attributes:
                continue
            if why := _unfit(name, value):
                self._note(unit.name, f"attribute {name!a} is left out: {why}")
            elif len(attributes) < room:
                attributes[name] = _typed(value)
            else:
                surplus.append(name)
        if surplus:
            limit = f"{DESCRIPTION_LIMIT} attributes and capacities"
            self._surplus(unit.name, limit, surplus)
        return attributes

    def _taint(self, reason: str) -> Json:
        taint = {"key": f"{self._driver}/unhealthy", "effect": self._effect}
        value = label_value(reason)
        return {**taint, "value": value} if value else taint

    def _surplus(self, name: str, limit: str, names: Iterable[str]) -> None:
        self._note(name, f"only {limit} fit, these are left out: {', '.join(names)}")

    def _note(self, name: str, text: str) -> None:
        self.notes.append(f"{name}: {text}")


def label_value(text: str) -> str:
    """Make a text what the value of a label or taint may be; empty if nothing of it can."""
    return re.sub(r"[^A-Za-z0-9_.]+", "-", text).strip("-_.")[:LABEL_LIMIT].rstrip("-_.")


def _attributes(unit: Unit, resource: Resource) -> Iterator[tuple[str, Attribute]]:
    """By name; where one comes twice the first counts."""
    device = unit.listed.device
    yield "resource", resource.name
    if unit.part is not None:
        yield "partition", unit.part.name
    yield from _standard(device)
    for name, value in device.attributes.items():
        if not isinstance(value, Quantity):
            yield name, value


def _standard(device: Device) -> Iterator[tuple[str, Attribute]]:
    """What drivers call alike, so that a claim can ask for devices of several that are close."""
    root, address = str(device.attributes.get("pcie_root", "")), device.attributes.get("address")
    if _PCIE_ROOT.fullmatch(root):
        yield f"{_STANDARD}pcieRoot", root
    if isinstance(address, str) and ADDRESS.fullmatch(address):
        yield f"{_STANDARD}pciBusID", address
    if len(device.numa_nodes) == 1:
        yield f"{_STANDARD}numaNode", device.numa_nodes[0]
        yield "numa", device.numa_nodes[0]


def _unfit(name: str, value: Attribute) -> str:
    """Why the API server would refuse it; empty if it does not."""
    if not ATTRIBUTE.fullmatch(name.removeprefix(_STANDARD)):
        return "its name is none that Kubernetes takes"
    if isinstance(value, int):
        return "" if -_LARGEST_INT <= value <= _LARGEST_INT else "it has more than 64 bits"
    try:
        size = len(str(value).encode())
    except UnicodeEncodeError:
        return "it is no text"
    return "" if size <= TEXT_LIMIT else f"it has more than {TEXT_LIMIT} bytes"


def _typed(value: Attribute) -> Json:
    match value:
        case bool():
            return {"bool": value}
        case int():
            return {"int": value}
        case Version():
            return {"version": value.text}
    return {"string": str(value)}


def _shared(capacity: Mapping[str, str], shares: int) -> Json:
    """Capacities of a device that many claims may have.

    Each takes one of the replicas unless it asks for more. Of everything else it takes nothing
    unless it asks for some: all who share a device see it whole, as with the device plugin API.
    """
    limits = {"min": "1", "max": str(shares), "step": "1"}
    count = {"value": str(shares), "requestPolicy": {"default": "1", "validRange": limits}}
    free = {"default": "0"}
    others = {name: {"value": text, "requestPolicy": free} for name, text in capacity.items()}
    return {**others, "replicas": count}


def _counters(capacity: Mapping[str, str]) -> Json:
    """Counters have stricter names than capacities: DNS labels."""
    return {device_id(name, name): {"value": text} for name, text in capacity.items()}
