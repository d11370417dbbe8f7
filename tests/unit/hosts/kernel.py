"""What the kernel shows of a machine: every folder, file and link of /sys, and the nodes of /dev.

The rules are its own, so the layout follows from the description. A device of a class stands in a
folder of the class's name, unless its parent is of a class itself (get_device_parent() in
drivers/base/core.c). Links: `subsystem`, `driver`, `device` of class devices that have a parent;
/sys/bus, /sys/class, /sys/block, /sys/dev.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass

from tests.unit.hosts.attributes import (
    WRITE_ONLY,
    attributes,
    functions,
    is_hub,
    port,
)
from tests.unit.hosts.kinds import (
    NVIDIA,
    PCI,
    PLAIN,
    USB_DEVICE,
    USB_INTERFACE,
    driver_of,
    kind_of,
    node_of,
    number_of,
)
from tests.unit.hosts.language import Description, Thing

_VFIO_DRIVERS = ("vfio-pci", "mlx5_vfio_pci")
# There on any machine.
_FOLDERS = (
    *("/dev", "/sys/block", "/sys/bus", "/sys/class", "/sys/dev/block", "/sys/dev/char"),
    *("/sys/devices", "/sys/kernel/iommu_groups"),
)


@dataclass(frozen=True)
class Folder:
    pass


@dataclass(frozen=True)
class File:
    data: bytes
    mode: int = 0o644


@dataclass(frozen=True)
class Link:
    target: str  # as it stands in the link


@dataclass(frozen=True)
class Node:
    letter: str  # c or b
    major: int
    minor: int


@dataclass(frozen=True)
class Gone:
    """Listed in its folder, and no longer there: what one sees of a device that vanishes."""


Entry = Folder | File | Link | Node | Gone
Entries = dict[str, Entry]


def entries(machine: Description) -> Entries:
    """Everything by its absolute path, folders before what is in them."""
    found: Entries = {path: Folder() for path in _FOLDERS}
    cpus = {
        int(key[4:]): words[0] for key, words in machine.statements.items() if key[:4] == "node"
    }
    for node, list_ in cpus.items():
        path = f"/sys/devices/system/node/node{node}"
        found |= {f"{path}/cpulist": _file(f"{list_}\n")}
        found |= _links(f"{path}/subsystem", "/sys/bus/node")
        found |= _links(f"/sys/bus/node/devices/node{node}", path)
    for thing in all_things(machine):
        found |= _nvidia(thing) if kind_of(thing) is NVIDIA else _device(thing, cpus)
    found |= _iommu_groups(machine)
    return with_folders(found)


def all_things(machine: Description) -> Iterator[Thing]:
    """Every device there is, parents first: those described, and VFIO's own."""
    yield from machine.walk()
    yield from _vfio(machine)


def path_of(thing: Thing) -> str:
    """Where a device stands below /sys/devices."""
    kind, parent = kind_of(thing), thing.parent
    if parent is None:
        virtual = "" if kind.bus else f"virtual/{kind.subsystem}/"
        return f"/sys/devices/{virtual}{thing.name}"
    grouped = not kind.bus and kind_of(parent).bus
    return f"{path_of(parent)}/{f'{kind.subsystem}/' if grouped else ''}{thing.name}"


def groups(machine: Description) -> dict[Thing, int]:
    """The IOMMU group of every PCI function; the kernel numbers them bus by bus."""
    if "iommu" not in machine.statements:
        return {}
    things = sorted((one for one in machine.walk() if kind_of(one) is PCI), key=_by_name)
    taken = {int(one.options["group"]) for one in things if "group" in one.options}
    free = (number for number in range(1000) if number not in taken)
    return {
        one: int(one.options["group"]) if "group" in one.options else next(free) for one in things
    }


def _by_name(thing: Thing) -> str:
    return thing.name


def is_vfio(thing: Thing) -> bool:
    return kind_of(thing) is PCI and driver_of(thing) in _VFIO_DRIVERS


def _device(thing: Thing, cpus: dict[int, str]) -> Entries:
    kind, path, driver = kind_of(thing), path_of(thing), driver_of(thing)
    found: Entries = {
        f"{path}/{name}": _file(text, 0o200 if name in WRITE_ONLY else 0o644)
        for name, text in attributes(thing, cpus).items()
    }
    if kind is not PLAIN:
        found |= _subsystem(thing, path)
    if driver:
        home = f"/sys/bus/{kind.subsystem}/drivers/{driver}"
        found |= _links(f"{path}/driver", home) | _links(f"{home}/{thing.name}", path)
        found |= {f"{home}/{name}": _file("", 0o200) for name in ("bind", "unbind")}
    if number := number_of(thing):
        letter, major, minor = number
        which = "block" if letter == "b" else "char"
        found |= _links(f"/sys/dev/{which}/{major}:{minor}", path)
        found[f"/dev/{node_of(thing)}"] = Node(letter, major, minor)
    if kind is PCI:
        found |= _functions(thing, path)
    elif kind in (USB_DEVICE, USB_INTERFACE):
        found |= _ports(thing, path)
    return found


def _subsystem(thing: Thing, path: str) -> Entries:
    kind, name = kind_of(thing), thing.name
    if kind.bus:
        home = f"/sys/bus/{kind.subsystem}"
        return _links(f"{path}/subsystem", home) | _links(f"{home}/devices/{name}", path)
    home = f"/sys/class/{kind.subsystem}"
    found = _links(f"{path}/subsystem", home) | _links(f"{home}/{name}", path)
    if thing.parent and kind.devtype != "partition":
        found |= _links(f"{path}/device", path_of(thing.parent))
    if kind.subsystem == "block" and kind.devtype != "partition":
        found |= _links(f"/sys/block/{name}", path)
    return found


def _functions(thing: Thing, path: str) -> Entries:
    found: Entries = {}
    for index, function in enumerate(functions(thing)):
        found |= _links(f"{path}/virtfn{index}", path_of(function))
        found |= _links(f"{path_of(function)}/physfn", path)
    return found


def _ports(thing: Thing, path: str) -> Entries:
    """The ports of a hub, which lead to what is plugged in, and back: sysfs has such circles."""
    if kind_of(thing) is USB_DEVICE:
        hub = thing.parent
        if not port(thing) or hub is None:
            return {}
        return _links(f"{path}/port", _port_path(hub, port(thing).rpartition(".")[2]))
    hub = thing.parent
    if hub is None or not is_hub(hub):
        return {}
    used = {port(one).rpartition(".")[2]: one for one in hub.children if kind_of(one) is USB_DEVICE}
    count = max([int(hub.options.get("ports", 4)), *map(int, used)])
    found: Entries = {}
    for number in map(str, range(1, count + 1)):
        at = _port_path(hub, number)
        found |= {f"{at}/connect_type": _file("hotplug\n"), f"{at}/uevent": _file("")}
        if number in used:
            found |= _links(f"{at}/device", path_of(used[number]))
    return found


def _port_path(hub: Thing, number: str) -> str:
    interface = next(one for one in hub.children if kind_of(one) is USB_INTERFACE)
    return f"{path_of(interface)}/{hub.name}-port{number}"


def _iommu_groups(machine: Description) -> Entries:
    found: Entries = {}
    for thing, number in groups(machine).items():
        home = f"/sys/kernel/iommu_groups/{number}"
        found[f"{home}/type"] = _file(f"{machine.statements['iommu'][0]}\n")
        found[f"{home}/reserved_regions"] = _file("0x00000000fee00000 0x00000000feefffff msi\n")
        found |= _links(f"{home}/devices/{thing.name}", path_of(thing))
        found |= _links(f"{path_of(thing)}/iommu_group", home)
    return found


def _vfio(machine: Description) -> Iterator[Thing]:
    """The devices that VFIO makes: one for each group in use, and the two to open them with."""
    forms = machine.statements.get("vfio", [])
    of = groups(machine)
    if "group" in forms:
        yield Thing("vfio", "misc", options={"dev": "10:196", "devname": "vfio/vfio"})
        for number in sorted({of[thing] for thing in of if is_vfio(thing)}):
            yield Thing(str(number), "vfio")
    if "cdev" in forms:
        yield Thing("iommu", "misc", options={"dev": "10:126"})


def _nvidia(thing: Thing) -> Entries:
    """The driver makes no device of its own in sysfs: only /proc tells which minor is which GPU."""
    letter, major, minor = number_of(thing) or ("c", 195, 0)
    address = thing.parent.name if thing.parent else ""
    information = f"Bus Location: \t {address}\nDevice Minor: \t {minor}\n"
    return {
        f"/dev/{thing.name}": Node(letter, major, minor),
        "/dev/nvidiactl": Node("c", major, 255),
        "/dev/nvidia-modeset": Node("c", major, 254),
        "/dev/nvidia-uvm": Node("c", 510, 0),
        "/dev/nvidia-uvm-tools": Node("c", 510, 1),
        f"/proc/driver/nvidia/gpus/{address}/information": _file(information),
    }


def _file(text: str | bytes, mode: int = 0o644) -> File:
    if isinstance(text, str):
        text = text.encode(errors="surrogateescape")
    return File(text, mode)


def _links(path: str, target: str) -> Entries:
    """A link as sysfs writes it: relative, and with the target's name at its end."""
    folder, name = os.path.split(target)
    up = os.path.relpath(folder, os.path.dirname(path))
    return {path: Link(name if up == "." else f"{up}/{name}")}


def with_folders(found: Entries) -> Entries:
    """Add the folders that hold the entries, and sort: folders come before what is in them."""
    folders: Entries = {}
    for path in found:
        folder = os.path.dirname(path)
        while folder != "/" and folder not in folders:
            folders[folder] = Folder()
            folder = os.path.dirname(folder)
    everything = folders | found
    return {path: everything[path] for path in sorted(everything)}
