"""How the kernel numbers what it finds: devices of a USB bus in turn, all else lowest first."""

import random
import re
from collections.abc import Iterable, Mapping

from tests.unit.hosts.attributes import is_hub, port
from tests.unit.hosts.kinds import (
    NVIDIA,
    PCI,
    USB_DEVICE,
    USB_INTERFACE,
    bus_number,
    devnum,
    driver_of,
    kind_of,
)
from tests.unit.hosts.language import Description, Thing

_LARGEST_DEVNUM = 127
# What is counted by itself: by subsystem and name before the number, the first number. The names of
# what is below follow, as the pattern says, in which {} is the number.
_COUNTED: Mapping[tuple[str, str], tuple[int, str]] = {
    ("usb-serial", "ttyUSB"): (0, r"(ttyUSB){}$"),
    ("tty", "ttyACM"): (0, ""),
    ("video4linux", "video"): (0, ""),
    ("media", "media"): (0, ""),
    ("hidraw", "hidraw"): (0, ""),
    ("input", "input"): (0, ""),
    ("input", "event"): (0, ""),
    ("input", "mouse"): (0, ""),
    ("sound", "card"): (0, r"(controlC|pcmC){}(?=D|$)"),
    ("drm", "card"): (0, r"(card){}(?=-)"),
    ("drm", "renderD"): (128, ""),
    ("accel", "accel"): (0, ""),
    ("apex", "apex_"): (0, ""),
    ("nvme", "nvme"): (0, r"(nvme|ng){}(?=n)"),
    ("block", "sd"): (0, r"(sd){}(?=\d)"),
    ("scsi", "host"): (0, r"(target|^){}(?=:)"),
    ("scsi_generic", "sg"): (0, ""),
    ("infiniband", "mlx5_"): (0, ""),
    ("infiniband_verbs", "uverbs"): (0, ""),
    ("infiniband_mad", "umad"): (0, ""),
    ("vfio-dev", "vfio"): (0, ""),
    (NVIDIA.subsystem, "nvidia"): (0, ""),
}

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def complete(machine: Description, thing: Thing) -> None:
    """Add what a description leaves out: interfaces of hubs, ports of adapters, device numbers."""
    for one in list(thing.walk()):
        if kind_of(one) is USB_DEVICE and is_hub(one):
            _add_hub_interface(one)
        elif kind_of(one).subsystem == "tty" and one.name.startswith("ttyUSB"):
            _put_below_port(one)
    for one in thing.walk():
        if kind_of(one) is USB_DEVICE and "devnum" not in one.options:
            one.options["devnum"] = str(_next_devnum(machine, one))


def _add_hub_interface(hub: Thing) -> None:
    if not any(kind_of(child) is USB_INTERFACE for child in hub.children):
        name = f"{hub.name}:1.0" if port(hub) else f"{bus_number(hub)}-0:1.0"
        hub.children.insert(0, Thing(name, words=["09/00/00", "hub"], parent=hub))


def _put_below_port(tty: Thing) -> None:
    """Between an interface and its ttyUSB there is a device of the same name, the port."""
    interface = tty.parent
    if interface is None or kind_of(interface) is not USB_INTERFACE:
        return
    where = interface.children.index(tty)
    words, options = [driver_of(interface)], {"port_number": "0"}
    adapter = Thing(tty.name, "usb-serial", words, options, parent=interface)
    interface.children[where] = adapter
    adapter.adopt(tty)


def _next_devnum(machine: Description, thing: Thing) -> int:
    """The kernel goes round: a number comes again only after all others."""
    bus = bus_number(thing)
    if not port(thing):
        return 1  # the root hub
    taken = {
        devnum(one)
        for one in machine.walk()
        if kind_of(one) is USB_DEVICE and bus_number(one) == bus and "devnum" in one.options
    }
    last = max(machine.devnums.get(bus, 1), *taken, 1)
    number = last % _LARGEST_DEVNUM + 1
    while number in taken:
        number = number % _LARGEST_DEVNUM + 1
    machine.devnums[bus] = number
    return number


def put_in_port(machine: Description, thing: Thing, number: int | None) -> None:
    """Name a USB device by its hub and port, and all that has this in its name."""
    hub = thing.parent
    assert hub is not None
    last = number if number is not None else int(re.findall(r"\d+$", thing.name)[0])
    name = f"{hub.name}.{last}" if port(hub) else f"{bus_number(hub)}-{last}"
    _move(thing, name)
    complete(machine, thing)


def _move(thing: Thing, name: str) -> None:
    old = thing.name
    for one in thing.walk():
        if kind_of(one) in (USB_DEVICE, USB_INTERFACE):
            one.name = name + one.name.removeprefix(old)
            one.options.pop("devnum", None)


def renumber(machine: Description, things: Iterable[Thing]) -> None:
    """Give these the lowest free numbers, one after the other."""
    left = [one for one in things if _family(one)]
    while left:
        one = left.pop(0)
        family = _family(one)
        assert family is not None
        others = (other for other in machine.walk() if other is not one and other not in left)
        used = {_count(other) for other in others if _family(other) == family}
        free = (number for number in range(_COUNTED[family][0], 10_000) if number not in used)
        rename(one, next(free))


def rename(thing: Thing, number: int) -> None:
    """Give it another number, and whatever below has this in its name."""
    family = _family(thing)
    assert family is not None, f"{thing.name} has no number of its own"
    prefix = family[1]
    follows = _COUNTED[family][1].replace("{}", thing.name.removeprefix(prefix))
    written = _LETTERS[number] if prefix == "sd" else str(number)
    thing.name = f"{prefix}{written}"
    for one in thing.walk():
        if follows and one is not thing:
            one.name = re.sub(f"^{follows}", rf"\g<1>{written}", one.name)


def _family(thing: Thing) -> tuple[str, str] | None:
    """The subsystem and the name without its number, if it is counted."""
    name = re.fullmatch(r"(.*?)\d+|(sd)[a-z]", thing.name)
    if name is None:
        return None
    family = kind_of(thing).subsystem, name[1] or name[2]
    return family if family in _COUNTED else None


def _count(thing: Thing) -> int:
    name = re.fullmatch(r".*?(\d+)|sd([a-z])", thing.name)
    assert name is not None
    return int(name[1]) if name[1] else _LETTERS.index(name[2])


def anew(machine: Description, seed: int) -> None:
    """Find everything in another order: USB buses, devices of each bus, and what is counted."""
    chance = random.Random(seed)  # noqa: S311 - nothing secret
    machine.devnums.clear()
    _shuffle_buses(machine, chance)
    devices = [one for one in machine.walk() if kind_of(one) is USB_DEVICE]
    for one in devices:
        del one.options["devnum"]
    chance.shuffle(devices)
    for one in sorted(devices, key=lambda one: len(list(one.above()))):
        one.options["devnum"] = str(_next_devnum(machine, one))
    counted = [one for one in machine.walk() if _family(one)]
    rank = {owner: chance.random() for owner in map(_owner, counted)}
    renumber(machine, sorted(counted, key=lambda one: rank[_owner(one)]))


def _shuffle_buses(machine: Description, chance: random.Random) -> None:
    """Controllers are found in another order; the bus of USB 2 stays before that of USB 3."""
    hubs: dict[Thing | None, list[Thing]] = {}
    for one in machine.walk():
        if kind_of(one) is USB_DEVICE and not port(one):
            hubs.setdefault(one.parent, []).append(one)
    controllers = list(hubs.values())
    chance.shuffle(controllers)
    for number, hub in enumerate((hub for found in controllers for hub in found), 1):
        for one in hub.walk():
            if kind_of(one) is USB_DEVICE and port(one):
                one.name = f"{number}-{port(one)}"
            elif kind_of(one) is USB_INTERFACE:
                one.name = f"{number}-{one.name.partition('-')[2]}"
        hub.name = f"usb{number}"


def _owner(thing: Thing) -> Thing:
    """What was found when it was: the PCI function or USB device that it belongs to."""
    owners = (one for one in thing.above() if kind_of(one) in (PCI, USB_DEVICE))
    return next(owners, thing)
