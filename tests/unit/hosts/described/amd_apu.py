"""An AMD desktop: an APU with its own GPU and a Radeon behind the two bridges on the card.

All compute goes through one /dev/kfd, which every GPU needs and none owns.
"""

from tests.unit.hosts.expected import Case, Expected, Given

TEXT = """
iommu DMA-FQ
kfd/kfd
pci0000:00
  00:01.1 1022:1633 060400 pcieport
    01:00.0 1002:1478 060400 pcieport
      02:00.0 1002:1479 060400 pcieport
        03:00.0 1002:73df 030000 amdgpu sub=1da2:445e
          drm/card0
            card0-DP-1
          renderD128
        03:00.1 1002:ab28 040300 snd_hda_intel
          sound/card0
            controlC0
            pcmC0D3p
  00:08.1 1022:1635 060400 pcieport
    05:00.0 1002:1638 038000 amdgpu sub=1002:1636
      drm/card1
        card1-HDMI-A-1
      renderD129
    05:00.1 1002:1637 040300 snd_hda_intel
      sound/card1
        controlC1
"""


def _gpu(address: str, number: int, class_: str, device: str) -> Expected:
    by_path = f"/dev/dri/by-path/pci-{address}"
    return Expected(
        {"address": address},
        (
            Given(f"{by_path}-card", f"/dev/dri/card{number}"),
            Given(f"{by_path}-render", f"/dev/dri/renderD{128 + number}"),
            Given("/dev/kfd"),
        ),
        attributes={"vendor": "1002", "device": device, "class": class_, "driver": "amdgpu"},
    )


RADEON = _gpu("0000:03:00.0", 0, "030000", "73df")
APU = _gpu("0000:05:00.0", 1, "038000", "1638")

GPU = """
  - name: example.com/gpu
    devices: [{gpu: {vendor: amd}}]
"""

CASES = (
    Case("both, a display controller and a VGA one", GPU, {"gpu": (RADEON, APU)}),
    Case(
        "the Radeon for one resource, whatever is left for another; both with /dev/kfd",
        """
  - name: example.com/radeon
    devices:
      - gpu: {vendor: amd}
        where: [{key: device, operator: In, values: ["73df"]}]
  - name: example.com/apu
    devices:
      - gpu: {vendor: amd}
        where: [{key: device, operator: NotIn, values: ["73df"]}]
""",
        {"radeon": (RADEON,), "apu": (APU,)},
    ),
    Case(
        "for video only: no compute node",
        """
  - name: example.com/video
    devices: [{pci: {vendor: "1002", class: "03"}, nodes: [{subsystem: drm}]}]
""",
        {
            "video": tuple(
                Expected(gpu.which, gpu.nodes[:2], attributes=gpu.attributes)
                for gpu in (RADEON, APU)
            )
        },
    ),
)
