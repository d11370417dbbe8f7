"""A Raspberry Pi 4 with a HUSBZB-1: Z-Wave and Zigbee in one stick, an interface each.

The Pi's USB controller is a PCI function whose bus hangs on a platform device, and so do paths.
"""

from tests.unit.hosts.expected import Case, Expected, Given

TEXT = """
platform
  scb
    fd500000.pcie brcm-pcie
      pci0000:00
        00:00.0 14e4:2711 060400 pcieport
          01:00.0 1106:3483 0c0330 xhci_hcd
            usb1 480 ports=1
              1-1 2109:3431 hub product="USB2.0 Hub" bcdDevice=0421
                1-1.4 10c4:8a2a manufacturer="Silicon Labs" \
                    product="HubZ Smart Home Controller" serial=31200A7C
                  1.0 ff/00/00 cp210x
                    ttyUSB0
                  1.1 ff/00/00 cp210x
                    ttyUSB1
            usb2 5000 ports=4
"""

_ID = "/dev/serial/by-id/usb-Silicon_Labs_HubZ_Smart_Home_Controller_31200A7C"
ZWAVE, ZIGBEE = f"{_ID}-if00-port0", f"{_ID}-if01-port0"

STICK = """
  - name: example.com/stick
    devices: [{usb: {vendor: "10c4", product: "8a2a"}}]
"""

CASES = (
    Case(
        "the stick: both radios, Z-Wave first",
        STICK,
        {
            "stick": (
                Expected(
                    {"serial": "31200A7C"},
                    (Given(ZWAVE, "/dev/ttyUSB0"), Given(ZIGBEE, "/dev/ttyUSB1")),
                    attributes={
                        "port": "1-1.4",
                        "manufacturer_name": "Silicon Labs",
                        "product_name": "HubZ Smart Home Controller",
                        "pcie_root": "pci0000:00",
                    },
                    absent=("numa",),
                ),
            )
        },
    ),
    Case(
        "the stick under constant names, in the interfaces' order",
        """
  - name: example.com/stick
    devices:
      - usb: {vendor: "10c4", product: "8a2a"}
        nodes: [{subsystem: tty, to: /dev/zwave}, {subsystem: tty, to: /dev/zigbee}]
    per_container: {max: 1}
""",
        {
            "stick": (
                Expected(
                    {"serial": "31200A7C"},
                    (Given(ZWAVE, "/dev/zwave"), Given(ZIGBEE, "/dev/zigbee")),
                ),
            )
        },
    ),
    Case(
        "a radio for itself: its link names the interface",
        """
  - name: example.com/zigbee
    devices: [{path: "/dev/serial/by-id/usb-*_HubZ_*-if01-port0", to: /dev/zigbee}]
    per_container: {max: 1}
  - name: example.com/zwave
    devices: [{path: "/dev/serial/by-id/usb-*_HubZ_*-if00-port0", to: /dev/zwave}]
    per_container: {max: 1}
""",
        {
            "zigbee": (Expected({"path": ZIGBEE}, (Given(ZIGBEE, "/dev/zigbee"),)),),
            "zwave": (Expected({"path": ZWAVE}, (Given(ZWAVE, "/dev/zwave"),)),),
        },
    ),
)
