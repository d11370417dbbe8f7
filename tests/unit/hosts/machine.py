"""A described machine on disk, and what can happen to it while somebody looks.

Every change is made to the description, as the kernel would; then the difference is made on disk:
what is gone goes first, innermost first.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.unit.hosts import kernel, numbering, udev
from tests.unit.hosts.kernel import Entries, Entry, File, Folder, Gone, Link, Node
from tests.unit.hosts.kinds import (
    PCI,
    USB_DEVICE,
    USB_INTERFACE,
    described_driver,
    kind_of,
    node_of,
)
from tests.unit.hosts.language import Thing, parse

_ANY_MACHINE = """
mem/null dev=1:3
mem/zero dev=1:5
mem/full dev=1:7
mem/urandom dev=1:9
misc/fuse dev=10:229
tty/tty dev=5:0
"""
_SYSTEMD = 252

Fault = Callable[[str, Entry], Entry | None]  # of what stands at a path; None: nothing does
MakeNode = Callable[[Path, Node], None]


class Machine:
    """The host root of a described machine; all paths are the host's."""

    def __init__(self, root: Path, text: str, make_node: MakeNode) -> None:
        self.root = root
        self._make_node = make_node
        self._machine = parse(text)
        self._machine.things += parse(_ANY_MACHINE).things
        self._faults: dict[str, Fault] = {}
        self._on_disk: Entries = {}
        self._left: Entries = {}  # nodes that no kernel removes
        self._looked_at: list[Thing] = []  # by udev, again and in this order
        for top in self._machine.things:
            numbering.complete(self._machine, top)
        self._open_vfio()
        self.sync()

    # What there is

    def local(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def things(self) -> Iterator[Thing]:
        return kernel.all_things(self._machine)

    def thing(self, name: str) -> Thing:
        """The device of this name, or `drm/card0` where that is not enough; the outermost."""
        for one in self.things():
            full = f"{kind_of(one).subsystem}/{one.name}"
            if name in (one.name, one.name.removeprefix("0000:"), full):
                return one
        raise KeyError(name)

    def path(self, name: str) -> str:
        """Where a device stands in /sys."""
        return kernel.path_of(self.thing(name))

    def nodes(self, name: str) -> list[str]:
        """The kernel's nodes of a device and of all below it."""
        return [f"/dev/{node_of(one)}" for one in self.thing(name).walk() if node_of(one)]

    def at(self, path: str) -> Entry | None:
        """What stands at a path, faults included."""
        return self._on_disk.get(path)

    def gone(self) -> list[str]:
        """What is listed and not there."""
        return [path for path, entry in self._on_disk.items() if isinstance(entry, Gone)]

    # What happens

    def unplug(self, name: str) -> Thing:
        """Pull a device out, with all that hangs on it. What comes back can be plugged in again."""
        thing = self.thing(name)
        assert thing.parent is not None
        thing.parent.children.remove(thing)
        self.sync()
        return thing

    def plug(self, what: Thing | str, into: str, port: int | None = None) -> Thing:
        """Plug a device into its parent, a USB device into the hub's `port` or into its old one.

        It gets the bus's next device number, and its nodes the lowest free numbers.
        """
        thing = parse(what).things[0] if isinstance(what, str) else what
        self.thing(into).adopt(thing)
        if kind_of(thing) is USB_DEVICE:
            numbering.put_in_port(self._machine, thing, port)
        numbering.renumber(self._machine, thing.walk())
        self._open_vfio()
        self.sync()
        return thing

    def replug(self, name: str, into: str = "", port: int | None = None) -> Thing:
        """Pull it out and plug it in, there or elsewhere."""
        home = self.thing(name).parent
        assert home is not None
        return self.plug(self.unplug(name), into or home.name, port)

    def bind(self, name: str, driver: str = "") -> None:
        """Give it to a driver, or to none: what the driver before it made is gone.

        The described driver makes it again, with the lowest free numbers.
        """
        thing = self.thing(name)
        thing.driver = driver
        thing.children = [one for one in thing.children if kind_of(one).subsystem != "vfio-dev"]
        made = [one for one in thing.children if kind_of(one) not in (PCI, USB_INTERFACE)]
        self._show(made, there=driver == described_driver(thing))

    def authorize(self, name: str, *, allowed: bool) -> None:
        """Write `authorized`: without it the kernel takes the interfaces of a USB device away."""
        thing = self.thing(name)
        thing.options["authorized"] = str(int(allowed))
        self._show(thing.children, there=allowed)

    def _show(self, things: list[Thing], *, there: bool) -> None:
        appear = [one for one in things if there and one.hidden]
        for one in things:
            one.hidden = not there
        numbering.renumber(self._machine, [one for top in appear for one in top.walk()])
        self._open_vfio()
        self.sync()

    def renumber(self, numbers: Mapping[str, int]) -> None:
        """Give devices other numbers, all at once: {"ttyUSB0": 1, "drm/card1": 0}."""
        for thing, number in [(self.thing(name), number) for name, number in numbers.items()]:
            numbering.rename(thing, number)
        self.sync()

    def set_iommu(self, type_: str = "") -> None:
        """Boot with another mode of the IOMMU, such as DMA-FQ or identity; "" is off."""
        self._machine.statements.pop("iommu", None)
        if type_:
            self._machine.statements["iommu"] = [type_]
        self.sync()

    def reboot(self, seed: int) -> None:
        """Find everything again in another order: only PCI addresses and USB ports stay."""
        self._left.clear()
        self._looked_at.clear()
        numbering.anew(self._machine, seed)
        self.sync()

    def trigger(self, name: str) -> None:
        """Let udev look at a device again: it takes the links that it shares with others."""
        for one in self.thing(name).walk():
            self._looked_at = [*(other for other in self._looked_at if other is not one), one]
        self.sync()

    def spoil(self, path: str, fault: Fault) -> None:
        """From now on something is wrong with what stands at a path (see faults)."""
        self._faults[path] = fault
        self.sync()

    def _open_vfio(self) -> None:
        """Functions that vfio-pci has get a device of its own; its modules then stay loaded."""
        for one in [one for one in self._machine.walk() if kernel.is_vfio(one)]:
            forms = self._machine.statements.setdefault("vfio", ["group", "cdev"])
            if not any(kind_of(child).subsystem == "vfio-dev" for child in one.children):
                child = Thing("vfio0", words=[] if "cdev" in forms else ["nodev"])
                one.adopt(child)
                numbering.renumber(self._machine, [child])

    # On disk

    def entries(self) -> Entries:
        """All that there ought to be, faults aside."""
        found = kernel.entries(self._machine)
        self._left |= {path: one for path, one in found.items() if path.startswith("/dev/nvidia")}
        things = [one for one in self.things() if one not in self._looked_at]
        version = int(self._machine.statements.get("udev", [str(_SYSTEMD)])[0])
        links = udev.links([*things, *self._still_there(self._looked_at)], version)
        for path, target in links.items():
            found[path] = Link(os.path.relpath(target, os.path.dirname(path)))
        return kernel.with_folders(self._left | found)

    def _still_there(self, things: list[Thing]) -> list[Thing]:
        there = set(self._machine.walk())
        return [one for one in things if one in there]

    def sync(self) -> None:
        wanted = self.entries()
        for path, fault in self._faults.items():
            _spoil(wanted, path, fault)
        for path in sorted(self._on_disk, reverse=True):
            entry, new = self._on_disk[path], wanted.get(path)
            if new != entry and not isinstance(entry, Gone):
                self._remove(path, entry)
        for path in sorted(wanted):
            if wanted[path] != self._on_disk.get(path):
                self._make(path, wanted[path])
        self._on_disk = wanted

    def _make(self, path: str, entry: Entry) -> None:
        local = self.local(path)
        match entry:
            case Folder():
                local.mkdir()
            case File(data, mode):
                local.write_bytes(data)
                local.chmod(mode)
            case Link(target):
                local.symlink_to(target)
            case Node():
                self._make_node(local, entry)
            case Gone():
                pass

    def _remove(self, path: str, entry: Entry) -> None:
        local = self.local(path)
        if isinstance(entry, Folder):
            local.rmdir()
        else:
            local.unlink()


def _spoil(wanted: Entries, path: str, fault: Fault) -> None:
    """Put what is faulty in its place; nothing is below what is no folder."""
    if path not in wanted:
        return
    entry = fault(path, wanted.pop(path))
    if not isinstance(entry, Folder):
        for below in [other for other in wanted if other.startswith(f"{path}/")]:
            del wanted[below]
    if entry is not None:
        wanted[path] = entry
