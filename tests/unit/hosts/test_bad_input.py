"""What a device says of itself, or does not, harms nobody: neither others nor who reads of it."""

import pytest

from device_plugin.device import Found as OfSelector
from tests.unit.hosts import faults, machines
from tests.unit.hosts.described import amd_apu, desk, ftdi_hub, iommu_group, two_sockets
from tests.unit.hosts.expected import Expected, check, check_ids, found, look

ATTRIBUTE_FAULTS = {
    "missing": faults.missing,
    "empty": faults.empty,
    "binary": faults.binary,
    "huge": faults.huge,
    "unreadable": faults.unreadable,
    "vanishing": faults.vanishing,
    "a number out of range": faults.holds(b"0xffffffffffffffffffff\n"),
    "a word": faults.holds(b"none of your business\n"),
    "another line": faults.holds(b"0403\nDEVNAME=../../etc/shadow\n"),
    "no UTF-8": faults.holds(b"\xff\xfe0\x004\x000\x003\x00"),
    "a link": faults.dangling,
    "a link to itself": faults.circular,
}
LINK_FAULTS = {
    "missing": faults.missing,
    "vanishing": faults.vanishing,
    "dangling": faults.dangling,
    "a link to itself": faults.circular,
    "a link to its folder": faults.upwards,
    "out of /sys": faults.leads_to("../../../../../../../../../../../../etc"),
    "a file": faults.holds(b"ftdi_sio\n"),
}


def tell(discovered):
    """Everything of a look that people, logs or containers see."""
    for one in discovered.values():
        yield from one.notes
        for selector in one.selectors:
            yield from _told(selector)
        for device in found(one):
            yield from (device.id, device.problem)
            yield from (text for node in device.nodes for text in node)
            yield from (text for pair in device.attributes.items() for text in pair)


def _told(selector: OfSelector):
    yield selector.note
    for lost in selector.lost:
        yield from (lost.what, lost.reason)


def check_harmless(machine, resources, expected, spoilt):
    """All but the spoilt devices are as always, nothing fails, and what is said can be shown."""
    there = look(machine, resources)
    for text in tell(there):
        assert text.isprintable(), ascii(text)
        assert "please report" not in text
    for resource, devices in expected.items():
        everything = found(there[resource])
        check_ids(everything)
        others = [one for one in everything if not any(map(one.is_which, spoilt))]
        wanted = [one for one in devices if one.which not in spoilt]
        left = [one for one in others if any(one.is_which(good.which) for good in wanted)]
        check(wanted, left)
        assert len(everything) <= len(devices)


STICK = "/sys/devices/pci0000:00/0000:00:14.0/usb1/1-4/1-4.1"
STICKS = (*ftdi_hub.OWN, *ftdi_hub.FAKES)
SPOILT = ({"serial": "A10KZP3U"}, {"port": "1-4.1"})
USB_FILES = (
    *("idVendor", "idProduct", "serial", "manufacturer", "product", "bDeviceClass", "busnum"),
    *("devnum", "dev", "uevent", "authorized", "1-4.1:1.0/bInterfaceClass", "1-4.1:1.0/uevent"),
    *("1-4.1:1.0/bInterfaceNumber", "1-4.1:1.0/ttyUSB0/tty/ttyUSB0/dev"),
    "1-4.1:1.0/ttyUSB0/tty/ttyUSB0/uevent",
)
USB_LINKS = (
    *("driver", "subsystem", "port", "1-4.1:1.0/driver", "1-4.1:1.0/subsystem"),
    *("1-4.1:1.0/ttyUSB0/subsystem", "1-4.1:1.0/ttyUSB0/tty/ttyUSB0/subsystem"),
    "1-4.1:1.0/ttyUSB0/tty/ttyUSB0/device",
)
USB_FOLDERS = (
    *("", "/1-4.1:1.0", "/1-4.1:1.0/ttyUSB0", "/1-4.1:1.0/ttyUSB0/tty"),
    "/1-4.1:1.0/ttyUSB0/tty/ttyUSB0",
)
ELSEWHERE = (
    *("/sys/bus/usb/devices/1-4.1", "/sys/bus/usb/devices/1-4.1:1.0", "/sys/class/tty/ttyUSB0"),
    *("/sys/dev/char/188:0", "/dev/ttyUSB0", "/dev/bus/usb/001/003"),
    "/dev/serial/by-id/usb-FTDI_FT232R_USB_UART_A10KZP3U-if00-port0",
    "/dev/serial/by-path/pci-0000:00:14.0-usb-0:4.1:1.0-port0",
)


@pytest.mark.parametrize("file", USB_FILES)
def test_a_usb_device_with_a_bad_attribute(boot, file):
    machine = boot(ftdi_hub.TEXT)
    assert machine.at(f"{STICK}/{file}") is not None
    for fault in ATTRIBUTE_FAULTS.values():
        machine.spoil(f"{STICK}/{file}", fault)
        check_harmless(machine, ftdi_hub.STICKS, {"stick": STICKS}, SPOILT)


@pytest.mark.parametrize("path", [*(f"{STICK}/{link}" for link in USB_LINKS), *ELSEWHERE])
def test_a_usb_device_with_a_bad_link_or_node(boot, path):
    machine = boot(ftdi_hub.TEXT)
    assert machine.at(path) is not None
    for fault in LINK_FAULTS.values():
        machine.spoil(path, fault)
        check_harmless(machine, ftdi_hub.STICKS, {"stick": STICKS}, SPOILT)


@pytest.mark.parametrize("folder", USB_FOLDERS)
def test_a_usb_device_that_vanishes_while_it_is_looked_at(boot, folder):
    machine = boot(ftdi_hub.TEXT)
    for fault in (faults.vanishing, faults.missing, faults.dangling, faults.circular):
        machine.spoil(f"{STICK}{folder}", fault)
        check_harmless(machine, ftdi_hub.STICKS, {"stick": STICKS}, SPOILT)


def test_a_device_that_is_listed_and_gone(boot):
    """Listed by its bus, and gone with its folder."""
    machine = boot(ftdi_hub.TEXT)
    machine.spoil(STICK, faults.missing)
    check_harmless(machine, ftdi_hub.STICKS, {"stick": STICKS[1:]}, SPOILT)


@pytest.mark.parametrize("text", faults.STRINGS.values(), ids=faults.STRINGS)
@pytest.mark.parametrize("key", ["serial", "manufacturer", "product"])
def test_what_a_usb_device_says(boot, key, text):
    machine = boot(ftdi_hub.TEXT)
    machine.thing("1-4.1").options[key] = text
    machine.sync()
    check_harmless(machine, ftdi_hub.STICKS, {"stick": STICKS}, ({"port": "1-4.1"}, *SPOILT))
    (device,) = (
        one
        for one in found(look(machine, ftdi_hub.STICKS)["stick"])
        if one.attributes["port"] == "1-4.1"
    )
    assert not device.problem
    assert device.nodes[0][1] == "/dev/ttyUSB0"


@pytest.mark.parametrize("text", faults.STRINGS.values(), ids=faults.STRINGS)
def test_two_that_say_the_same_are_still_two(boot, text):
    machine = boot(ftdi_hub.TEXT)
    for name in ("1-4.1", "1-4.2"):
        machine.thing(name).options["serial"] = text
    machine.sync()
    devices = found(look(machine, ftdi_hub.STICKS)["stick"])
    check_ids(devices)
    assert [device.problem for device in devices] == [""] * 4
    assert len({device.nodes[0][0] for device in devices}) == 4


GPU = "/sys/devices/pci0000:00/0000:00:01.1/0000:01:00.0/0000:02:00.0/0000:03:00.0"
RADEON = {"address": "0000:03:00.0"}
PCI_FILES = (
    *("vendor", "device", "class", "subsystem_vendor", "subsystem_device", "numa_node", "uevent"),
    *("local_cpulist", "drm/card0/dev", "drm/card0/uevent", "drm/renderD128/dev"),
)
PCI_LINKS = (
    *("driver", "iommu_group", "subsystem", "drm/card0/subsystem", "drm/card0/device"),
    "drm/renderD128/subsystem",
)


@pytest.mark.parametrize("resources", [amd_apu.GPU, amd_apu.CASES[2].resources], ids=["gpu", "pci"])
@pytest.mark.parametrize("file", PCI_FILES)
def test_a_pci_function_with_a_bad_attribute(boot, file, resources):
    machine = boot(amd_apu.TEXT)
    assert machine.at(f"{GPU}/{file}") is not None
    expected = amd_apu.CASES[0 if "gpu:" in resources else 2].devices
    for fault in ATTRIBUTE_FAULTS.values():
        machine.spoil(f"{GPU}/{file}", fault)
        check_harmless(machine, resources, expected, (RADEON,))


@pytest.mark.parametrize(
    "path",
    [
        *(f"{GPU}/{link}" for link in PCI_LINKS),
        *(GPU, f"{GPU}/drm", f"{GPU}/drm/card0", f"{GPU}/drm/renderD128"),
        *("/sys/bus/pci/devices/0000:03:00.0", "/dev/dri/card0", "/dev/dri/renderD128"),
        "/dev/dri/by-path/pci-0000:03:00.0-card",
    ],
)
def test_a_pci_function_with_a_bad_link_or_folder(boot, path):
    machine = boot(amd_apu.TEXT)
    assert machine.at(path) is not None
    for fault in LINK_FAULTS.values():
        machine.spoil(path, fault)
        check_harmless(machine, amd_apu.GPU, amd_apu.CASES[0].devices, (RADEON,))


@pytest.mark.parametrize(
    "path",
    [
        "/sys/kernel/iommu_groups/1/devices/0000:01:00.1",
        "/sys/kernel/iommu_groups/1/devices",
        "/sys/kernel/iommu_groups/1/type",
        "/sys/kernel/iommu_groups/1",
        "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.1/driver",
        "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.1/iommu_group",
        "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/vfio-dev",
        "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/vfio-dev/vfio0",
        "/dev/vfio/1",
        "/dev/vfio/devices/vfio0",
    ],
)
def test_a_group_with_a_bad_member(boot, path):
    machine = boot(iommu_group.TEXT)
    assert machine.at(path) is not None
    resources = iommu_group.GPU + iommu_group.CASES[2].resources
    expected = {"gpu": (iommu_group.CARD,), "nic": (iommu_group.NIC,)}
    for fault in LINK_FAULTS.values():
        machine.spoil(path, fault)
        check_harmless(machine, resources, expected, (iommu_group.CARD.which,))


@pytest.mark.parametrize(
    "path",
    [
        *("/dev/vfio/vfio", "/dev/iommu", "/sys/kernel/iommu_groups", "/sys/bus/pci/devices"),
        *("/sys/bus/usb/devices", "/sys/bus/pci", "/sys/bus/usb", "/sys/bus", "/sys/class"),
        *("/sys/dev", "/sys/devices", "/sys/kernel", "/dev/serial", "/dev/bus", "/dev/v4l"),
    ],
)
def test_one_kind_that_fails_leaves_the_others(boot, path):
    """Selectors by path need /dev only."""
    text = ftdi_hub.TEXT.replace("pci0000:00", iommu_group.TEXT.strip(), 1)
    machine = boot(text)
    resources = (
        ftdi_hub.STICKS
        + iommu_group.GPU
        + """
  - name: example.com/null
    devices: [{path: /dev/null}]
  - name: example.com/licence
    devices: [{virtual: {count: 2}}]
"""
    )
    for fault in LINK_FAULTS.values():
        machine.spoil(path, fault)
        there = look(machine, resources)
        for said in tell(there):
            assert said.isprintable()
            assert "please report" not in said
        assert [one.id for one in found(there["null"])] == ["null"]
        assert len(there["licence"].candidates) == 2


@pytest.mark.parametrize(
    "value", [b"-1\n", b"", b"-2147483648\n", b"99999999999\n", b"1e3\n", b"0x1"]
)
def test_a_numa_node_that_is_none_is_not_told(boot, value):
    """-1 is what the kernel says where it does not know; the kubelet takes no such node."""
    machine = boot(two_sockets.TEXT)
    path = f"{machine.path('3d:00.0')}/numa_node"
    machine.spoil(path, faults.holds(value))
    (device,) = (
        one
        for one in found(look(machine, two_sockets.PCI)["v100"])
        if one.attributes["address"] == "0000:3d:00.0"
    )
    assert device.numa == ()
    assert "numa" not in device.attributes


def test_circles_in_sys_end(boot):
    """Ports lead to devices and back; one more leads from a device to the root of all."""
    machine = boot(desk.TEXT)
    machine.spoil(f"{machine.path('1-1')}/port", faults.leads_to("../../../../.."))
    machine.spoil(f"{machine.path('1-1:1.0')}/driver", faults.upwards)
    machine.spoil(f"{machine.path('video0')}/device", faults.leads_to(".."))
    case = desk.CASES[0]
    check(case.devices["camera"], found(look(machine, case.resources)["camera"]))


def test_what_matches_nothing_is_said(standing):
    case = machines.CASES["cloud_vm"][0]
    for discovered in look(standing("cloud_vm"), case.resources).values():
        assert not discovered.candidates
        assert discovered.notes


def test_a_node_that_is_none(boot):
    """udev's place is taken by a file: nothing of it may be handed out."""
    machine = boot(ftdi_hub.TEXT)
    machine.spoil("/dev/ttyUSB0", faults.holds(b"not a node"))
    (bad,) = (one for one in found(look(machine, ftdi_hub.STICKS)["stick"]) if one.problem)
    assert bad.is_which({"serial": "A10KZP3U"})
    expected = Expected({"serial": "A10KZP3U"}, problem="/dev/ttyUSB0")
    check([expected, *STICKS[1:]], found(look(machine, ftdi_hub.STICKS)["stick"]))
