"""What people call hardware: the names in pci.ids and usb.ids, where those are installed.

For `discover` only: no device depends on a name.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from device_plugin.device import Device

_FOLDERS = ("/usr/share/hwdata", "/usr/share/misc", "/usr/share", "/var/lib/usbutils")
_LONGEST = 80  # characters of a name
_KEYS = {"usb": "product", "pci": "device"}  # the attribute that says which of a vendor's it is

Ids = tuple[str, str]  # vendor, and product or device; that one empty: the vendor alone


def lookup(devices: Iterable[Device], folders: Sequence[str] = _FOLDERS) -> dict[str, str]:
    """Vendor and model by device ID; without devices of which nothing is known."""
    devices = list(devices)
    found = {device.id: _own(device) for device in devices}
    for kind, key in _KEYS.items():
        wanted = {
            device.id: (str(device.attributes["vendor"]), str(device.attributes[key]))
            for device in devices
            if device.attributes.keys() >= {"vendor", key}
        }
        names = _read(kind, set(wanted.values()), folders) if wanted else {}
        for id_, ids in wanted.items():
            if ids in names or not found[id_]:
                both = names.get((ids[0], "")), names.get(ids)
                found[id_] = " ".join(name for name in both if name)
    return {id_: name for id_, name in found.items() if name}


def _own(device: Device) -> str:
    """What it calls itself."""
    names = (device.attributes.get(key) for key in ("manufacturer_name", "product_name"))
    return " ".join(str(name) for name in names if name)


def _read(kind: str, wanted: set[Ids], folders: Iterable[str]) -> dict[Ids, str]:
    for folder in folders:
        path = Path(folder, f"{kind}.ids")
        try:
            with path.open(encoding="utf-8", errors="ignore") as lines:
                return dict(_names(lines, wanted))
        except OSError:
            continue
    return {}


def _names(lines: Iterable[str], wanted: set[Ids]) -> Iterator[tuple[Ids, str]]:
    """Read `VENDOR  name`, and below it, after a tab, `DEVICE  name`."""
    vendors = {vendor for vendor, _ in wanted}
    vendor = ""
    for line in lines:
        number, _, name = line.strip().partition("  ")
        name = "".join(char for char in name[:_LONGEST] if char.isprintable())
        if not line.startswith("\t"):
            vendor = number
            if vendor in vendors:
                yield (vendor, ""), name
        elif not line.startswith("\t\t") and (vendor, number) in wanted:
            yield (vendor, number), name
