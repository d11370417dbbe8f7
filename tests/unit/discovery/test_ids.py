"""Names from pci.ids and usb.ids."""

from device_plugin.device import Device
from device_plugin.discovery.ids import lookup

PCI_IDS = """\
# comment
10de  NVIDIA Corporation
\t1eb8  TU104GL [Tesla T4]
\t\t10de 12a2  Tesla T4
\t2204  GA102 [GeForce RTX 3090]
8086  Intel Corporation
\t1eb8  something else
C 03  Display controller
\t00  VGA compatible controller
"""


def card(id_, vendor, device):
    return Device(id_, attributes={"vendor": vendor, "device": device})


def stick(id_, vendor, product, **more):
    return Device(id_, attributes={"vendor": vendor, "product": product, **more})


def test_names(tmp_path):
    (tmp_path / "pci.ids").write_text(PCI_IDS)
    (tmp_path / "usb.ids").write_text("0403  Future Technology\n\t6001  FT232 Serial\x1b[2J\n")
    devices = [
        card("a", "10de", "1eb8"),
        card("b", "8086", "1eb8"),
        card("c", "8086", "0000"),  # of a known vendor
        card("d", "dead", "beef"),
        stick("e", "0403", "6001", manufacturer_name="FTDI", product_name="USB UART"),
        stick("f", "0403", "6999", manufacturer_name="FTDI", product_name="Other"),
        Device("g"),
    ]
    assert lookup(devices, [str(tmp_path)]) == {
        "a": "NVIDIA Corporation TU104GL [Tesla T4]",
        "b": "Intel Corporation something else",
        "c": "Intel Corporation",
        "e": "Future Technology FT232 Serial[2J",
        "f": "FTDI Other",
    }


def test_without_the_files_what_devices_call_themselves(tmp_path):
    devices = [card("a", "10de", "1eb8"), stick("b", "0403", "6001", product_name="UART")]
    assert lookup(devices, [str(tmp_path / "nowhere")]) == {"b": "UART"}


def test_the_first_file_that_is_there(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pci.ids").write_text(f"10de  {name}\n")
    folders = [str(tmp_path / name) for name in ("none", "one", "two")]
    assert lookup([card("a", "10de", "1eb8")], folders) == {"a": "one"}
