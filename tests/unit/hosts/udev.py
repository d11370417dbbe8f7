"""The links that udev makes in /dev, by the rules that systemd installs (rules.d/60-*.rules).

Where two devices want one link, the one that udev looked at last has it: identical sticks without
serial numbers share a by-id link, and ports of one controller's two buses a by-path link.
"""

import re
from collections.abc import Iterable, Iterator

from tests.unit.hosts.attributes import interface_number, is_fast, port
from tests.unit.hosts.kinds import PCI, PLATFORM, USB_DEVICE, USB_INTERFACE, kind_of, node_of
from tests.unit.hosts.language import Thing

_REVISIONS = 257  # from here on a second by-path link says which USB, and hidraw has links
_LONGEST = 62  # bytes of a maker's or a product's name
_NOT_ALLOWED = re.compile(r"[^0-9A-Za-z#+\-.:=@_\u0080-\U0010ffff]")
_IN_SERIAL = re.compile(r"[\x20-\x7f]*")


def links(things: Iterable[Thing], version: int) -> dict[str, str]:
    """Where each link leads, by its path: both absolute."""
    found = {}
    for thing in things:
        if node_of(thing):
            for link in _links(thing, version):
                found[f"/dev/{link}"] = f"/dev/{node_of(thing)}"
    return found


def _links(thing: Thing, version: int) -> Iterator[str]:
    rules = {
        "tty": _serial,
        "video4linux": _video,
        "input": _input,
        "sound": _sound,
        "block": _disk,
    }
    subsystem = kind_of(thing).subsystem
    if subsystem in rules:
        yield from rules[subsystem](thing, version)
    elif subsystem == "drm":
        kind = "render" if thing.name.startswith("renderD") else "card"
        yield from (f"dri/by-path/{path}-{kind}" for path in paths(thing, version))
    elif subsystem == "infiniband_verbs":
        yield from (f"infiniband/by-path/{path}" for path in paths(thing, version))
        yield f"infiniband/by-ibdev/uverbs-{thing.options['ibdev']}"
    elif subsystem == "hidraw" and version >= _REVISIONS and usb_serial(thing):
        yield f"input/by-id/usb-{usb_serial(thing)}{_interface_suffix(thing)}-hidraw"
        yield from (f"input/by-path/{path}-hidraw" for path in paths(thing, version))


def _serial(thing: Thing, version: int) -> Iterator[str]:
    if not thing.name.startswith(("ttyUSB", "ttyACM")):
        return
    suffix = "-port0" if thing.name.startswith("ttyUSB") else ""
    yield from (f"serial/by-path/{path}{suffix}" for path in paths(thing, version))
    yield f"serial/by-id/usb-{usb_serial(thing)}-if{_interface(thing)}{suffix}"


def _video(thing: Thing, version: int) -> Iterator[str]:
    index = f"-video-index{thing.options['index']}"
    if usb_serial(thing):
        yield f"v4l/by-id/usb-{usb_serial(thing)}{index}"
    yield from (f"v4l/by-path/{path}{index}" for path in paths(thing, version))


def _input(thing: Thing, version: int) -> Iterator[str]:
    """By class where udev finds one (`udev=kbd`), which is in the name of the link."""
    class_ = thing.parent.options.get("udev") if thing.parent else None
    event = "event-" if thing.name.startswith("event") else ""
    if usb_serial(thing) and class_:
        yield f"input/by-id/usb-{usb_serial(thing)}{_interface_suffix(thing)}-{event}{class_}"
    elif usb_serial(thing) and event:
        yield f"input/by-id/usb-{usb_serial(thing)}-event-if{_interface(thing)}"
    if class_ or event:
        tail = f"{event}{class_}" if class_ else "event"
        yield from (f"input/by-path/{path}-{tail}" for path in paths(thing, version))


def _sound(thing: Thing, version: int) -> Iterator[str]:
    if thing.name.startswith("controlC"):
        if usb_serial(thing):
            yield f"snd/by-id/usb-{usb_serial(thing)}-{_interface(thing)}"
        yield from (f"snd/by-path/{path}" for path in paths(thing, version))


def _disk(thing: Thing, version: int) -> Iterator[str]:
    disk, part = thing, ""
    if kind_of(thing).devtype == "partition" and thing.parent:
        disk, part = thing.parent, f"-part{re.findall(r'[0-9]+$', thing.name)[0]}"
    for name in _disk_ids(disk):
        yield f"disk/by-id/{name}{part}"
    for path in paths(disk, version):
        yield f"disk/by-path/{path}{part}"


def _disk_ids(disk: Thing) -> Iterator[str]:
    if disk.name.startswith("nvme") and disk.parent:
        model, serial = disk.parent.options["model"], disk.parent.options["serial"]
        yield f"nvme-{_replaced(f'{model}_{serial}')}"
        yield f"nvme-{_replaced(f'{model}_{serial}')}_{disk.options['nsid']}"
    elif disk.name.startswith("vd") and disk.options.get("serial"):
        yield f"virtio-{disk.options['serial']}"
    elif disk.name.startswith("sd") and usb_serial(disk):
        yield f"usb-{usb_serial(disk)}"


def usb_serial(thing: Thing) -> str:
    """ID_SERIAL: maker, product and serial number of the USB device that it is a part of."""
    device = next((one for one in thing.above() if kind_of(one) is USB_DEVICE), None)
    if device is None or not any(kind_of(one) is USB_INTERFACE for one in thing.above()):
        return ""
    scsi = next((one for one in thing.above() if kind_of(one).devtype == "scsi_device"), None)
    vendor, _, product = device.word(0).partition(":")
    maker = device.options.get("manufacturer", vendor)
    model = device.options.get("product", product)
    if scsi:
        maker, model = scsi.options.get("vendor", maker), scsi.options.get("model", model)
    parts = [_replaced(maker, _LONGEST), _replaced(model, _LONGEST)]
    serial = device.options.get("serial", "")
    if _IN_SERIAL.fullmatch(serial) and "," not in serial and _replaced(serial):
        parts.append(_replaced(serial))
    tail = f"-{scsi.name.split(':', 2)[2]}" if scsi else ""
    return "_".join(parts) + tail


def _replaced(text: str, longest: int = 255) -> str:
    """As udev writes it in a name: cut after so many bytes, and without what is special there."""
    cut = "_".join(text.split()).encode(errors="surrogateescape")[:longest]
    return _NOT_ALLOWED.sub("_", cut.decode(errors="replace").replace("\ufffd", "_"))


def paths(thing: Thing, version: int) -> list[str]:
    """ID_PATH, and from systemd 257 on the one with the revision of USB."""
    plain = _path(thing, "usb")
    usb = next((one for one in thing.above() if one.name.startswith("usb")), None)
    if not plain or usb is None or version < _REVISIONS:
        return [plain] if plain else []
    return [plain, _path(thing, "usbv3" if is_fast(usb) else "usbv2")]


def _path(thing: Thing, usb: str) -> str:
    """What path_id makes of each parent, the outermost first; of a bus only the innermost."""
    parts: list[str] = []
    before = ""
    for one in thing.above():
        kind = kind_of(one)
        if kind.subsystem != before:
            if kind is USB_INTERFACE or (kind is USB_DEVICE and port(one)):
                parts.append(f"{usb}-0:{port(one)}")
            elif kind is PCI:
                parts.append(f"pci-{one.name}")
            elif kind is PLATFORM:
                parts.append(f"platform-{one.name}")
            elif kind.devtype == "scsi_device":
                parts.append(f"scsi-0:{one.name.split(':', 1)[1]}")
            elif kind.subsystem == "nvme" and kind_of(thing).subsystem == "block":
                parts.append(f"nvme-{thing.options['nsid']}")
        before = kind.subsystem
    return "-".join(reversed(parts))


def _interface(thing: Thing) -> str:
    return next(interface_number(one) for one in thing.above() if kind_of(one) is USB_INTERFACE)


def _interface_suffix(thing: Thing) -> str:
    number = _interface(thing)
    return "" if number == "00" else f"-if{number}"
