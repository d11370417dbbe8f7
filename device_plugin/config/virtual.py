"""Rules of `virtual`: what its devices say about themselves."""

from collections.abc import Iterator

from device_plugin.attribute import Attribute, Quantity, Version
from device_plugin.config import names
from device_plugin.config.decode import known
from device_plugin.config.problem import Report, Where
from device_plugin.config.types import VersionValue, Virtual

Named = Iterator[tuple[str, Attribute | None]]


def attributes(virtual: Virtual, where: Where, report: Report) -> dict[str, Attribute | None]:
    """Report everything; attributes and capacities come back, those that were refused as None."""
    return dict((*_attributes(virtual, where, report), *_capacity(virtual, where, report)))


def _attributes(virtual: Virtual, where: Where, report: Report) -> Named:
    for name, value in virtual.attributes.items() if known(virtual.attributes) else ():
        place = (*where, "attributes", name)
        if message := names.attribute(name):
            report.at(place, message, key=True)
        if isinstance(value, VersionValue):
            yield name, _version(value.version, (*place, "version"), report)
        else:
            yield name, value if known(value) else None


def _version(text: str, where: Where, report: Report) -> Version | None:
    if not known(text):
        return None
    if message := names.version(text):
        report.at(where, message)
        return None
    return Version.parse(text)


def _capacity(virtual: Virtual, where: Where, report: Report) -> Named:
    for name, value in virtual.capacity.items() if known(virtual.capacity) else ():
        place = (*where, "capacity", name)
        if message := names.attribute(name):
            report.at(place, message, key=True)
        if report.has(other := (*where, "attributes", name)):
            line = report.line(other)
            message = f"`{name}` is an attribute already, in {line}; one name is one value"
            report.at(place, message, key=True)
        message = names.quantity(value) if known(value) else None
        if message:
            report.at(place, message)
        yield name, Quantity.parse(value) if known(value) and not message else None
