"""A Raspberry Pi 4 as it comes: GPIO, I2C, SPI and a serial port, none on a bus with IDs."""

from tests.unit.hosts.expected import Case, Expected, Given

TEXT = """
platform
  soc
    fe200000.gpio pinctrl-bcm2835
      gpiochip0
    fe204000.spi spi-bcm2835
      spi0
        spi0.0 spidev
          spidev0.0
        spi0.1 spidev
          spidev0.1
    fe804000.i2c i2c-bcm2835
      i2c-1 name="bcm2835 (i2c@7e804000)"
        i2c-dev/i2c-1
    fe201000.serial uart-pl011
      fe201000.serial:0 ctrl
        fe201000.serial:0.0 port
          ttyAMA0
    soc:firmware raspberrypi-firmware
      soc:firmware:gpio raspberrypi-exp-gpio
        gpiochip1
  scb
    fd500000.pcie brcm-pcie
      pci0000:00
        00:00.0 14e4:2711 060400 pcieport
          01:00.0 1106:3483 0c0330 xhci_hcd
            usb1 480 ports=1
              1-1 2109:3431 hub product="USB2.0 Hub" bcdDevice=0421
            usb2 5000 ports=4
"""


def _path(path: str) -> Expected:
    return Expected({"path": path}, (Given(path),))


CASES = (
    Case(
        "each bus by path",
        """
  - name: example.com/gpio
    devices: [{path: /dev/gpiochip0}]
  - name: example.com/i2c
    devices: [{path: "/dev/i2c-{bus}"}]
  - name: example.com/spi
    devices: [{path: "/dev/spidev0.{select}"}]
  - name: example.com/serial
    devices: [{path: "/dev/ttyAMA*"}]
""",
        {
            "gpio": (_path("/dev/gpiochip0"),),
            "i2c": (_path("/dev/i2c-1"),),
            "spi": (_path("/dev/spidev0.0"), _path("/dev/spidev0.1")),
            "serial": (_path("/dev/ttyAMA0"),),
        },
    ),
    Case(
        "a hat needs several",
        """
  - name: example.com/hat
    devices: [{path: /dev/i2c-1, with: [/dev/gpiochip0, /dev/spidev0.0]}]
""",
        {
            "hat": (
                Expected(
                    {"path": "/dev/i2c-1"},
                    (Given("/dev/i2c-1"), Given("/dev/gpiochip0"), Given("/dev/spidev0.0")),
                ),
            )
        },
    ),
    Case(
        "nothing is plugged in, and hubs are no devices by class of what is",
        """
  - name: example.com/stick
    devices: [{usb: {class: "ff"}}]
""",
        {"stick": ()},
    ),
)
