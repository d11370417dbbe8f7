"""`usb`: devices by what they say about themselves.

A device is known by its serial number where no other one of its vendor and product has the same,
else by where it is plugged in: the controller, and the ports from there. Bus and device numbers
are the kernel's, and say nothing.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

from device_plugin.attribute import Attribute
from device_plugin.config import Selector, Usb
from device_plugin.device import Candidate, Found, Lost, device_id
from device_plugin.discovery import match, nodes, sysfs
from device_plugin.discovery.match import Match
from device_plugin.host import Look, Unusable

_HUB = "09"
# What the kernel numbers as it finds it says nothing: then the folder above is the controller.
_BUS = re.compile(r"/([^/]+)(?:/xhci-hcd\.[0-9]+(?:\.auto)?)?/usb([0-9]+)(?=/|$)")
_INTERFACE = re.compile(r"[0-9]+-[0-9.]+:[0-9]+\.[0-9]+")  # that of a root hub is 1-0:1.0
_RAW = "/dev/bus/usb"


class Stick(sysfs.Device):
    """A USB device at hand."""

    __slots__ = ()

    @property
    def vendor(self) -> str:
        return self.number("idVendor", 4)

    @property
    def product(self) -> str:
        return self.number("idProduct", 4)

    @property
    def serial(self) -> str:
        return match.word(self.text("serial"))

    @property
    def interfaces(self) -> list[sysfs.Device]:
        """Those that it has as it is configured now; none before, and while it goes."""
        try:
            folders = self.look.subfolders(self.path)
        except Unusable:
            return []
        names = sorted(name for name in folders if _INTERFACE.fullmatch(name))
        return [sysfs.Device(self.look, f"{self.path}/{name}") for name in names]

    @property
    def bus(self) -> tuple[str, int]:
        """Its controller's name, and the number of its bus."""
        found = _BUS.search(self.path)
        return (found[1], int(found[2])) if found else (self.path, 0)

    def value(self, key: str) -> str:
        """What a selector asks for; empty where the device does not say."""
        match key:
            case "vendor":
                return self.vendor
            case "product":
                return self.product
            case "serial":
                return self.serial
            case "port":
                return self.name
        parts = ("bInterfaceClass", "bInterfaceSubClass", "bInterfaceProtocol")
        classes = ("".join(one.number(part, 2) for part in parts) for one in self.interfaces)
        return ",".join(dict.fromkeys(classes))

    def differs(self, asked: Mapping[str, str]) -> str:
        """Say in what it is not what is asked for; empty if in nothing."""
        why = match.differs(asked, self.value)
        meant = "class" in asked or asked.get("product") == self.product
        if not why and not meant and self.text("bDeviceClass") == _HUB:
            return "it is a hub, which only `product` or `class` selects"
        return why


class Known(NamedTuple):
    """A device and its name."""

    id: str
    stick: Stick
    by_serial: bool


def find(look: Look, selector: Selector, wanted: Usb) -> Found:
    """Every USB device that is what is wanted."""
    _watch(look)
    return match.sift(_matches(look, selector, match.asked(wanted)), selector)


def _matches(look: Look, selector: Selector, asked: Mapping[str, str]) -> Iterator[Match | Lost]:
    for one in known(look):
        if one.stick.differs(asked):
            continue
        if not one.by_serial and not one.stick.interfaces:
            # A serial number comes later than its device, and goes earlier.
            yield Lost(one.id, "it has no interfaces: it comes or goes, or is not authorized")
            continue
        attributes = _attributes(one.stick)
        yield Match(one.id, attributes, partial(_candidate, selector, one, attributes))


def known(look: Look) -> list[Known]:
    """Every USB device, hubs among them."""
    return look.once("usb", lambda: list(_known(look)))


def _known(look: Look) -> Iterator[Known]:
    everything = sysfs.devices(look, "usb", Stick)
    sticks = [one for one in everything if ":" not in one.name and one.vendor and one.product]
    buses = {one.bus for one in sticks}
    count = Counter((one.vendor, one.product, one.serial) for one in sticks)
    for one in sticks:
        kind, serial = f"{one.vendor}-{one.product}", one.serial
        by_serial = bool(serial) and count[one.vendor, one.product, serial] == 1
        if by_serial:
            identity = readable = f"usb-{kind}-{serial}"
        else:
            ports = one.name.partition("-")[2] or "root"
            controller, number = one.bus
            nth = sum(bus[0] == controller and bus[1] < number for bus in buses)  # USB 2, USB 3
            readable = f"usb-{kind}-port-{ports}"
            identity = f"{kind} at port {ports} of bus {nth} of {controller}"
        yield Known(device_id(readable, identity), one, by_serial)


def _attributes(stick: Stick) -> dict[str, Attribute]:
    return match.said_by(
        stick,
        {
            "vendor": stick.vendor,
            "product": stick.product,
            "serial": stick.serial,
            "port": stick.name,
            "class": stick.value("class"),
            "manufacturer_name": match.words(stick.text("manufacturer")),
            "product_name": match.words(stick.text("product")),
        },
    )


def _candidate(selector: Selector, one: Known, attributes: Mapping[str, Attribute]) -> Candidate:
    stick = one.stick
    there = sysfs.nodes(stick)
    raw = [node for node in there if node.path.startswith(f"{_RAW}/")]
    default = [node for node in there if node not in raw] or raw
    handed = nodes.hand_over(stick.look, selector, there, default, named=one.by_serial)
    problem = "" if stick.interfaces else "it has no interfaces: is it authorized?"
    return nodes.candidate(one.id, selector, attributes, handed, hardware=[stick], problem=problem)


def _watch(look: Look) -> None:
    """Where nodes come and go: what happens in /sys itself is not seen by a watch."""
    look.watch("/dev")
    try:
        for bus in look.names(_RAW):
            look.watch(f"{_RAW}/{bus}")
    except Unusable:
        return
