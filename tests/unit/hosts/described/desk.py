"""A desk: webcam, keyboard, two identical security keys, a disk at a hub, two boards as gadgets.

A controller has a bus for USB 2 and one for USB 3, each with its own port 7; what udev calls a path
is the same for both, so one link leads to one of them only. Newer udev makes a second one.
"""

from tests.unit.hosts.expected import Case, Expected, Given

TEXT = """
udev 257
pci0000:00
  00:14.0 8086:7ae0 0c0330 xhci_hcd
    usb1 480 ports=16
      1-1 046d:082d product="HD Pro Webcam C920" serial=6BBD9C6F class=ef/02/01 speed=480
        1.0 0e/01/00 uvcvideo
          video0 index=0 name="HD Pro Webcam C920"
          video1 index=1 name="HD Pro Webcam C920"
          media0 model="HD Pro Webcam C920"
        1.1 0e/02/00 uvcvideo
        1.2 01/01/00 snd-usb-audio
          sound/card1
            controlC1
            pcmC1D0c
        1.3 01/02/00 snd-usb-audio
      1-2 046d:c31c manufacturer=Logitech product="USB Keyboard" speed=1.5
        1.0 03/01/01 usbhid
          0003:046D:C31C.0001 hid-generic HID_ID=0003:0000046D:0000C31C
            hidraw0
            input4 name="Logitech USB Keyboard" udev=kbd
              event3
      1-3 1050:0120 manufacturer=Yubico product="Security Key by Yubico"
        1.0 03/00/00 usbhid
          0003:1050:0120.0002 hid-generic HID_ID=0003:00001050:00000120
            hidraw1
      1-4 1050:0120 manufacturer=Yubico product="Security Key by Yubico"
        1.0 03/00/00 usbhid
          0003:1050:0120.0003 hid-generic HID_ID=0003:00001050:00000120
            hidraw2
      1-5 2109:2817 hub manufacturer="VIA Labs, Inc.         " product="USB2.0 Hub             "
      1-7 0525:a4a7 manufacturer="Linux 6.1.0 with dwc3-gadget" product="Gadget Serial v2.4" \
          class=02
        1.0 02/02/01 cdc_acm
          ttyACM0
    usb2 5000 ports=10
      2-5 2109:0817 hub manufacturer="VIA Labs, Inc.         " product="USB3.0 Hub             "
        2-5.2 0781:5583 manufacturer=SanDisk product="Ultra Fit" serial=4C530001 speed=5000
          1.0 08/06/50 usb-storage
            host6
              target6:0:0
                6:0:0:0 sd vendor=SanDisk model="Ultra Fit" rev=1.00 type=0
                  sda
                    sda1
                  sg0
      2-7 0525:a4a7 manufacturer="Linux 6.1.0 with dwc3-gadget" product="Gadget Serial v2.4" \
          class=02
        1.0 02/02/01 cdc_acm
          ttyACM1
"""

_C920 = "usb-046d_HD_Pro_Webcam_C920_6BBD9C6F"
WEBCAM = Expected(
    {"serial": "6BBD9C6F"},
    (
        Given(f"/dev/v4l/by-id/{_C920}-video-index0", "/dev/video0"),
        Given(f"/dev/v4l/by-id/{_C920}-video-index1", "/dev/video1"),
    ),
    attributes={"port": "1-1", "vendor": "046d", "product_name": "HD Pro Webcam C920"},
    absent=("manufacturer_name",),
)


def _key(port: str, number: int) -> Expected:
    """By port, for they have no serial number; udev names their hidraw nodes by path, too."""
    paths = tuple(
        f"/dev/input/by-path/pci-0000:00:14.0-{usb}-0:{port[2:]}:1.0-hidraw"
        for usb in ("usb", "usbv2")
    )
    node = f"/dev/hidraw{number}"
    return Expected({"port": port}, (Given((*paths, node), node),), absent=("serial",))


KEYS = (_key("1-3", 1), _key("1-4", 2))

CASES = (
    Case(
        "the webcam's pictures",
        """
  - name: example.com/camera
    devices: [{usb: {vendor: "046d", product: "082d"}, nodes: [{subsystem: video4linux}]}]
""",
        {"camera": (WEBCAM,)},
    ),
    Case(
        "one of its nodes, under a constant name",
        """
  - name: example.com/camera
    devices: [{usb: {serial: 6BBD9C6F}, nodes: [{subsystem: video4linux, to: /dev/video0}]}]
""",
        {"camera": (Expected(WEBCAM.which, WEBCAM.nodes[:1]),)},
    ),
    Case(
        "video devices by the class of any interface",
        """
  - name: example.com/camera
    devices: [{usb: {class: "0e"}, nodes: [{subsystem: video4linux}]}]
""",
        {"camera": (WEBCAM,)},
    ),
    Case(
        "the webcam's microphone",
        """
  - name: example.com/microphone
    devices: [{usb: {product: "082d"}, nodes: [{subsystem: sound}]}]
""",
        {
            "microphone": (
                Expected(
                    WEBCAM.which,
                    (
                        Given(f"/dev/snd/by-id/{_C920}-02", "/dev/snd/controlC1"),
                        Given("/dev/snd/pcmC1D0c"),
                    ),
                ),
            )
        },
    ),
    Case(
        "identical keys",
        """
  - name: example.com/key
    devices: [{usb: {vendor: "1050"}, nodes: [{subsystem: hidraw}]}]
""",
        {"key": KEYS},
    ),
    Case(
        "the keyboard's events",
        """
  - name: example.com/keyboard
    devices: [{usb: {vendor: "046d", product: "c31c"}, nodes: [{subsystem: input}]}]
""",
        {
            "keyboard": (
                Expected(
                    {"port": "1-2"},
                    (
                        Given(
                            tuple(
                                f"/dev/input/by-path/pci-0000:00:14.0-{usb}-0:2:1.0-event-kbd"
                                for usb in ("usb", "usbv2")
                            ),
                            "/dev/input/event3",
                        ),
                    ),
                    attributes={"manufacturer_name": "Logitech", "product_name": "USB Keyboard"},
                ),
            )
        },
    ),
    Case(
        "a disk with its partition",
        """
  - name: example.com/disk
    devices: [{usb: {class: "08"}, nodes: [{subsystem: block}]}]
""",
        {
            "disk": (
                Expected(
                    {"serial": "4C530001"},
                    (
                        Given("/dev/disk/by-id/usb-SanDisk_Ultra_Fit_4C530001-0:0", "/dev/sda"),
                        Given(
                            "/dev/disk/by-id/usb-SanDisk_Ultra_Fit_4C530001-0:0-part1", "/dev/sda1"
                        ),
                    ),
                    attributes={"port": "2-5.2"},
                ),
            )
        },
    ),
    Case(
        "two boards of one kind, at port 7 of either bus",
        """
  - name: example.com/board
    devices: [{usb: {vendor: "0525", product: "a4a7"}}]
""",
        {
            "board": tuple(
                Expected(
                    {"port": port},
                    (
                        Given(
                            tuple(
                                f"/dev/serial/by-path/pci-0000:00:14.0-{usb}-0:7:1.0"
                                for usb in ("usb", revision)
                            ),
                            node,
                        ),
                    ),
                    attributes={"product_name": "Gadget Serial v2.4"},
                    absent=("serial",),
                )
                for port, revision, node in (
                    ("1-7", "usbv2", "/dev/ttyACM0"),
                    ("2-7", "usbv3", "/dev/ttyACM1"),
                )
            )
        },
    ),
    Case(
        "text that its makers padded",
        """
  - name: example.com/hub
    devices: [{usb: {vendor: "2109", product: "2817"}}]
""",
        {
            "hub": (
                Expected(
                    {"port": "1-5"},
                    (Given("/dev/bus/usb/001/006"),),
                    attributes={
                        "manufacturer_name": "VIA Labs, Inc.",
                        "product_name": "USB2.0 Hub",
                    },
                ),
            )
        },
    ),
)
