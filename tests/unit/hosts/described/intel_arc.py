"""An Intel desktop: the processor's own GPU, an Arc A770 behind its two bridges, and the NPU.

Cards and render nodes are numbered each for themselves: renderD128 belongs to card2 here, because
the Arc was ready first and the firmware's framebuffer had been card0.
"""

from tests.unit.hosts.expected import Case, Expected, Given

TEXT = """
iommu DMA-FQ
pci0000:00
  00:01.0 8086:7ecc 060400 pcieport
    01:00.0 8086:4fa1 060400 pcieport
      02:01.0 8086:4fa4 060400 pcieport
        03:00.0 8086:56a0 030000 xe sub=8086:1020
          drm/card2
            card2-DP-4
            card2-HDMI-A-2
          renderD128
      02:04.0 8086:4fa4 060400 pcieport
        04:00.0 8086:4f90 040300 snd_hda_intel
          sound/card1
            controlC1
            pcmC1D3p
  00:02.0 8086:7d67 030000 i915 sub=1043:8882
    drm/card1
      card1-DP-1
    renderD129
    i2c-4 name="i915 gmbus dpb"
      i2c-dev/i2c-4
  00:0b.0 8086:ad1d 120000 intel_vpu sub=1043:8882
    accel0
  00:1f.3 8086:7f50 040300 snd_hda_intel
    sound/card0
      controlC0
      pcmC0D0p
      pcmC0D0c
"""


def _gpu(address: str, device: str, card: int, render: int, driver: str) -> Expected:
    by_path = f"/dev/dri/by-path/pci-{address}"
    return Expected(
        {"address": address},
        (
            Given(f"{by_path}-card", f"/dev/dri/card{card}"),
            Given(f"{by_path}-render", f"/dev/dri/renderD{render}"),
        ),
        attributes={
            "vendor": "8086",
            "device": device,
            "class": "030000",
            "driver": driver,
            "pcie_root": "pci0000:00",
        },
        absent=("numa",),
    )


OWN = _gpu("0000:00:02.0", "7d67", 1, 129, "i915")
ARC = _gpu("0000:03:00.0", "56a0", 2, 128, "xe")

GPU = """
  - name: example.com/gpu
    devices: [{gpu: {vendor: intel}}]
"""

CASES = (
    Case("both GPUs, as the vendor's kind", GPU, {"gpu": (OWN, ARC)}),
    Case(
        "the Arc only, by its ID",
        """
  - name: example.com/arc
    devices: [{pci: {vendor: "8086", device: "56a0"}, nodes: [{subsystem: drm}]}]
""",
        {"arc": (ARC,)},
    ),
    Case(
        "the Arc only, by what `where` says of a GPU",
        """
  - name: example.com/arc
    devices:
      - gpu: {vendor: intel}
        where: [{key: driver, operator: In, values: [xe]}]
""",
        {"arc": (ARC,)},
    ),
    Case(
        "the NPU: it has no link, and is all that its function has",
        """
  - name: example.com/npu
    devices: [{pci: {vendor: "8086", class: "1200"}}]
  - name: example.com/npu-too
    devices: [{pci: {device: "ad1d"}, nodes: [{subsystem: accel}]}]
""",
        {
            "npu": (
                Expected(
                    {"address": "0000:00:0b.0"},
                    (Given("/dev/accel/accel0"),),
                    attributes={
                        "class": "120000",
                        "driver": "intel_vpu",
                        "subsystem_vendor": "1043",
                        "subsystem_device": "8882",
                    },
                ),
            ),
            "npu-too": (Expected({"address": "0000:00:0b.0"}, problem="already belongs to"),),
        },
    ),
    Case(
        "sound of the board, not of the GPU",
        """
  - name: example.com/sound
    devices: [{pci: {class: "0403", address: "0000:00:*"}, nodes: [{subsystem: sound}]}]
""",
        {
            "sound": (
                Expected(
                    {"address": "0000:00:1f.3"},
                    (
                        Given("/dev/snd/by-path/pci-0000:00:1f.3", "/dev/snd/controlC0"),
                        Given("/dev/snd/pcmC0D0c"),
                        Given("/dev/snd/pcmC0D0p"),
                    ),
                ),
            )
        },
    ),
    Case(
        "by path, with the captures that paths have",
        """
  - name: example.com/render
    devices: [{path: "/dev/dri/by-path/pci-{address}-render"}]
""",
        {
            "render": tuple(
                Expected({"address": address}, (Given(f"/dev/dri/by-path/pci-{address}-render"),))
                for address in ("0000:00:02.0", "0000:03:00.0")
            )
        },
    ),
)
