"""Devices as programs (`exec`) and added kinds describe them: checked, and made candidates."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from msgspec import structs

from device_plugin import device as own
from device_plugin.attribute import Quantity, Version
from device_plugin.config import Selector, names
from device_plugin.config.problem import show
from device_plugin.device import Candidate
from device_plugin.discovery import match, sysfs
from device_plugin.discovery.match import Match
from device_plugin.host import Entry, Look, Unusable
from device_plugin.sdk import Device, Node
from device_plugin.template import escape

MOST_DEVICES = 10_000
LONGEST_TEXT, LONGEST_ID, LONGEST_PATH = 256, 253, 4096  # characters
MOST_NODES, MOST_ATTRIBUTES = 256, 64
MOST_NUMA, HIGHEST_NUMA = 64, 1023


def check(devices: Sequence[Device]) -> None:
    """Raise ValueError, with what to mend, if they cannot be taken as they are."""
    if len(devices) > MOST_DEVICES:
        raise ValueError(f"there are more than {MOST_DEVICES} devices")
    for index, one in enumerate(devices):
        if message := next(_mistakes(one), None):
            raise ValueError(f"devices[{index}]: {message}")
    [(id_, times)] = Counter(one.id for one in devices).most_common(1) or [("", 0)]
    if times > 1:
        raise ValueError(f"the id `{show(id_)}` is there {times} times")


def _mistakes(one: object) -> Iterator[str]:
    """Nothing is taken for granted: Python lets anything into a Device."""
    if not isinstance(one, Device):
        yield f"it is a {_type(one)}; make it a device_plugin.sdk.Device"
        return
    yield from _text("id", one.id, LONGEST_ID)
    if not one.id:
        yield "`id` is empty"
    yield from _text("problem", one.problem, LONGEST_TEXT)
    yield from _text("sysfs", one.sysfs, LONGEST_PATH)
    if one.sysfs and (names.host_path(one.sysfs) or not one.sysfs.startswith("/sys/")):
        yield f"`sysfs` is {show(one.sysfs)}; name a folder below /sys"
    yield from _nodes(one.nodes)
    yield from _numa(one.numa_nodes)
    yield from _attributes(one.attributes)


def _nodes(nodes: object) -> Iterator[str]:
    if not isinstance(nodes, list | tuple):
        yield f"`nodes` is a {_type(nodes)}; make it a list"
        return
    if len(nodes) > MOST_NODES:
        yield f"more than {MOST_NODES} nodes"
    places: set[str] = set()
    for index, node in enumerate(nodes):
        if not isinstance(node, Node):
            yield f"nodes[{index}] is a {_type(node)}; make it a device_plugin.sdk.Node"
            return
        for key in ("host_path", "to", "permissions"):
            yield from _text(f"nodes[{index}].{key}", getattr(node, key), LONGEST_PATH)
        place = node.to or node.host_path
        message = names.path(node.host_path) or names.path(place)
        message = message or names.permissions(node.permissions)
        if message or place in places:
            yield f"node `{show(node.host_path)}`: {message or 'another one is at its place'}"
        places.add(place)


def _numa(numa_nodes: object) -> Iterator[str]:
    if not isinstance(numa_nodes, list | tuple):
        yield f"`numa_nodes` is a {_type(numa_nodes)}; make it a list"
        return
    if len(numa_nodes) > MOST_NUMA:
        yield f"more than {MOST_NUMA} NUMA nodes"
    for one in numa_nodes:
        if type(one) is not int or not 0 <= one <= HIGHEST_NUMA:
            yield f"`numa_nodes` has {show(repr(one))}; they are 0 to {HIGHEST_NUMA}"


def _attributes(attributes: object) -> Iterator[str]:
    if not isinstance(attributes, Mapping):
        yield f"`attributes` is a {_type(attributes)}; make it a dict"
        return
    if len(attributes) > MOST_ATTRIBUTES:
        yield f"more than {MOST_ATTRIBUTES} attributes"
    for name, value in attributes.items():
        yield from _text("an attribute's name", name, LONGEST_TEXT)
        if message := names.attribute(name) or _wrong(value):
            yield f"attribute `{show(name)}`: {message}"


def _wrong(value: object) -> str | None:
    match value:
        case str():
            up = ".." in value.split("/")  # it may become a part of a path
            return "`..` would lead elsewhere in a path" if up else next(_text("it", value), None)
        case bool():
            return None
        case int():
            fits = -(2**63) <= value < 2**63
            return None if fits else "the number does not fit 64 bits"
        case Version() | Quantity():
            made = type(value).parse(value.text) if isinstance(value.text, str) else None
            return None if made == value else f"make it by {_type(value)}.parse"
    return f"it is a {_type(value)}; take str, int, bool, Version or Quantity"


def _text(key: str, text: object, longest: int = LONGEST_TEXT) -> Iterator[str]:
    if not isinstance(text, str):
        yield f"`{key}` is a {_type(text)}; make it a str"
        raise TypeError(key)  # nobody may go on with it
    if len(text) > longest:
        yield f"`{key}` has more than {longest} characters"
    if not text.isprintable():
        yield f"`{key}`: there are unprintable characters in it"


def _type(value: object) -> str:
    return type(value).__name__


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
            attributes |= match.said_by(hardware, {})
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
    if not entry.is_folder or not entry.real.startswith("/sys/"):
        return None, f"{folder} is no folder of a device"
    return sysfs.Device(look, entry.real), ""


def _candidate(look: Look, device: own.Device, one: Device, problem: str, folder: str) -> Candidate:
    """The device with its nodes; the first of them is its own, others may be shared."""
    nodes, owned = [], []
    for node in one.nodes:
        try:
            entry = _entry(look, node)
        except Unusable as why:
            if not node.optional:
                problem = problem or f"{node.host_path} {why}"
            continue
        nodes.append(own.Node(node.host_path, escape(node.to), node.permissions))
        owned.append(entry.real)
    # A device that lacks something leaves its folder to others: they may have what it lacks.
    folders = [folder] if folder and not problem else []
    return Candidate(structs.replace(device, nodes=tuple(nodes)), problem, (*owned[:1], *folders))


def _entry(look: Look, node: Node) -> Entry:
    entry = look.entry(node.host_path)
    if not entry.is_node:
        raise Unusable(f"is {entry.kind}, not a device node")
    return entry
