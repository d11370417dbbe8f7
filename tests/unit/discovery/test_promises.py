"""What config and docs promise of the kinds is what discovery finds."""

import re
from pathlib import Path

import pytest

from device_plugin.config.hardware import ATTRIBUTES
from device_plugin.discovery import gpu
from device_plugin.template import ATTRIBUTE

DOCUMENT = Path(__file__).parents[3].joinpath("docs", "config.md").read_text()
MACHINE = """
iommu DMA-FQ
pci0000:00 numa=0
  00:14.0 8086:a36d 0c0330 xhci_hcd
    usb1
      1-1 0403:6001 manufacturer=FTDI product="FT232R USB UART" serial=A1
        1.0 ff/ff/ff ftdi_sio
          ttyUSB0
  81:00.0 1002:1017 030000 vfio-pci sriov=4
  81:00.1 1002:1018 030000 vfio-pci physfn=81:00.0
  81:00.2 1002:1018 030000 amdgpu physfn=81:00.0
    renderD128
"""
SELECTORS = {
    "usb": 'usb: {vendor: "0403"}',
    "pci": "pci: {driver: amdgpu}",
    "vfio": 'vfio: {device: "1018"}',
    "gpu": "gpu: {vendor: amd}, where: [{key: driver, operator: In, values: [amdgpu]}]",
}


@pytest.mark.parametrize("kind", SELECTORS)
def test_attributes_are_those_that_config_knows(boot, find, kind):
    (one,) = find(boot(MACHINE), SELECTORS[kind]).candidates
    assert one.problem == ""
    assert one.device.attributes.keys() == ATTRIBUTES[kind].keys()
    for name, value in one.device.attributes.items():
        assert isinstance(value, type(ATTRIBUTES[kind][name]))


@pytest.mark.parametrize("kind", SELECTORS)
def test_attributes_are_those_of_the_document(kind):
    (row,) = re.findall(rf"(?m)^\| [^|]*`{kind}`[^|]* \| (`vendor.*|those of .*) \|$", DOCUMENT)
    named = set(re.findall(r"`([a-z_]+)`", row))
    inherited = ATTRIBUTES["pci"].keys() if kind == "vfio" else set()
    assert named | inherited == ATTRIBUTES[kind].keys()
    assert ATTRIBUTE not in named


@pytest.mark.parametrize("vendor", gpu.EXPANSIONS)
def test_what_gpu_stands_for_is_that_of_the_document(vendor):
    (row,) = re.findall(rf"(?m)^\| `{vendor}` \| .* \|$", DOCUMENT)
    meant = gpu.EXPANSIONS[vendor]
    assert re.findall(r'vendor: "(\w+)", class: "(\w+)"', row) == [
        (pci.vendor, pci.class_) for pci in meant.pci
    ]
    nodes = row.split("|")[3]
    assert all(f"`{node.subsystem}`" in nodes for node in meant.nodes)
    assert set(re.findall(r"`(/dev/[\w-]+)`", row.split("|")[4])) == {
        companion.path for companion in meant.with_
    }
