"""Two sockets, four PCIe roots, at each a PLX switch with two V100.

Beside them what such servers have: a BMC's VGA, an NVMe disk at the second socket, and a licence
dongle at the first one's USB.
"""

from tests.unit.hosts.expected import Case, Expected, Given

# Per root: its bus, those of the switch below, the NUMA node, and the GPUs' buses.
_ROOTS = (
    ("17", "18", "19", 0, "1a", "1b"),
    ("3a", "3b", "3c", 0, "3d", "3e"),
    ("85", "86", "87", 1, "88", "89"),
    ("ae", "af", "b0", 1, "b1", "b2"),
)
GPUS = tuple(
    (f"0000:{bus}:00.0", f"pci0000:{root}", node)
    for root, _, _, node, *buses in _ROOTS
    for bus in buses
)

_SWITCH = """
pci0000:{0} numa={3}
  {0}:00.0 8086:2030 060400 pcieport
    {1}:00.0 10b5:9765 060400 pcieport
      {2}:08.0 10b5:9765 060400 pcieport
        {4}:00.0 10de:1db5 030200 nvidia sub=10de:1249
          drm/card{6}
          renderD{8}
          nvidia{10}
      {2}:0c.0 10b5:9765 060400 pcieport
        {5}:00.0 10de:1db5 030200 nvidia sub=10de:1249
          drm/card{7}
          renderD{9}
          nvidia{11}
"""

TEXT = """
node0 0-19,40-59
node1 20-39,60-79
iommu DMA-FQ
pci0000:00 numa=0
  00:14.0 8086:a1af 0c0330 xhci_hcd
    usb1 480 ports=16
      1-9 0529:0001 manufacturer=AKS product="HASP 2.17" class=ff
        1.0 ff/00/00
  00:1c.0 8086:a190 060400 pcieport
    02:00.0 1a03:1150 060400
      03:00.0 1a03:2000 030000 ast
        drm/card0
pci0000:d7 numa=1
  d7:00.0 8086:2030 060400 pcieport
    d8:00.0 144d:a808 010802 nvme
      nvme0 model="SAMSUNG MZQLB1T9HAJR-00007" serial=S439NA0M801234
        nvme0n1 nsid=1
        ng0n1
""" + "".join(
    _SWITCH.format(*root, 2 * n + 1, 2 * n + 2, 128 + 2 * n, 129 + 2 * n, 2 * n, 2 * n + 1)
    for n, root in enumerate(_ROOTS)
)


def _gpu(number: int) -> Expected:
    address, root, node = GPUS[number]
    by_path = f"/dev/dri/by-path/pci-{address}"
    return Expected(
        {"address": address},
        (
            Given(f"{by_path}-card", f"/dev/dri/card{number + 1}"),
            Given(f"{by_path}-render", f"/dev/dri/renderD{128 + number}"),
        ),
        numa=(node,),
        attributes={
            "vendor": "10de",
            "device": "1db5",
            "class": "030200",
            "driver": "nvidia",
            "pcie_root": root,
            "numa": str(node),
        },
        absent=("physical_function",),
    )


def _nvidia(number: int) -> Expected:
    gpu = _gpu(number)
    control = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
    own = Given(f"/dev/nvidia{number}")
    return Expected(
        gpu.which,
        (own, *gpu.nodes, *(Given(f"/dev/{name}") for name in control)),
        numa=gpu.numa,
        attributes=gpu.attributes,
    )


ALL = range(len(GPUS))

PCI = """
  - name: example.com/v100
    devices: [{pci: {vendor: "10de", class: "03"}, nodes: [{subsystem: drm}]}]
"""

CASES = (
    Case("all GPUs", PCI, {"v100": tuple(map(_gpu, ALL))}),
    Case(
        "those of each socket",
        """
  - name: example.com/near
    devices:
      - pci: {vendor: "10de"}
        nodes: [{subsystem: drm}]
        where: [{key: numa, operator: In, values: ["0"]}]
  - name: example.com/far
    devices:
      - pci: {vendor: "10de"}
        nodes: [{subsystem: drm}]
        where: [{key: numa, operator: AtLeast, values: ["1"]}]
""",
        {"near": tuple(map(_gpu, range(4))), "far": tuple(map(_gpu, range(4, 8)))},
    ),
    Case(
        "those of one root",
        """
  - name: example.com/pair
    devices:
      - pci: {vendor: "10de"}
        nodes: [{subsystem: drm}]
        where: [{key: pcie_root, operator: In, values: ["pci0000:85"]}]
""",
        {"pair": (_gpu(4), _gpu(5))},
    ),
    Case(
        "the vendor's kind: with the nodes of its own driver",
        """
  - name: example.com/gpu
    devices: [{gpu: {vendor: nvidia}}]
""",
        {"gpu": tuple(map(_nvidia, ALL))},
    ),
    Case(
        "a render node is enough for most",
        """
  - name: example.com/render
    devices:
      - pci: {address: "0000:3d:00.0"}
        nodes: [{subsystem: drm, to: /dev/dri/card0}, {subsystem: drm, to: /dev/dri/renderD128}]
""",
        {
            "render": (
                Expected(
                    {"address": "0000:3d:00.0"},
                    (
                        Given("/dev/dri/by-path/pci-0000:3d:00.0-card", "/dev/dri/card0"),
                        Given("/dev/dri/by-path/pci-0000:3d:00.0-render", "/dev/dri/renderD128"),
                    ),
                    numa=(0,),
                ),
            )
        },
    ),
    Case(
        "a disk of the second socket, by its namespace and by its controller",
        """
  - name: example.com/disk
    devices: [{pci: {class: "0108"}, nodes: [{subsystem: block}]}]
  - name: example.com/controller
    devices: [{pci: {class: "010802"}, nodes: [{subsystem: nvme}]}]
""",
        {
            "disk": (
                Expected(
                    {"address": "0000:d8:00.0"},
                    (
                        Given(
                            (
                                "/dev/disk/by-id/nvme-SAMSUNG_MZQLB1T9HAJR-00007_S439NA0M801234",
                                "/dev/disk/by-id/nvme-SAMSUNG_MZQLB1T9HAJR-00007_S439NA0M801234_1",
                            ),
                            "/dev/nvme0n1",
                        ),
                    ),
                    numa=(1,),
                    attributes={"pcie_root": "pci0000:d7", "class": "010802", "driver": "nvme"},
                ),
            ),
            "controller": (
                Expected({"address": "0000:d8:00.0"}, numa=(1,), problem="already belongs to"),
            ),
        },
    ),
    Case(
        "a USB device is where its controller is",
        """
  - name: example.com/dongle
    devices: [{usb: {vendor: "0529"}}]
""",
        {
            "dongle": (
                Expected(
                    {"port": "1-9"},
                    (Given("/dev/bus/usb/001/002"),),
                    numa=(0,),
                    attributes={"pcie_root": "pci0000:00", "numa": "0"},
                ),
            )
        },
    ),
    Case(
        "what is no GPU is not taken for one",
        """
  - name: example.com/intel
    devices: [{gpu: {vendor: intel}}]
  - name: example.com/amd
    devices: [{gpu: {vendor: amd}}]
""",
        {"intel": (), "amd": ()},
    ),
)
