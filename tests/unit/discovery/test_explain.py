"""Why a node is, or is not, what a selector of hardware means."""

import pytest

from device_plugin.discovery.explain import explain, title
from device_plugin.host import Host

MACHINE = """
iommu DMA-FQ
pci0000:00
  00:14.0 8086:a36d 0c0330 xhci_hcd
    usb1
      1-1 0403:6001 serial=a1
        1.0 ff/ff/ff ftdi_sio
          ttyUSB0
      1-2 05e3:0608 hub
  01:00.0 10de:2204 030000 vfio-pci group=3
  02:00.0 8086:4680 030000 i915
    drm/card0
    renderD128
"""

STICK = "belongs to the USB device 0403:6001 at port 1-1, but"
HUB = "belongs to the USB device 05e3:0608 at port 1-2, but"
GPU = "belongs to the PCI function 8086:4680 at 0000:02:00.0, but"


@pytest.fixture
def said(boot, load):
    """What selectors, in YAML, say of a path."""

    def texts(path, *selectors):
        look = Host(str(boot(MACHINE).root)).look()
        return [verdict.text for verdict in explain(look, load(*selectors), path)]

    return texts


@pytest.mark.parametrize(
    ("path", "selector", "text"),
    [
        (
            "/dev/ttyUSB0",
            'usb: {vendor: "0403"}',
            "/dev/ttyUSB0 is the device usb-0403-6001-a1, as",
        ),
        (
            "/dev/ttyUSB0",
            'usb: {vendor: "10c4"}',
            f"/dev/ttyUSB0 {STICK} vendor is 0403, and must match 10c4",
        ),
        (
            "/dev/ttyUSB0",
            'usb: {vendor: "0403", serial: "b*"}',
            f"/dev/ttyUSB0 {STICK} serial is a1, and must match b*",
        ),
        (
            "/dev/ttyUSB0",
            'usb: {vendor: "0403"}, where: [{key: numa, operator: Exists}]',
            f"/dev/ttyUSB0 {STICK} there is no attribute numa",
        ),
        (
            "/dev/bus/usb/001/002",
            'usb: {vendor: "0403"}',
            f"/dev/bus/usb/001/002 {STICK} only `nodes` with its subsystem hands it over",
        ),
        (
            "/dev/bus/usb/001/003",
            'usb: {vendor: "05e3"}',
            f"/dev/bus/usb/001/003 {HUB} it is a hub, which only `product` or `class` selects",
        ),
        (
            "/dev/ttyUSB0",
            'pci: {vendor: "8086"}',
            f"/dev/ttyUSB0 {STICK} it is no PCI function",
        ),
        (
            "/dev/dri/renderD128",
            'usb: {vendor: "0403"}',
            f"/dev/dri/renderD128 {GPU} it is no USB device",
        ),
        (
            "/dev/dri/renderD128",
            "gpu: {vendor: amd}",
            f"/dev/dri/renderD128 {GPU} vendor is 8086, and must match 1002",
        ),
        ("/dev/dri/renderD128", "gpu: {vendor: intel}", "is the device pci-0000-02-00-0"),
        (
            "/dev/dri/renderD128",
            'vfio: {vendor: "8086", class: "03"}',
            f"/dev/dri/renderD128 {GPU} it is bound to i915, not to vfio-pci",
        ),
        ("/dev/vfio/3", 'vfio: {vendor: "10de"}', "/dev/vfio/3 is the device vfio-0000-01-00-0"),
        (
            "/dev/vfio/vfio",
            'vfio: {vendor: "10de"}',
            "/dev/vfio/vfio comes with the device vfio-0000-01-00-0",
        ),
        ("/dev/null", 'usb: {vendor: "0403"}', "/dev/null belongs to no USB device"),
        ("/dev/null", "gpu: {vendor: amd}", "/dev/null belongs to no PCI function"),
        ("/dev/nowhere", 'usb: {vendor: "0403"}', "it does not exist"),
        (
            "/dev/null",
            "exec: {command: [/x]}",
            "/dev/null belongs to nothing that the program lists",
        ),
    ],
)
def test_verdicts(said, path, selector, text):
    (verdict,) = said(path, selector)
    assert verdict.startswith(text) if text.startswith("/") else text in verdict


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        ('usb: {vendor: "0403", class: "ff"}', "usb: {vendor: 0403, class: ff}"),
        ('pci: {address: "0000:3b:00.*"}', "pci: {address: 0000:3b:00.*}"),
        ('vfio: {vendor: "10de"}', "vfio: {vendor: 10de}"),
        ("gpu: {vendor: amd}", "gpu: {vendor: amd}"),
        ("exec: {command: [/x, --all]}", "exec: /x --all"),
        ("path: /dev/x", "path: /dev/x"),
        ("virtual: {count: 2}", "virtual: 2"),
    ],
)
def test_titles(load, selector, text):
    assert title(load(selector).resources[0].devices[0]) == text
