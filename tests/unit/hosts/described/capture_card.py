"""A TW6864 capture card: one PCI function, four video inputs, one sound card for all of them."""

from tests.unit.hosts.expected import Case, Expected, Given

TEXT = """
pci0000:00
  00:1c.4 8086:a33c 060400 pcieport
    03:00.0 1797:6864 040000 tw686x
      video0 index=0 name="tw6864 video"
      video1 index=1 name="tw6864 video"
      video2 index=2 name="tw6864 video"
      video3 index=3 name="tw6864 video"
      sound/card1
        controlC1
        pcmC1D0c
  00:1f.3 8086:a348 040300 snd_hda_intel
    sound/card0
      controlC0
      pcmC0D0c
      pcmC0D0p
"""

_LINK = "/dev/v4l/by-path/pci-0000:03:00.0-video-index"
_INPUTS = tuple(Given(f"{_LINK}{n}", f"/dev/video{n}") for n in range(4))
_SOUND = (
    Given("/dev/snd/by-path/pci-0000:03:00.0", "/dev/snd/controlC1"),
    Given("/dev/snd/pcmC1D0c"),
)
_CARD = {"address": "0000:03:00.0"}

CARD = """
  - name: example.com/capture
    devices: [{pci: {vendor: "1797", device: "6864"}, nodes: [{subsystem: video4linux}]}]
"""

CASES = (
    Case(
        "the card: all its inputs in their order",
        CARD,
        {
            "capture": (
                Expected(_CARD, _INPUTS, attributes={"class": "040000", "driver": "tw686x"}),
            )
        },
    ),
    Case(
        "the card with its sound",
        """
  - name: example.com/capture
    devices:
      - pci: {vendor: "1797"}
        nodes: [{subsystem: video4linux}, {subsystem: sound, permissions: r, optional: true}]
""",
        {
            "capture": (
                Expected(
                    _CARD,
                    (
                        *_INPUTS,
                        *(Given(one.host_path, one.path, permissions="r") for one in _SOUND),
                    ),
                ),
            )
        },
    ),
    Case(
        "inputs under names of their own; those that nothing names are not handed over",
        """
  - name: example.com/capture
    devices:
      - pci: {vendor: "1797"}
        nodes: [{subsystem: video4linux, to: /dev/front}, {subsystem: video4linux, to: /dev/back}]
    per_container: {max: 1}
""",
        {
            "capture": (
                Expected(
                    _CARD, (Given(f"{_LINK}0", "/dev/front"), Given(f"{_LINK}1", "/dev/back"))
                ),
            )
        },
    ),
    Case(
        "each input for itself, by path",
        f"""
  - name: example.com/input
    devices: [{{path: "{_LINK}{{input}}", to: /dev/video0}}]
    per_container: {{max: 1}}
""",
        {
            "input": tuple(
                Expected({"input": str(n)}, (Given(f"{_LINK}{n}", "/dev/video0"),))
                for n in range(4)
            )
        },
    ),
)
