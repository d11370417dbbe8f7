"""Coral accelerators: on USB, before and after they got their firmware, and as an M.2 card.

On USB libusb drives them, and with the firmware they get other IDs. None has a serial number.
"""

from tests.unit.hosts.expected import Case, Expected, Given

TEXT = """
iommu DMA-FQ
pci0000:00
  00:14.0 8086:43ed 0c0330 xhci_hcd
    usb1 480 ports=16
      1-2 1a6e:089a
        1.0 fe/01/02
    usb2 5000 ports=8
      2-3 18d1:9302 speed=5000
        1.0 ff/ff/ff
  00:1c.0 8086:43b8 060400 pcieport
    03:00.0 1ac1:089a 088000 apex sub=1ac1:089a
      apex_0
"""

# Its node in libusb's place, under libusb's name: there is no link to it.
_RAW = {
    "1-2": Expected(
        {"port": "1-2"},
        (Given("/dev/bus/usb/001/002"),),
        attributes={"vendor": "1a6e", "product": "089a"},
        absent=("serial", "manufacturer_name", "product_name"),
    ),
    "2-3": Expected(
        {"port": "2-3"},
        (Given("/dev/bus/usb/002/002"),),
        attributes={"vendor": "18d1", "product": "9302"},
        absent=("serial",),
    ),
}

USB = """
  - name: example.com/coral-usb
    devices:
      - usb: {vendor: "1a6e", product: "089a"}
      - usb: {vendor: "18d1", product: "9302"}
"""

CASES = (
    Case("on USB", USB, {"coral-usb": (_RAW["1-2"], _RAW["2-3"])}),
    Case(
        "as a PCI card",
        """
  - name: example.com/coral-pci
    devices: [{pci: {vendor: "1ac1", device: "089a"}}]
""",
        {
            "coral-pci": (
                Expected(
                    {"address": "0000:03:00.0"},
                    (Given("/dev/apex_0"),),
                    attributes={
                        "vendor": "1ac1",
                        "device": "089a",
                        "class": "088000",
                        "driver": "apex",
                        "subsystem_vendor": "1ac1",
                        "subsystem_device": "089a",
                        "pcie_root": "pci0000:00",
                        "iommu_group": "2",
                    },
                    absent=("numa", "physical_function"),
                ),
            )
        },
    ),
    Case(
        "by path, as before",
        """
  - name: example.com/apex
    devices: [{path: "/dev/apex_*"}]
""",
        {"apex": (Expected({"path": "/dev/apex_0"}, (Given("/dev/apex_0"),)),)},
    ),
)
