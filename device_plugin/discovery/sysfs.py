"""What the kernel says of its devices in /sys, and which nodes in /dev are theirs.

A device is a folder in /sys/devices; the folder that holds it is the device that it hangs on.
"""

import os
import re
from typing import NamedTuple, TypeVar

from device_plugin.device import natural_key
from device_plugin.host import Look, Unusable

_FUNCTION = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_ROOT = re.compile(r"/(pci[0-9a-f]{4,8}:[0-9a-f]{2})(?:/|$)")
_HEXADECIMAL = re.compile(r"[0-9a-f]+")
_NUMA = re.compile(r"[0-9]{1,4}")  # -1: the firmware does not say
_DOTS = frozenset(("", ".", ".."))


class Device:
    """A device by its folder; whatever is read of it is read once."""

    __slots__ = ("_read", "look", "path")

    def __init__(self, look: Look, path: str) -> None:
        self.look = look
        self.path = path
        self._read: dict[str, str] = {}

    @property
    def name(self) -> str:
        """What the kernel calls it: 0000:3b:00.0, 1-1.4, ttyUSB0."""
        return self.path.rpartition("/")[2]

    def text(self, attribute: str) -> str:
        """An attribute; empty where it is missing, or cannot be read."""
        if attribute not in self._read:
            try:
                self._read[attribute] = self.look.read(f"{self.path}/{attribute}")
            except Unusable:
                self._read[attribute] = ""
        return self._read[attribute]

    def number(self, attribute: str, digits: int) -> str:
        """A hexadecimal number of so many digits, without its 0x; empty where it is none."""
        text = self.text(attribute).lower().removeprefix("0x")
        return text if len(text) == digits and _HEXADECIMAL.fullmatch(text) else ""

    def named(self, link: str) -> str:
        """The name of the device or driver that a link leads to; empty where there is none."""
        return self._link(link).rpartition("/")[2]

    def linked(self, link: str) -> str:
        """The folder that a link leads to; empty where there is none."""
        target = self._link(link)
        return os.path.normpath(f"{self.path}/{target}") if target else ""

    def _link(self, link: str) -> str:
        key = f"{link}/"
        if key not in self._read:
            try:
                self._read[key] = self.look.link(f"{self.path}/{link}")
            except Unusable:
                self._read[key] = ""
        return self._read[key]


_Kind = TypeVar("_Kind", bound=Device)


class Node(NamedTuple):
    """A node in /dev as the kernel means it."""

    subsystem: str
    path: str
    number: str  # "c 188:0"


def devices(look: Look, bus: str, kind: type[_Kind]) -> list[_Kind]:
    """Every device on a bus, in natural order; none where the kernel has no such bus."""
    return look.once(f"sysfs {bus}", lambda: [kind(look, path) for path in _paths(look, bus)])


def nodes(device: Device) -> list[Node]:
    """The nodes of a device and of all that hangs on it, but for other PCI and USB devices.

    In the order of their folders: interface by interface, so to say. Raises Unusable, with a whole
    sentence, where nodes cannot be looked up.
    """
    look = device.look
    found = look.once("sysfs nodes", lambda: _by_device(look))
    below = [(path.removeprefix(device.path), n) for path, n in found.get(device.path, ())]
    below.sort(key=lambda one: [natural_key(name) for name in one[0].split("/")])
    made = (_node(Device(look, device.path + path), number) for path, number in below)
    return [node for node in made if node is not None]


def _by_device(look: Look) -> dict[str, list[tuple[str, str]]]:
    """Folder and number of every node that the kernel has, by the device that it belongs to.

    That is the nearest one on a bus with IDs, or else it belongs to itself.
    """
    owners = set(_paths(look, "pci")).union(p for p in _paths(look, "usb") if not _is_interface(p))
    found: dict[str, list[tuple[str, str]]] = {}
    for letter, folder in (("c", "/sys/dev/char"), ("b", "/sys/dev/block")):
        try:
            links = _links(look, folder)
        except Unusable as why:
            raise Unusable(f"its nodes are not known: {folder} {why}") from None
        for number, path in links:
            owner = path
            while owner and owner not in owners:
                owner = owner.rpartition("/")[0]
            found.setdefault(owner or path, []).append((path, f"{letter} {number}"))
    return found


def _is_interface(path: str) -> bool:
    return ":" in path.rpartition("/")[2]


def _paths(look: Look, bus: str) -> list[str]:
    """The folders of all that is on a bus, in natural order."""

    def read() -> list[str]:
        try:
            links = _links(look, f"/sys/bus/{bus}/devices")
        except Unusable:  # the kernel has no such bus
            return []
        links.sort(key=lambda link: natural_key(link[0]))
        return [path for _, path in links]

    return look.once(f"sysfs paths {bus}", read)


def _links(look: Look, folder: str) -> list[tuple[str, str]]:
    """The links to devices in a folder: their names, and where they lead. Raises Unusable."""
    found = []
    for name in look.names(folder):
        try:
            target = look.link(f"{folder}/{name}")
        except Unusable:
            continue
        path = os.path.normpath(f"{folder}/{target}")
        if path.startswith("/sys/devices/"):
            found.append((name, path))
    return found


def _node(device: Device, number: str) -> Node | None:
    """Read which node it is; none where the kernel does not say."""
    subsystem, name = device.named("subsystem"), device.name.replace("!", "/")
    try:
        lines = device.look.lines(f"{device.path}/uevent")
    except Unusable:
        return None
    for line in lines:
        if line.startswith("DEVNAME="):
            name = line.removeprefix("DEVNAME=")
    if not subsystem or not _DOTS.isdisjoint(name.split("/")):
        return None
    return Node(subsystem, f"/dev/{name}", number)


def numa_nodes(device: Device) -> tuple[int, ...]:
    """The NUMA node of the nearest PCI function, the device itself or above it."""
    path = device.path
    while not _FUNCTION.fullmatch(path.rpartition("/")[2]):
        path = path.rpartition("/")[0]
        if not path:
            return ()
    nearest = device if path == device.path else Device(device.look, path)
    text = nearest.text("numa_node")
    return (int(text),) if _NUMA.fullmatch(text) else ()


def pcie_root(device: Device) -> str:
    """The PCI host bridge that a device hangs on, such as pci0000:00; empty without one."""
    found = _ROOT.search(device.path)
    return found[1] if found else ""
