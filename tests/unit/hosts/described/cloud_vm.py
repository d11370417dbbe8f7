"""A cloud's virtual machine without anything to hand out: virtio, no USB bus, no IOMMU."""

from tests.unit.hosts.expected import Case, Expected, Given

TEXT = """
node0 0-1
pci0000:00
  00:00.0 8086:0d57 060000
  00:02.0 1af4:1042 018000 virtio-pci sub=1af4:1042
    virtio1 virtio_blk
      vda
        vda1
  00:03.0 1af4:1041 020000 virtio-pci sub=1af4:1041
    virtio2 virtio_net
      net/eth0
misc/kvm dev=10:232
"""

CASES = (
    Case(
        "selectors of every kind match nothing",
        """
  - name: example.com/usb
    devices: [{usb: {vendor: "0403"}}, {usb: {port: "1-*"}}]
  - name: example.com/pci
    devices: [{pci: {vendor: "10de"}}]
  - name: example.com/vfio
    devices: [{vfio: {vendor: "1af4"}}]
  - name: example.com/gpu
    devices: [{gpu: {vendor: nvidia}}, {gpu: {vendor: amd}}, {gpu: {vendor: intel}}]
  - name: example.com/path
    devices: [{path: "/dev/ttyUSB*"}]
""",
        {"usb": (), "pci": (), "vfio": (), "gpu": (), "path": ()},
    ),
    Case(
        "what there is all the same",
        """
  - name: example.com/kvm
    devices: [{path: /dev/kvm, replicas: 110}]
  - name: example.com/disk
    devices: [{pci: {address: "0000:00:02.0"}, nodes: [{subsystem: block}]}]
  - name: example.com/net
    devices: [{pci: {vendor: "1af4", device: "1041"}}]
""",
        {
            "kvm": (Expected({"path": "/dev/kvm"}, (Given("/dev/kvm"),)),),
            "disk": (
                Expected(
                    {"address": "0000:00:02.0"},
                    (
                        Given(
                            (
                                "/dev/disk/by-path/pci-0000:00:02.0",
                                "/dev/disk/by-path/virtio-pci-0000:00:02.0",
                            ),
                            "/dev/vda",
                        ),
                        Given(
                            (
                                "/dev/disk/by-path/pci-0000:00:02.0-part1",
                                "/dev/disk/by-path/virtio-pci-0000:00:02.0-part1",
                            ),
                            "/dev/vda1",
                        ),
                    ),
                    attributes={"driver": "virtio-pci"},
                    absent=("numa", "iommu_group"),
                ),
            ),
            # Nothing to mount: whoever asks for it wants to know its address.
            "net": (Expected({"address": "0000:00:03.0"}, attributes={"class": "020000"}),),
        },
    ),
)
