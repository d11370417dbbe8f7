"""Rules of `partitions`: what the parts are called, and what they may take of their devices."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from device_plugin.attribute import Quantity
from device_plugin.config import names
from device_plugin.config.decode import known
from device_plugin.config.problem import Report, Where, show, there
from device_plugin.config.types import Partition, Resource, Selector

_WITHOUT = ("path", "usb", "pci", "vfio", "gpu")  # kinds whose devices have no capacity


class _Whole(NamedTuple):
    """A selector whose devices' capacities are known beforehand; None: they were refused."""

    line: str
    capacity: Mapping[str, Quantity | None]


def check(resource: Resource, where: Where, report: Report) -> None:
    if not known(resource.partitions):
        return
    place = (*where, "partitions")
    if report.has(place) and not resource.partitions:
        report.at(place, "`partitions` is empty; remove it")
    if resource.partitions:
        _shared(resource, where, report)
    wholes = list(_wholes(resource, where, report))
    taken: dict[str, Where] = {}
    for index, part in enumerate(resource.partitions):
        if known(part):
            _part(part, (*place, index), wholes, taken, report)


def _shared(resource: Resource, where: Where, report: Report) -> None:
    for index, selector in _selectors(resource):
        inside = (*where, "devices", index, "replicas")
        if report.has(inside) and selector.replicas != 1:
            message = "`replicas` does not fit `partitions`, whose parts share the device already"
            report.at(inside, f"{message}; remove it", key=True)


def _part(
    part: Partition,
    where: Where,
    wholes: Sequence[_Whole],
    taken: dict[str, Where],
    report: Report,
) -> None:
    if known(part.name):
        _name(part.name, (*where, "name"), taken, report)
    if not known(part.capacity):
        return
    place = (*where, "capacity")
    if not part.capacity and not report.inside(place):
        report.at(place, "`capacity` is empty; say what a part takes of its device")
    for name, text in part.capacity.items():
        if message := names.attribute(name):
            report.at((*place, name), message, key=True)
            continue
        amount = _amount(name, text, (*place, name), report) if known(text) else None
        count = part.count if known(part.count) else 0
        for message in _within(name, amount, count, wholes, report):
            report.at((*place, name), message)


def _name(name: str, where: Where, taken: dict[str, Where], report: Report) -> None:
    if message := names.partition(name):
        report.at(where, message)
    if (first := taken.setdefault(name, where)) != where:
        report.at(where, f"the parts in {report.line(first)} are called `{show(name)}` already")


def _amount(name: str, text: str, where: Where, report: Report) -> Quantity | None:
    message = names.quantity(text)
    if not message and Quantity.parse(text).nano == 0:
        message = f"a part without any `{name}` need not say so; remove it"
    if message:
        report.at(where, message)
    return None if message else Quantity.parse(text)


def _within(
    name: str, amount: Quantity | None, count: int, wholes: Sequence[_Whole], report: Report
) -> Iterator[str]:
    """Say which devices have none of it, or less than all parts take."""
    for line, capacity in wholes:
        whole = capacity.get(name)
        if name not in capacity:
            message = f"the devices in {line} have no capacity `{name}`"
            yield message + _instead(name, capacity, report)
        elif amount and whole and amount.nano * count > whole.nano:
            parts = f"{count} times {amount}" if count > 1 else f"{amount}"
            message = f"{parts} is more than the {whole} of the devices in {line}; lower it"
            yield message + (", or `count`" if count > 1 else "")


def _instead(name: str, capacity: Mapping[str, Quantity | None], report: Report) -> str:
    if meant := report.near(name, capacity):
        return f"; did you mean `{meant}`?"
    return f"; {there([*capacity])}" if capacity else ", nor any other"


def _wholes(resource: Resource, where: Where, report: Report) -> Iterator[_Whole]:
    for index, selector in _selectors(resource):
        line = report.line((*where, "devices", index))
        if selector.virtual is not None:
            if known(selector.virtual) and known(selector.virtual.capacity):
                capacity = selector.virtual.capacity
                yield _Whole(line, {name: _parsed(text) for name, text in capacity.items()})
        elif any(getattr(selector, kind) for kind in _WITHOUT):
            yield _Whole(line, {})


def _selectors(resource: Resource) -> Iterator[tuple[int, Selector]]:
    if known(resource.devices):
        yield from ((i, one) for i, one in enumerate(resource.devices) if known(one))


def _parsed(text: str) -> Quantity | None:
    return Quantity.parse(text) if known(text) and not names.quantity(text) else None
