"""Devices as programs (`exec`) and added kinds describe them: checked, and made candidates."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from msgspec import structs

from device_plugin import device as own
from device_plugin.attribute import Attribute
from device_plugin.config import Selector, names
from device_plugin.device import Candidate
from device_plugin.discovery import match, sysfs
from device_plugin.discovery.match import Match
from device_plugin.host import Entry, Look, Unusable
from device_plugin.sdk import Device, Node
from device_plugin.template import escape


def check(devices: Sequence[Device]) -> None:
    """Raise ValueError, with where and what, if they cannot be taken as they are."""
    for index, one in enumerate(devices):
        if message := next(_mistakes(one), None):
            raise ValueError(f"{message} - at `$.devices[{index}]`")
    [(id_, times)] = Counter(one.id for one in devices).most_common(1) or [("", 0)]
    if times > 1:
        raise ValueError(f"the id `{id_}` is there {times} times")


def _mistakes(one: Device) -> Iterator[str]:
    for key, text in (("id", one.id), ("reason", one.problem)):
        if message := _unprintable(text):
            yield f"`{key}`: {message}"
    places: set[str] = set()
    for node in one.nodes:
        place = node.to or node.host_path
        message = _wrong_path(node.host_path) or _wrong_path(place)
        message = message or names.permissions(node.permissions)
        if message or place in places:
            yield f"node `{node.host_path}`: {message or 'another one is at its place'}"
        places.add(place)
    for name, value in one.attributes.items():
        if message := names.attribute(name) or _wrong(value):
            yield f"attribute `{name}`: {message}"


def _unprintable(text: str) -> str | None:
    return None if text.isprintable() else "there are unprintable characters in it"


def _wrong_path(path: str) -> str | None:
    return names.path(path) or _unprintable(path)


def _wrong(value: Attribute) -> str | None:
    if not isinstance(value, str):
        return None
    up = ".." in value.split("/")  # it may become a part of a path
    return "`..` would lead elsewhere in a path" if up else _unprintable(value)


def matches(
    look: Look,
    selector: Selector,
    devices: Sequence[Device],
    id_of: Callable[[str], str],
    problem: str = "",
) -> Iterator[Match]:
    """The same as candidates, before `where`; problem: what is wrong with all of them."""
    for one in devices:
        hardware, missing = _hardware(look, one.sysfs)
        numa = set(one.numa_nodes)
        attributes = dict(one.attributes)
        if hardware is not None:
            numa |= set(sysfs.numa_nodes(hardware))
            attributes = match.said_by(hardware, attributes)
        device = own.Device(
            id_of(one.id),
            replicas=selector.replicas,
            attributes=attributes,
            numa_nodes=tuple(sorted(numa)),
        )
        why = problem or one.problem or missing
        folder = hardware.path if hardware is not None else ""
        yield Match(device.id, attributes, partial(_candidate, look, device, one, why, folder))


def _hardware(look: Look, folder: str) -> tuple[sysfs.Device | None, str]:
    """The device that a folder in /sys stands for, and why it is none."""
    if not folder:
        return None, ""
    try:
        entry = look.entry(folder)
    except Unusable as why:
        return None, f"{folder} {why}"
    return sysfs.Device(look, entry.real), ""


def _candidate(look: Look, device: own.Device, one: Device, problem: str, folder: str) -> Candidate:
    """The device with its nodes; the first of them is its own, others may be shared."""
    nodes, claims = [], []
    for node in one.nodes:
        try:
            entry = _entry(look, node)
        except Unusable as why:
            if not node.optional:
                problem = problem or f"{node.host_path} {why}"
            continue
        nodes.append(own.Node(node.host_path, escape(node.to), node.permissions))
        claims.append(entry.real)
    # What it lacks somebody else may have.
    folders = [folder] if folder and not problem else []
    return Candidate(structs.replace(device, nodes=tuple(nodes)), problem, (*claims[:1], *folders))


def _entry(look: Look, node: Node) -> Entry:
    entry = look.entry(node.host_path)
    if not entry.is_node:
        raise Unusable(f"is {entry.kind}, not a device node")
    return entry
