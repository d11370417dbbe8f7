"""What the files of a device say, by the kernel's formats: `0x8086`, ` 1`, `(null)`, `100mA`."""

from collections.abc import Iterable, Mapping

from tests.unit.hosts.kinds import (
    PCI,
    USB_DEVICE,
    USB_INTERFACE,
    bus_number,
    devnum,
    driver_of,
    kind_of,
    node_of,
    number_of,
)
from tests.unit.hosts.language import Thing

NO_FILE = {"numa", "group", "sub", "physfn", "sriov", "class", "dev", "devname", "udev", "ports"}
WRITE_ONLY = {"remove", "rescan", "reset"}


def attributes(thing: Thing, cpus: Mapping[int, str]) -> dict[str, str | bytes]:
    """The files of a device by name, `uevent` among them; `cpus` are those of each NUMA node."""
    kind = kind_of(thing)
    files: dict[str, str | bytes] = {}
    if kind is PCI:
        files |= _pci(thing, cpus)
    elif kind is USB_DEVICE:
        files |= _usb_device(thing)
    elif kind is USB_INTERFACE:
        files |= _usb_interface(thing)
    for key, value in thing.options.items():
        if key.islower() and key not in NO_FILE and key not in files:
            files[key] = f"{value}\n"
    if number := number_of(thing):
        files["dev"] = f"{number[1]}:{number[2]}\n"
    files["uevent"] = "".join(f"{line}\n" for line in _uevent(thing))
    return files


def numa_of(thing: Thing) -> int:
    """The NUMA node that a PCI function says it is on; -1 where the firmware does not know."""
    for one in (thing, *thing.above()):
        if "numa" in one.options:
            return int(one.options["numa"])
    return -1


def ids(thing: Thing) -> tuple[str, str]:
    """Vendor and product, or vendor and device."""
    vendor, _, product = thing.word(0).partition(":")
    return vendor or "1d6b", product or ("0003" if is_fast(thing) else "0002")


def is_fast(thing: Thing) -> bool:
    """Whether a USB root hub is one of USB 3."""
    return int(thing.word(0) or 480) >= 5000


def codes(thing: Thing) -> tuple[str, str, str]:
    """Class, subclass and protocol of a USB device or interface."""
    if kind_of(thing) is USB_INTERFACE:
        text = thing.word(0)
    elif is_hub(thing):
        text = thing.options.get("class", "09/00/01")
    else:
        text = thing.options.get("class", "00")
    class_, subclass, protocol = (*text.split("/"), "00", "00")[:3]
    return class_, subclass, protocol


def is_hub(thing: Thing) -> bool:
    return thing.name.startswith("usb") or thing.word(1) == "hub"


def _pci(thing: Thing, cpus: Mapping[int, str]) -> dict[str, str | bytes]:
    vendor, device = ids(thing)
    sub_vendor, _, sub_device = thing.options.get("sub", "0000:0000").partition(":")
    node = numa_of(thing)
    files: dict[str, str | bytes] = {
        "vendor": f"0x{vendor}\n",
        "device": f"0x{device}\n",
        "class": f"0x{thing.word(1)}\n",
        "revision": "0x01\n",
        "subsystem_vendor": f"0x{sub_vendor}\n",
        "subsystem_device": f"0x{sub_device}\n",
        "numa_node": f"{node}\n",
        "local_cpulist": cpus.get(node, ",".join(cpus.values())) + "\n",
        "modalias": f"{_pci_alias(thing)}\n",
        "enable": "1\n",
        "irq": "0\n",
        "driver_override": "(null)\n",
        "config": bytes.fromhex(vendor)[::-1] + bytes.fromhex(device)[::-1] + bytes(60),
        "remove": "",
        "rescan": "",
    }
    if "sriov" in thing.options:
        files |= {
            "sriov_totalvfs": f"{thing.options['sriov']}\n",
            "sriov_numvfs": f"{sum(1 for _ in functions(thing))}\n",
            "sriov_drivers_autoprobe": "1\n",
        }
    return files


def functions(thing: Thing) -> list[Thing]:
    """The virtual functions of a physical one, by their index."""
    siblings = thing.parent.children if thing.parent else []
    return [one for one in siblings if one.options.get("physfn") == short_address(thing)]


def short_address(thing: Thing) -> str:
    return thing.name.removeprefix("0000:")


def _pci_alias(thing: Thing) -> str:
    vendor, device = (one.upper() for one in ids(thing))
    sub_vendor, _, sub_device = thing.options.get("sub", "0000:0000").upper().partition(":")
    class_ = thing.word(1)
    return (
        f"pci:v0000{vendor}d0000{device}sv0000{sub_vendor}sd0000{sub_device}"
        f"bc{class_[:2].upper()}sc{class_[2:4].upper()}i{class_[4:].upper()}"
    )


def _usb_device(thing: Thing) -> dict[str, str | bytes]:
    vendor, product = ids(thing)
    class_, subclass, protocol = codes(thing)
    interfaces = [one for one in thing.children if kind_of(one) is USB_INTERFACE and not one.hidden]
    files: dict[str, str | bytes] = {
        "idVendor": f"{vendor}\n",
        "idProduct": f"{product}\n",
        "bcdDevice": f"{thing.options.get('bcdDevice', '0100')}\n",
        "bDeviceClass": f"{class_}\n",
        "bDeviceSubClass": f"{subclass}\n",
        "bDeviceProtocol": f"{protocol}\n",
        "bNumInterfaces": f"{len(interfaces):2}\n" if interfaces else "",
        "bConfigurationValue": "1\n" if interfaces else "",
        "bNumConfigurations": "1\n",
        "bMaxPower": "100mA\n",
        "busnum": f"{bus_number(thing)}\n",
        "devnum": f"{devnum(thing)}\n",
        "devpath": f"{port(thing) or '0'}\n",
        "speed": f"{_speed(thing)}\n",
        "version": " 2.00\n",
        "authorized": f"{thing.options.get('authorized', '1')}\n",
        "removable": "removable\n",
        "descriptors": bytes([18, 1]) + bytes(16),
    }
    if thing.name.startswith("usb"):
        controller = thing.parent.name if thing.parent else ""
        files |= {
            "manufacturer": "Linux 6.12.0 xhci-hcd\n",
            "product": "xHCI Host Controller\n",
            "serial": f"{controller}\n",
        }
    return files


def port(thing: Thing) -> str:
    """Where a USB device is plugged in, below its bus: `4.1`; empty for the root hub."""
    return thing.name.partition("-")[2]


def _speed(thing: Thing) -> str:
    if thing.name.startswith("usb"):
        return thing.word(0) or "480"
    return thing.options.get("speed", "12")


def _usb_interface(thing: Thing) -> dict[str, str | bytes]:
    class_, subclass, protocol = codes(thing)
    return {
        "bInterfaceNumber": f"{interface_number(thing)}\n",
        "bAlternateSetting": " 0\n",
        "bNumEndpoints": "02\n",
        "bInterfaceClass": f"{class_}\n",
        "bInterfaceSubClass": f"{subclass}\n",
        "bInterfaceProtocol": f"{protocol}\n",
        "authorized": "1\n",
        "supports_autosuspend": "1\n",
        "modalias": f"{_usb_alias(thing)}\n",
    }


def interface_number(thing: Thing) -> str:
    """The number of a USB interface, two hexadecimal digits."""
    return f"{int(thing.name.rpartition('.')[2]):02x}"


def _usb_alias(thing: Thing) -> str:
    assert thing.parent is not None
    vendor, product = (one.upper() for one in ids(thing.parent))
    names = ("dc", "dsc", "dp", "ic", "isc", "ip")
    values = (*codes(thing.parent), *codes(thing))
    tail = "".join(name + value.upper() for name, value in zip(names, values, strict=True))
    revision = thing.parent.options.get("bcdDevice", "0100")
    return f"usb:v{vendor}p{product}d{revision}{tail}in{interface_number(thing)}"


def _uevent(thing: Thing) -> list[str]:
    kind, driver, lines = kind_of(thing), driver_of(thing), []
    if number := number_of(thing):
        lines += [f"MAJOR={number[1]}", f"MINOR={number[2]}", f"DEVNAME={node_of(thing)}"]
    if kind.devtype:
        lines.append(f"DEVTYPE={kind.devtype}")
    if driver:
        lines.append(f"DRIVER={driver}")
    if kind is PCI:
        lines += _pci_uevent(thing)
    elif kind is USB_DEVICE:
        lines += [*_usb_uevent(thing), f"BUSNUM={bus_number(thing):03}"]
        lines.append(f"DEVNUM={devnum(thing):03}")
    elif kind is USB_INTERFACE and thing.parent:
        lines += _usb_uevent(thing.parent)
        lines += [f"INTERFACE={_decimal(codes(thing))}", f"MODALIAS={_usb_alias(thing)}"]
    return lines + [f"{key}={value}" for key, value in thing.options.items() if key.isupper()]


def _pci_uevent(thing: Thing) -> list[str]:
    return [
        f"PCI_CLASS={int(thing.word(1), 16):X}",
        f"PCI_ID={thing.word(0).upper()}",
        f"PCI_SUBSYS_ID={thing.options.get('sub', '0000:0000').upper()}",
        f"PCI_SLOT_NAME={thing.name}",
        f"MODALIAS={_pci_alias(thing)}",
    ]


def _usb_uevent(device: Thing) -> list[str]:
    numbers = (*ids(device), device.options.get("bcdDevice", "0100"))
    product = "/".join(f"{int(number, 16):x}" for number in numbers)
    return [f"PRODUCT={product}", f"TYPE={_decimal(codes(device))}"]


def _decimal(numbers: Iterable[str]) -> str:
    return "/".join(str(int(number, 16)) for number in numbers)
