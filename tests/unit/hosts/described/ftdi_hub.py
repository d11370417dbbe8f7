"""Serial sticks behind a hub, two counterfeits with one serial number and a CH340 without any.

Sticks with the same serial number share a by-id link, and whichever udev looked at last has it.
"""

from tests.unit.hosts.expected import Case, Expected, Given

TEXT = """
pci0000:00
  00:14.0 8086:a36d 0c0330 xhci_hcd sub=8086:7270
    usb1 480 ports=16
      1-4 05e3:0608 hub product="USB2.0 Hub" bcdDevice=8536
        1-4.1 0403:6001 manufacturer=FTDI product="FT232R USB UART" serial=A10KZP3U bcdDevice=0600
          1.0 ff/ff/ff ftdi_sio
            ttyUSB0
        1-4.2 0403:6001 manufacturer=FTDI product="FT232R USB UART" serial=A10KZQ7X bcdDevice=0600
          1.0 ff/ff/ff ftdi_sio
            ttyUSB1
        1-4.3 0403:6001 manufacturer=FTDI product="FT232R USB UART" serial=A50285BI bcdDevice=0600
          1.0 ff/ff/ff ftdi_sio
            ttyUSB2
        1-4.4 1a40:0101 hub product="USB 2.0 Hub" bcdDevice=0111
          1-4.4.1 0403:6001 manufacturer=FTDI product="FT232R USB UART" serial=A50285BI \
              bcdDevice=0600
            1.0 ff/ff/ff ftdi_sio
              ttyUSB3
          1-4.4.2 1a86:7523 product="USB Serial" bcdDevice=0264 class=ff
            1.0 ff/01/02 ch341
              ttyUSB4
    usb2 5000 ports=10
"""

_BY_ID = "/dev/serial/by-id/usb-FTDI_FT232R_USB_UART"
_BY_PATH = "/dev/serial/by-path/pci-0000:00:14.0-usb-0"

OWN = (
    Expected(
        {"serial": "A10KZP3U"},
        (Given(f"{_BY_ID}_A10KZP3U-if00-port0", "/dev/ttyUSB0"),),
        attributes={
            "vendor": "0403",
            "product": "6001",
            "port": "1-4.1",
            "manufacturer_name": "FTDI",
            "product_name": "FT232R USB UART",
            "pcie_root": "pci0000:00",
        },
        absent=("numa",),
    ),
    Expected(
        {"serial": "A10KZQ7X"},
        (Given(f"{_BY_ID}_A10KZQ7X-if00-port0", "/dev/ttyUSB1"),),
        attributes={"port": "1-4.2"},
    ),
)
# One serial number for two: only the port tells them apart, in the link as well.
FAKES = (
    Expected(
        {"port": "1-4.3"},
        (Given(f"{_BY_PATH}:4.3:1.0-port0", "/dev/ttyUSB2"),),
        attributes={"serial": "A50285BI"},
    ),
    Expected(
        {"port": "1-4.4.1"},
        (Given(f"{_BY_PATH}:4.4.1:1.0-port0", "/dev/ttyUSB3"),),
        attributes={"serial": "A50285BI"},
    ),
)
# Its by-id link names the model: the next CH340 takes it.
CH340 = Expected(
    {"port": "1-4.4.2"},
    (Given(f"{_BY_PATH}:4.4.2:1.0-port0", "/dev/ttyUSB4"),),
    attributes={"vendor": "1a86", "product": "7523", "product_name": "USB Serial"},
    absent=("serial", "manufacturer_name"),
)

STICKS = """
  - name: example.com/stick
    devices: [{usb: {vendor: "0403", product: "6001"}}]
"""

CASES = (
    Case("by vendor and product", STICKS, {"stick": (*OWN, *FAKES)}),
    Case(
        "one by its serial number, under a constant name",
        """
  - name: example.com/meter
    devices:
      - usb: {serial: A10KZQ7X}
        nodes: [{subsystem: tty, to: /dev/meter}]
""",
        {
            "meter": (
                Expected(
                    {"serial": "A10KZQ7X"},
                    (Given(f"{_BY_ID}_A10KZQ7X-if00-port0", "/dev/meter"),),
                ),
            )
        },
    ),
    Case(
        "by port, whatever is plugged in there",
        """
  - name: example.com/bench
    devices: [{usb: {port: "1-4.4.*"}}]
""",
        {"bench": (FAKES[1], CH340)},
    ),
    Case(
        "by interface class",
        """
  - name: example.com/serial
    devices: [{usb: {class: "ff"}, nodes: [{subsystem: tty}]}]
""",
        {"serial": (*OWN, *FAKES, CH340)},
    ),
    Case(
        "a hub is its own node, and nothing of what is plugged into it",
        """
  - name: example.com/hub
    devices: [{usb: {vendor: "05e3", product: "0608"}}]
  - name: example.com/none
    devices: [{usb: {vendor: "1a40"}}]  # a hub must be named in full: what is at it is meant
""",
        {
            "hub": (
                Expected({"port": "1-4"}, (Given("/dev/bus/usb/001/002"),), absent=("serial",)),
            ),
            "none": (),
        },
    ),
    Case(
        "raw nodes for who drives them without the kernel",
        """
  - name: example.com/raw
    devices:
      - usb: {serial: A10KZP3U}
        nodes: [{subsystem: usb}]
""",
        {"raw": (Expected({"serial": "A10KZP3U"}, (Given("/dev/bus/usb/001/003"),)),)},
    ),
    Case(
        "one for itself, the rest for all",
        f"""
  - name: example.com/mine
    devices: [{{usb: {{serial: A10KZP3U}}}}]
{STICKS}""",
        {
            "mine": OWN[:1],
            "stick": (
                Expected({"serial": "A10KZP3U"}, problem="already belongs to example.com/mine"),
                OWN[1],
                *FAKES,
            ),
        },
    ),
    Case(
        "by link: one for each name, whoever has it",
        """
  - name: example.com/link
    devices: [{path: "/dev/serial/by-id/usb-FTDI_*"}]
""",
        {
            "link": tuple(
                Expected({"path": path}, (Given(path),))
                for path in (
                    f"{_BY_ID}_{serial}-if00-port0"
                    for serial in ("A10KZP3U", "A10KZQ7X", "A50285BI")
                )
            )
        },
    ),
)
