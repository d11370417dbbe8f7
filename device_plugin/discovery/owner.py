"""Which piece of hardware a node in /dev belongs to, and why a selector does not mean that one."""

import os
from collections.abc import Iterator

from device_plugin.config import Pci, Selector
from device_plugin.device import Found
from device_plugin.discovery import gpu, match, pci, usb
from device_plugin.discovery.pci import Function
from device_plugin.discovery.usb import Stick
from device_plugin.host import Look, Unusable

_FOLDERS = {"c": "/sys/dev/char", "b": "/sys/dev/block"}

Hardware = Stick | Function


def owner(look: Look, path: str) -> Hardware | None:
    """The USB device, or else the PCI function, that the node at `path` belongs to."""
    try:
        kind, _, number = look.entry(path).number.partition(" ")
        if not kind:
            return None
        folder = _FOLDERS[kind]
        at = os.path.normpath(f"{folder}/{look.link(f'{folder}/{number}')}")
    except Unusable:
        return None
    known: dict[str, Hardware] = {one.stick.path: one.stick for one in usb.known(look)}
    known |= {one.path: one for one in pci.functions(look)}
    while at and at not in known:
        at = at.rpartition("/")[0]
    return known.get(at)


def described(hardware: Hardware) -> str:
    """Name it for people."""
    if isinstance(hardware, Stick):
        return f"the USB device {hardware.vendor}:{hardware.product} at port {hardware.name}"
    device = f"{hardware.value('vendor')}:{hardware.value('device')}"
    return f"the PCI function {device} at {hardware.name}"


def why_not(look: Look, hardware: Hardware, selector: Selector, found: Found) -> str:
    """Say why a selector hands over no node of it."""
    if why := differs(hardware, selector):
        return why
    for candidate in found.candidates:
        if hardware.path in candidate.owned:
            return candidate.problem or "only `nodes` with its subsystem hands it over"
    ids = set(_ids(look, hardware))
    return next((lost.reason for lost in found.lost if lost.what in ids), found.note)


def _ids(look: Look, hardware: Hardware) -> Iterator[str]:
    if isinstance(hardware, Function):
        yield from (f"{kind}-{hardware.id}" for kind in ("pci", "vfio"))
    else:
        yield from (one.id for one in usb.known(look) if one.stick is hardware)


def differs(hardware: Hardware, selector: Selector) -> str:
    """Say why a selector does not mean it; empty if it does."""
    if isinstance(hardware, Stick):
        wanted = selector.usb
        return hardware.differs(match.asked(wanted)) if wanted else "it is no PCI function"
    if selector.usb is not None:
        return "it is no USB device"
    reasons = [match.differs(match.asked(one), hardware.value) for one in _functions(selector)]
    return "" if "" in reasons else next(iter(reasons), "")


def _functions(selector: Selector) -> Iterator[Pci]:
    if selector.gpu is not None:
        yield from (one.pci for one in gpu.expanded(selector, selector.gpu) if one.pci)
    for one in (selector.pci, selector.vfio):
        if one is not None:
            yield one
