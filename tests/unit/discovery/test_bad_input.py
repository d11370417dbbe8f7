"""What hardware and a kernel in motion may say: nothing fails, and nothing harms."""

import pytest

from device_plugin.discovery import match
from tests.unit.hosts import faults
from tests.unit.hosts.kernel import Node

STICKS = """
pci0000:00 numa=0
  00:14.0 8086:a36d 0c0330 xhci_hcd
    usb1
      1-1 0403:6001 manufacturer=FTDI product="FT232R USB UART" serial=A1
        1.0 ff/ff/ff ftdi_sio
          ttyUSB0
      1-2 0403:6001 serial=A2
        1.0 ff/ff/ff ftdi_sio
          ttyUSB1
  02:00.0 1ac1:089a 088000 apex
    apex/apex_0 dev=120:0
  03:00.0 1ac1:089a 088000 apex
    apex/apex_1 dev=120:1
"""
USB, PCI = 'usb: {vendor: "0403"}', 'pci: {vendor: "1ac1"}'
STICK = "/sys/devices/pci0000:00/0000:00:14.0/usb1/1-1"
CARD = "/sys/devices/pci0000:00/0000:02:00.0"
FAULTS = [
    *(faults.missing, faults.empty, faults.unreadable, faults.vanishing),
    *(faults.dangling, faults.circular, faults.upwards, faults.binary, faults.huge),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.parametrize(
    "path",
    [
        *(
            f"{STICK}/{name}"
            for name in ("idVendor", "idProduct", "serial", "product", "subsystem")
        ),
        *(f"{STICK}/1-1:1.0{rest}" for rest in ("", "/bInterfaceClass", "/subsystem", "/ttyUSB0")),
        *(f"{STICK}/1-1:1.0/ttyUSB0/tty/ttyUSB0{rest}" for rest in ("", "/dev", "/uevent")),
        f"{STICK}/1-1:1.0/ttyUSB0/tty/ttyUSB0/subsystem",
        *("/sys/dev/char/188:0", "/sys/dev/char/120:0"),
        STICK,
        *(f"{CARD}/{name}" for name in ("vendor", "class", "numa_node", "driver", "subsystem")),
        *(f"{CARD}/apex/apex_0{rest}" for rest in ("", "/dev", "/uevent", "/subsystem")),
        CARD,
        *("/sys/bus/usb/devices/1-1", "/sys/bus/pci/devices/0000:02:00.0"),
        *("/dev/ttyUSB0", "/dev/serial/by-id", "/dev/serial/by-path"),
        "/dev/serial/by-id/usb-FTDI_FT232R_USB_UART_A1-if00-port0",
        "/dev/bus/usb",
    ],
)
def test_whatever_is_wrong_with_one_the_others_stay(boot, find, path, fault):
    machine = boot(STICKS)
    assert machine.at(path) is not None
    machine.spoil(path, fault)
    found = find(machine, USB, PCI)
    whole = {one.device.id for one in found.candidates if not one.problem}
    assert {"usb-0403-6001-a2-1e3d8f2a".rpartition("-")[0]} <= {
        id_.rpartition("-")[0] for id_ in whole if id_.startswith("usb")
    }
    assert "pci-0000-03-00-0" in whole
    assert found.failures == []


@pytest.mark.parametrize("fault", [faults.missing, faults.empty, faults.dangling, faults.circular])
def test_without_the_list_of_nodes_there_are_no_devices(boot, find, fault):
    """Better none than one without its nodes."""
    machine = boot(STICKS)
    machine.spoil("/sys/dev/char", fault)
    found = find(machine, USB, PCI)
    assert found.candidates == []
    assert "its nodes are not known: /sys/dev/char " in found.notes[0]
    assert found.failures == []


@pytest.mark.parametrize("bus", ["usb", "pci"])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_without_one_bus_there_is_the_other(boot, find, bus, fault):
    machine = boot(STICKS)
    machine.spoil(f"/sys/bus/{bus}/devices", fault)
    found = find(machine, USB, PCI)
    assert len(found.candidates) == 2
    assert len(found.notes) == 1
    assert found.failures == []


@pytest.mark.parametrize("name", faults.STRINGS)
@pytest.mark.parametrize("attribute", ["serial", "manufacturer", "product"])
def test_texts_of_devices_are_harmless(boot, find, attribute, name):
    machine = boot(STICKS)
    text = faults.STRINGS[name].encode("utf-8", "surrogateescape")
    machine.spoil(f"{STICK}/{attribute}", faults.holds(text))
    found = find(machine, USB, PCI)
    assert len(found.candidates) == 4
    for one in found.candidates:
        for key, value in one.device.attributes.items():
            assert str(value).isprintable()
            assert len(str(value)) <= 64
            assert not set("\"'`$\\/{};\n") & set(str(value)), key


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A10KZP3U", "A10KZP3U"),
        ("A 10/K", "A_10_K"),
        ("0001:02.a-b@c=d+e#f", "0001:02.a-b@c=d+e#f"),
        ("Ä1", "_1"),
        ("..", ""),
        (".", ""),
        ("-_-", ""),
        ("", ""),
        ("x" * 200, "x" * 64),
    ],
)
def test_words(text, expected):
    assert match.word(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FT232R USB UART", "FT232R USB UART"),
        ("VIA Labs, Inc.", "VIA Labs, Inc."),
        ("Müller & Söhne (1)", "Müller & Söhne (1)"),
        ('"$(reboot)"', "__(reboot)_"),
        ("../..", ""),
        ("北京", "北京"),
    ],
)
def test_names(text, expected):
    assert match.words(text) == expected


def test_a_node_that_is_another_one_is_not_handed_out(boot, find):
    machine = boot(STICKS)
    machine.spoil("/dev/apex_0", lambda path, entry: Node("c", 120, 7))
    found = {one.device.id: one.problem for one in find(machine, PCI).candidates}
    assert found == {
        "pci-0000-02-00-0": "/dev/apex_0 is c 120:7, and should be c 120:0",
        "pci-0000-03-00-0": "",
    }


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "", ".", "a//b", "x/"])
def test_names_of_nodes_lead_nowhere_else(boot, find, paths, name):
    machine = boot(STICKS)
    text = f"MAJOR=120\nMINOR=0\nDEVNAME={name}\n".encode()
    machine.spoil(f"{CARD}/apex/apex_0/uevent", faults.holds(text))
    found = {one.device.id: paths(one) for one in find(machine, PCI).candidates}
    assert all(path.startswith("/dev/apex_") for path in found["pci-0000-02-00-0"])
