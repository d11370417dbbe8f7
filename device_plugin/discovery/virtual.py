"""`virtual`: devices that consist of nothing but their number."""

from functools import lru_cache

from device_plugin.attribute import Attribute, Quantity, Version
from device_plugin.config import Requirement, Selector, VersionValue, Virtual
from device_plugin.device import Candidate, Device, Found, Lost, device_id
from device_plugin.discovery.where import mismatch


def find(selector: Selector, virtual: Virtual, resource: str, before: int) -> Found:
    """`before` counts the resource's earlier `virtual` selectors: it keeps the names apart."""
    typed = tuple((name, type(value), value) for name, value in _attributes(virtual).items())
    series = f"{resource}/{before}-" if before else f"{resource}/"
    return _find(series, virtual.count, selector.replicas, typed, selector.where)


def _attributes(virtual: Virtual) -> dict[str, Attribute]:
    return {
        name: Version.parse(value.version) if isinstance(value, VersionValue) else value
        for name, value in virtual.attributes.items()
    } | {name: Quantity.parse(value) for name, value in virtual.capacity.items()}


@lru_cache(maxsize=64)  # they never change, and each look asks again
def _find(
    series: str,
    count: int,
    replicas: int,
    typed: tuple[tuple[str, type, Attribute], ...],  # the cache takes 1 for true
    where: tuple[Requirement, ...],
) -> Found:
    attributes = {name: value for name, _, value in typed}
    name = series.partition("/")[2]  # the domain is part of the identity, but not of what is read
    ids = [device_id(f"{name}{n}", f"{series}{n}") for n in range(count)]
    if ids and (why := mismatch(where, attributes)):
        others = f" and {count - 1} more" if count > 1 else ""
        note = f"virtual: nothing passes `where`: {why.reason}"
        return Found(note=note, lost=(Lost(f"{ids[0]}{others}", why.reason),))
    return Found(
        tuple(Candidate(Device(id_, replicas=replicas, attributes=attributes)) for id_ in ids)
    )
