"""What can be wrong with a file, folder or link of a machine: `machine.spoil(path, fault)`."""

import os

from tests.unit.hosts.kernel import Entry, File, Gone, Link
from tests.unit.hosts.machine import Fault


def missing(path: str, entry: Entry) -> None:
    """It is not there."""


def empty(path: str, entry: Entry) -> Entry:
    return File(b"")


def unreadable(path: str, entry: Entry) -> Entry:
    """Whoever reads it gets an error, root as well: a driver may say so."""
    return File(b"", 0o200)


def vanishing(path: str, entry: Entry) -> Entry:
    """Its folder lists it, but it is gone when one looks."""
    return Gone()


def dangling(path: str, entry: Entry) -> Entry:
    return Link("../no/such/thing")


def circular(path: str, entry: Entry) -> Entry:
    return Link(os.path.basename(path))


def upwards(path: str, entry: Entry) -> Entry:
    """A link to the folder that it is in: below it everything is again."""
    return Link(".")


def holds(data: bytes) -> Fault:
    """It says something else."""

    def fault(path: str, entry: Entry) -> Entry:
        return File(data)

    return fault


def leads_to(target: str) -> Fault:
    """It is a link to somewhere else."""

    def fault(path: str, entry: Entry) -> Entry:
        return Link(target)

    return fault


binary = holds(bytes(range(256)))
huge = holds(b"9" * 3_000_000)

# What devices were seen to say of themselves, and what one could say to do harm. The kernel turns
# their UTF-16 into UTF-8 and leaves it at that: sysfs has what a device says, line ends and all.
STRINGS = {
    "control characters": "\x1b[2J\x1b[31mred\x07\x08\x7f",
    "line ends": "one\ntwo\r\nPATH=/evil\n\n",
    "quotes": "\"'`$(reboot)`'\"; $HOME \\",
    "placeholders": "{id}{attribute.serial}{{}}%s",
    "paths": "../../../etc/shadow",
    "nonsense": "".join(chr(0x4E00 + 89 * n % 20_000) for n in range(126)),
    "lone surrogates": b"\xed\xa0\x80\xed\xbf\xbf".decode("utf-8", "surrogateescape"),
    "255 bytes": "\u00ff\u200b\u202e" * 36,
    "white space": " \t  \u00a0 ",
    "separators": "a,b=c:d/e",
}
