"""A graphics card for a virtual machine, with its sound and the port above it a group of three.

Beside it a group of one, and a group of two functions of which the host keeps one.
"""

from tests.unit.hosts.expected import Case, Expected, Given

TEXT = """
iommu DMA-FQ
pci0000:00
  00:01.0 8086:0c01 060400 pcieport group=1
    01:00.0 10de:1187 030000 vfio-pci group=1 sub=1458:3600
    01:00.1 10de:0e0a 040300 vfio-pci group=1 sub=1458:3600
  00:14.0 8086:8cb1 0c0330 xhci_hcd group=4
  00:1c.0 8086:8c90 060400 pcieport group=10
    03:00.0 8086:1521 020000 vfio-pci group=11 sub=8086:0001
  00:1c.4 8086:8c98 060400 pcieport group=12
    04:00.0 14e4:165f 020000 vfio-pci group=13
    04:00.1 14e4:165f 020000 tg3 group=13
      net/eth0
"""


def _nodes(group: int, *cdevs: int) -> tuple[Given, ...]:
    return (
        Given(f"/dev/vfio/{group}"),
        Given("/dev/vfio/vfio"),
        *(Given(f"/dev/vfio/devices/vfio{cdev}") for cdev in cdevs),
        Given("/dev/iommu"),
    )


# Both functions go together; the port stays with the host.
CARD = Expected(
    {"iommu_group": "1"},
    _nodes(1, 0, 1),
    attributes={
        "vendor": "10de",
        "device": "1187",
        "address": "0000:01:00.0",
        "addresses": "0000:01:00.0,0000:01:00.1",
        "class": "030000",
        "driver": "vfio-pci",
        "pcie_root": "pci0000:00",
    },
    absent=("numa",),
)
NIC = Expected(
    {"iommu_group": "11"},
    _nodes(11, 2),
    attributes={"address": "0000:03:00.0", "addresses": "0000:03:00.0", "device": "1521"},
)

GPU = """
  - name: example.com/gpu
    devices: [{vfio: {vendor: "10de", class: "0300"}}]
"""

CASES = (
    Case("the card by its GPU", GPU, {"gpu": (CARD,)}),
    Case(
        "the card by any of its functions is one device",
        """
  - name: example.com/gpu
    devices: [{vfio: {vendor: "10de"}}]
""",
        {"gpu": (CARD,)},
    ),
    Case(
        "a group of one",
        """
  - name: example.com/nic
    devices: [{vfio: {vendor: "8086", class: "02"}}]
""",
        {"nic": (NIC,)},
    ),
    Case(
        "a group of which the host drives a function cannot be opened",
        """
  - name: example.com/broken
    devices: [{vfio: {vendor: "14e4"}}]
""",
        {"broken": (Expected({"iommu_group": "13"}, problem="0000:04:00.1|tg3"),)},
    ),
    Case(
        "what nobody gave to VFIO is not offered",
        """
  - name: example.com/usb
    devices: [{vfio: {class: "0c03"}}]
""",
        {"usb": ()},
    ),
)
