"""What a name is to the kernel: its subsystem, and the number and place of its node.

Numbers are those of Documentation/admin-guide/devices.txt; for majors that the kernel hands out as
it starts, one that was seen.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from tests.unit.hosts.language import Thing

Minor = Callable[[re.Match[str]], int]


@dataclass(frozen=True)
class Kind:
    """What the devices of a subsystem that are named alike have in common."""

    subsystem: str
    pattern: re.Pattern[str]
    bus: bool  # of a bus; else of a class
    number: str  # "c 188"; empty where there is no node
    minor: Minor
    folder: str  # of the node, below /dev
    devtype: str
    explicit: bool  # the name is this only where the description says so


def _nth(factor: int = 1, first: int = 0) -> Minor:
    return lambda name: first + factor * int(name[1])


def _disk(name: re.Match[str]) -> int:
    return 16 * (ord(name[1]) - ord("a")) + int(name[2] or 0)


def _pcm(name: re.Match[str]) -> int:
    return 32 * int(name[1]) + (16 if name[3] == "p" else 24) + int(name[2])


def _nvme(name: re.Match[str]) -> int:
    return 16 * int(name[1]) + int(name[2] or 0)


def _kind(
    subsystem: str,
    pattern: str,
    number: str = "",
    minor: Minor | None = None,
    *,
    folder: str = "",
    devtype: str = "",
    bus: bool = False,
    explicit: bool = False,
) -> Kind:
    expression = re.compile(pattern)
    return Kind(subsystem, expression, bus, number, minor or _nth(), folder, devtype, explicit)


_PORTS = r"\d+-\d+(?:\.\d+)*"
PCI = _kind("pci", r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", bus=True)
USB_DEVICE = _kind("usb", rf"usb\d+|{_PORTS}", "c 189", bus=True, devtype="usb_device")
USB_INTERFACE = _kind("usb", rf"(?:{_PORTS}|\d+-0):\d+\.\d+", bus=True, devtype="usb_interface")
SERIAL_PORT = _kind("usb-serial", r"ttyUSB\d+", bus=True, explicit=True)
NVIDIA = _kind("", r"nvidia(\d+)", "c 195")  # made by no driver's class: in /dev only
PLATFORM = _kind("platform", r".+", bus=True)
PLAIN = _kind("", r"pci[0-9a-f]{4}:[0-9a-f]{2}|platform|pnp\d+|LNXS\w+:00", bus=True)

_KINDS = (
    PLAIN,
    PCI,
    USB_DEVICE,
    USB_INTERFACE,
    SERIAL_PORT,
    NVIDIA,
    _kind("tty", r"ttyUSB(\d+)", "c 188"),
    _kind("tty", r"ttyACM(\d+)", "c 166"),
    _kind("tty", r"ttyS(\d+)", "c 4", _nth(first=64)),
    _kind("tty", r"ttyAMA(\d+)", "c 204", _nth(first=64)),
    _kind("video4linux", r"video(\d+)", "c 81"),
    _kind("media", r"media(\d+)", "c 236", bus=True),
    _kind("hid", r"[0-9A-F]{4}:[0-9A-F]{4}:[0-9A-F]{4}\.[0-9A-F]{4}", bus=True),
    _kind("hidraw", r"hidraw(\d+)", "c 240"),
    _kind("input", r"input\d+"),
    _kind("input", r"event(\d+)", "c 13", _nth(first=64), folder="input/"),
    _kind("input", r"mouse(\d+)", "c 13", _nth(first=32), folder="input/"),
    _kind("sound", r"card\d+", explicit=True),
    _kind("sound", r"controlC(\d+)", "c 116", _nth(32), folder="snd/"),
    _kind("sound", r"pcmC(\d+)D(\d+)([cp])", "c 116", _pcm, folder="snd/"),
    _kind("drm", r"card(\d+)", "c 226", folder="dri/", devtype="drm_minor", explicit=True),
    _kind("drm", r"renderD(\d+)", "c 226", folder="dri/", devtype="drm_minor"),
    _kind("drm", r"card\d+-[\w-]+", devtype="drm_connector"),
    _kind("accel", r"accel(\d+)", "c 261", folder="accel/", devtype="accel_minor"),
    _kind("apex", r"apex_(\d+)", "c 120"),
    _kind("kfd", r"kfd", "c 235", lambda _: 0),
    _kind("net", r"(?:eth|en|ib|wl)\w+"),
    _kind("infiniband", r"mlx5_\d+"),
    _kind("infiniband_verbs", r"uverbs(\d+)", "c 231", _nth(first=192), folder="infiniband/"),
    _kind("infiniband_mad", r"umad(\d+)", "c 231", folder="infiniband/"),
    _kind("nvme", r"nvme(\d+)", "c 239"),
    _kind("nvme-generic", r"ng(\d+)n\d+", "c 238"),
    _kind("block", r"nvme(\d+)n\d+", "b 259", _nth(16), devtype="disk"),
    _kind("block", r"nvme(\d+)n\d+p(\d+)", "b 259", _nvme, devtype="partition"),
    _kind("block", r"sd([a-z])()", "b 8", _disk, devtype="disk"),
    _kind("block", r"sd([a-z])(\d+)", "b 8", _disk, devtype="partition"),
    _kind("block", r"vd([a-z])()", "b 254", _disk, devtype="disk"),
    _kind("block", r"vd([a-z])(\d+)", "b 254", _disk, devtype="partition"),
    _kind("block", r"loop(\d+)", "b 7", devtype="disk"),
    _kind("scsi", r"host\d+", bus=True, devtype="scsi_host"),
    _kind("scsi", r"target\d+:\d+:\d+", bus=True, devtype="scsi_target"),
    _kind("scsi", r"\d+:\d+:\d+:\d+", bus=True, devtype="scsi_device"),
    _kind("scsi_generic", r"sg(\d+)", "c 21"),
    _kind("tpm", r"tpm(\d+)", "c 10", _nth(first=224)),
    _kind("tpmrm", r"tpmrm(\d+)", "c 253", _nth(first=65536)),
    _kind("gpio", r"gpiochip(\d+)", "c 254", bus=True),
    _kind("i2c", r"i2c-\d+", bus=True),
    _kind("i2c-dev", r"i2c-(\d+)", "c 89", explicit=True),
    _kind("spi_master", r"spi\d+"),
    _kind("spi", r"spi\d+\.\d+", bus=True),
    _kind("spidev", r"spidev\d+\.(\d+)", "c 153"),
    _kind("serial-base", r"\w+\.\w+:\d+(?:\.\d+)?", bus=True),
    _kind("virtio", r"virtio\d+", bus=True),
    _kind("node", r"node\d+", bus=True),
    _kind("vfio", r"(\d+)", "c 243", folder="vfio/", explicit=True),
    _kind("vfio-dev", r"vfio(\d+)", "c 242", folder="vfio/devices/"),
)


def kind_of(thing: Thing) -> Kind:
    """What a described device is."""
    return _kind_of(thing.subsystem, thing.name, "dev" in thing.options)


@cache  # there are many things, and they are asked often
def _kind_of(subsystem: str, name: str, numbered: bool) -> Kind:  # noqa: FBT001
    for kind in _KINDS:
        named = kind.subsystem == subsystem if subsystem else not kind.explicit
        if named and kind.pattern.fullmatch(name):
            return kind
    return _kind(subsystem, r".+", "c" if numbered else "") if subsystem else PLATFORM


def number_of(thing: Thing) -> tuple[str, int, int] | None:
    """Letter, major and minor of its node; None if it has none."""
    kind = kind_of(thing)
    letter, _, major = kind.number.partition(" ")
    if not letter or "nodev" in thing.words:
        return None
    if "dev" in thing.options:
        known_major, known_minor = thing.options["dev"].split(":")
        return letter, int(known_major), int(known_minor)
    if kind is USB_DEVICE:
        return letter, int(major), 128 * (bus_number(thing) - 1) + devnum(thing) - 1
    name = kind.pattern.fullmatch(thing.name)
    assert name is not None
    return letter, int(major), kind.minor(name)


def node_of(thing: Thing) -> str:
    """Where its node stands below /dev by the kernel's word; empty if it has none."""
    if number_of(thing) is None:
        return ""
    kind = kind_of(thing)
    if kind is USB_DEVICE:
        return f"bus/usb/{bus_number(thing):03}/{devnum(thing):03}"
    return thing.options.get("devname") or kind.folder + thing.name


def bus_number(thing: Thing) -> int:
    """The number of the USB bus that a USB device hangs on."""
    return int(thing.name.removeprefix("usb").split("-")[0])


def devnum(thing: Thing) -> int:
    return int(thing.options["devnum"])


def driver_of(thing: Thing) -> str:
    """The driver that it is bound to; empty for none."""
    return described_driver(thing) if thing.driver is None else thing.driver


def described_driver(thing: Thing) -> str:
    kind = kind_of(thing)
    if kind is USB_DEVICE:
        return "usb"
    if not kind.bus or kind is PLAIN:
        return ""
    return thing.word({PCI: 2, USB_INTERFACE: 1}.get(kind, 0))


def is_bridge(thing: Thing) -> bool:
    """Whether it is a PCI bridge: those may stay with their driver in a VFIO group."""
    return kind_of(thing) is PCI and thing.word(1).startswith("0604")
