"""The language that machines are described in: one device a line, its children indented below.

    iommu DMA-FQ
    pci0000:00 numa=0
      00:14.0 8086:a36d 0c0330 xhci_hcd
        usb1 480
          1-4 05e3:0608 hub product="USB2.0 Hub"
            1-4.1 0403:6001 manufacturer=FTDI product="FT232R USB UART" serial=A10KZP3U
              1.0 ff/ff/ff ftdi_sio
                ttyUSB0

The first word is the name that the kernel gives the device; the text has the shape of /sys/devices.
Where a name says too little, the subsystem stands before it: `drm/card0`, `sound/card1`.
Further words depend on what it is:

    PCI function      VENDOR:DEVICE CLASS [DRIVER]   numa= group= sub=VENDOR:DEVICE physfn= sriov=
    USB root hub      [SPEED]                        480 if left out; 5000 is USB 3
    USB device        VENDOR:PRODUCT [hub]           manufacturer= product= serial= class= devnum=
    USB interface     CLASS/SUBCLASS/PROTOCOL [DRIVER]
    any other device  [DRIVER]

`dev=188:0` is the number of a node where the name does not say it. What has a key in small letters
that is none of these is an attribute, a file of that name; one in capitals stands in `uevent`.
Lines of other meaning: `node0 0-19` (CPUs), `iommu TYPE`, `udev VERSION`, `vfio group cdev`.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

_OPTION = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_SHORT_ADDRESS = re.compile(r"[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_SHORT_INTERFACE = re.compile(r"\d+\.\d+")
_USB_DEVICE = re.compile(r"\d+-\d[0-9.]*")
_STATEMENT = re.compile(r"iommu|udev|vfio|node\d+")


@dataclass(eq=False)
class Thing:
    """A device as it is described; two are never equal."""

    name: str
    subsystem: str = ""  # where the description says it
    words: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    children: list[Self] = field(default_factory=list)
    parent: Self | None = None
    hidden: bool = False  # the driver that made it let go
    driver: str | None = None  # other than described; "" for none

    def walk(self) -> Iterator[Self]:
        """Itself and all below that is there, parents first."""
        if not self.hidden:
            yield self
            for child in self.children:
                yield from child.walk()

    def above(self) -> Iterator[Self]:
        """The parent, its parent and so on."""
        if self.parent is not None:
            yield self.parent
            yield from self.parent.above()

    def adopt(self, child: Self) -> None:
        child.parent = self
        self.children.append(child)

    def word(self, index: int) -> str:
        return self.words[index] if index < len(self.words) else ""


@dataclass
class Description:
    """What a text describes."""

    things: list[Thing] = field(default_factory=list)
    statements: dict[str, list[str]] = field(default_factory=dict)
    devnums: dict[int, int] = field(default_factory=dict)  # the last one given, by USB bus

    def walk(self) -> Iterator[Thing]:
        """All that is there, parents first."""
        for thing in self.things:
            yield from thing.walk()


def parse(text: str) -> Description:
    """Read a description. Raises ValueError for a line that hangs on nothing."""
    found = Description()
    open_: list[tuple[int, Thing]] = []  # by indentation, the innermost last
    least = min(_indent(line) for line in text.splitlines() if line.strip())
    for number, line in enumerate(text.splitlines(), 1):
        words = shlex.split(line, comments=True)
        if not words:
            continue
        indent = _indent(line)
        while open_ and open_[-1][0] >= indent:
            open_.pop()
        if indent == least and _STATEMENT.fullmatch(words[0]):
            found.statements[words[0]] = words[1:]
            continue
        if not open_ and indent > least:
            raise ValueError(f"line {number} hangs on nothing: {line.strip()}")
        thing = _thing(words, open_[-1][1] if open_ else None)
        if not open_:
            found.things.append(thing)
        open_.append((indent, thing))
    return found


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _thing(words: list[str], parent: Thing | None) -> Thing:
    subsystem, _, name = words[0].rpartition("/")
    if _SHORT_ADDRESS.fullmatch(name):
        name = f"0000:{name}"
    elif parent and _USB_DEVICE.fullmatch(parent.name) and _SHORT_INTERFACE.fullmatch(name):
        name = f"{parent.name}:{name}"
    thing = Thing(name, subsystem)
    for word in words[1:]:
        option = _OPTION.fullmatch(word)
        if option:
            thing.options[option[1]] = option[2]
        else:
            thing.words.append(word)
    if parent:
        parent.adopt(thing)
    return thing
