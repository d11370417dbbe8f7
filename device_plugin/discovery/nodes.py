"""Which nodes a device of `usb`, `pci` or `vfio` hands over, and under which names.

A node is handed out by the link that udev made for it, where there is one: that leads to the
device whatever number it has when its container is restarted. Inside it has the kernel's name.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import NamedTuple

from device_plugin.attribute import Attribute
from device_plugin.config import Companion, NodeOf, Selector
from device_plugin.device import Candidate, Device, Node, natural_key
from device_plugin.discovery import sysfs
from device_plugin.host import Entry, Look, Unusable
from device_plugin.template import Template, escape

# Where udev makes links to the nodes of a subsystem.
_LINKS = {
    "tty": "/dev/serial",
    "video4linux": "/dev/v4l",
    "block": "/dev/disk",
    "input": "/dev/input",
    "drm": "/dev/dri",
    "sound": "/dev/snd",
}
# What a node is of no use without.
_CONTROL = {"vfio": "/dev/vfio/vfio", "vfio-dev": "/dev/iommu"}
_FORMS = ("by-id", "by-path")


class Handed(NamedTuple):
    """What comes of a device's nodes; `owned` are the real paths of its own ones."""

    nodes: tuple[Node, ...]
    owned: tuple[str, ...]
    problem: str


def hand_over(
    look: Look,
    selector: Selector,
    nodes: Sequence[sysfs.Node],
    default: Sequence[sysfs.Node],
    *,
    named: bool = True,
    hint: str = "",
) -> Handed:
    """Choose among the nodes of a device as the selector says, else all of `default`.

    named: its by-id links have a name in them that no other device has. hint: why nodes may be
    missing.
    """
    found: dict[str, Node] = {}
    owned: list[str] = []
    problems: list[str] = []
    chosen, missing = choose(selector.nodes, nodes)
    if not selector.nodes:
        chosen = [(NodeOf(node.subsystem), node) for node in default]
    for item, node in chosen:
        try:
            entry = _entry(look, node)
        except Unusable as why:
            if not item.optional:
                problems.append(f"{node.path} {why}")
            continue
        host_path = _stable(look, node, entry, named=named)
        to = item.to or (escape(node.path) if node.path != host_path else "")
        found.setdefault(host_path, Node(host_path, to, item.permissions))
        owned.append(entry.real)
    for item in missing:
        there = any(takes(item, node) for node in nodes)
        problem = f"it has {'too few' if there else 'no'} {item.subsystem} node{'s' * there}"
        problem += f" called {item.name}" if item.name is not None else ""
        problems.append(problem + (f": {hint}" if hint else ""))
    control = {_CONTROL[node.subsystem] for _, node in chosen if node.subsystem in _CONTROL}
    problems += _accompany(look, [*map(Companion, sorted(control)), *_with(selector)], found)
    return Handed(tuple(found.values()), tuple(owned), next(iter(problems), ""))


def candidate(
    id_: str,
    selector: Selector,
    attributes: Mapping[str, Attribute],
    handed: Handed,
    *,
    hardware: Sequence[sysfs.Device],
    problem: str = "",
) -> Candidate:
    """A device that consists of so much hardware; problem: what is wrong with it, nodes apart."""
    problem = problem or handed.problem
    numa = {node for one in hardware for node in sysfs.numa_nodes(one)}
    device = Device(
        id_,
        handed.nodes,
        selector.replicas,
        attributes=attributes,
        numa_nodes=tuple(sorted(numa)),
    )
    # One that lacks something leaves its folder to others, such as a GPU of a virtual machine.
    folders = () if problem else (one.path for one in hardware)
    return Candidate(device, problem, (*handed.owned, *folders))


def choose(
    items: Iterable[NodeOf], nodes: Sequence[sysfs.Node]
) -> tuple[list[tuple[NodeOf, sysfs.Node]], list[NodeOf]]:
    """The nodes that each item takes, and the items that lack one."""
    left = list(nodes)
    chosen: list[tuple[NodeOf, sysfs.Node]] = []
    missing = []
    for item in items:
        taken = [node for node in left if takes(item, node)]
        if item.to is not None:
            del taken[1:]
        left = [node for node in left if node not in taken]
        chosen += [(item, node) for node in taken]
        if not taken and not item.optional:
            missing.append(item)
    return chosen, missing


def takes(item: NodeOf, node: sysfs.Node) -> bool:
    """Whether an item means a node, if it is not taken."""
    is_called = item.name is None or fnmatchcase(os.path.basename(node.path), item.name)
    return node.subsystem == item.subsystem and is_called


def _with(selector: Selector) -> Iterator[Companion]:
    for companion in selector.companions:
        path = Template.parse(companion.path).render({})
        yield Companion(path, companion.to, companion.permissions, companion.optional)


def _accompany(
    look: Look, companions: Iterable[Companion], found: dict[str, Node]
) -> Iterator[str]:
    """Add companions to the nodes; yields what is wrong."""
    for one in companions:
        try:
            entry = look.entry(one.path)
        except Unusable as why:
            if not one.optional:
                yield f"{one.path} {why}"
            continue
        if entry.is_node:
            node = Node(one.path, one.to or "", one.permissions)
            found.setdefault(one.path, node)
        elif not one.optional:
            yield f"{one.path} is {entry.kind}, not a device node"


def _entry(look: Look, node: sysfs.Node) -> Entry:
    """The node as it stands in /dev. Raises Unusable where it is not what the kernel means."""
    entry = look.entry(node.path)
    if entry.number != node.number:
        raise Unusable(f"is {entry.number or entry.kind}, and should be {node.number}")
    return entry


def _stable(look: Look, node: sysfs.Node, entry: Entry, *, named: bool) -> str:
    """The best name of a node: by-id, by-path, or the kernel's own."""
    folder = _LINKS.get(node.subsystem)
    for form in _FORMS if folder else ():
        if (form == "by-id" and not named) or not folder:
            continue
        path = f"{folder}/{form}"
        links = look.once(f"links {path}", partial(_links, look, path)).get(entry.real)
        if links:
            return min(links, key=natural_key)
    return node.path


def _links(look: Look, folder: str) -> dict[str, list[str]]:
    """The links in a folder, by the real path of the node that they lead to."""
    found: dict[str, list[str]] = {}
    for path in _paths(look, folder):
        try:
            entry = look.entry(path)
        except Unusable:  # a loop, or it dangles: udev is at work
            continue
        if entry.is_node and entry.by_link and path.isprintable():
            found.setdefault(entry.real, []).append(path)
    return found


def _paths(look: Look, folder: str) -> list[str]:
    try:
        return [f"{folder}/{name}" for name in look.names(folder)]
    except Unusable:
        return []
