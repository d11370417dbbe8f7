"""The file itself: read within bounds, and made text."""

import os
import stat
from pathlib import Path

from device_plugin.config.compose import SIZE_LIMIT
from device_plugin.config.problem import Refused

_KINDS = (
    (stat.S_ISDIR, "this is a folder; name the file in it"),
    (stat.S_ISFIFO, "this is a pipe, not a file"),
    (stat.S_ISSOCK, "this is a socket, not a file"),
    (stat.S_ISCHR, "this is a device, not a file"),
    (stat.S_ISBLK, "this is a device, not a file"),
)


def load(path: Path) -> bytes:
    """Read a regular file, and not more than the limit and one byte; or raise Refused."""
    try:
        # To open a pipe waits for somebody, to open a device may do anything: look first.
        _regular(path.stat().st_mode)
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            _regular(os.fstat(descriptor).st_mode)
            return file.read(SIZE_LIMIT + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise Refused(f"cannot read the file: {reason}") from None


def _regular(mode: int) -> None:
    for is_kind, message in _KINDS:
        if is_kind(mode):
            raise Refused(message)


def to_text(data: bytes) -> str:
    if len(data) > SIZE_LIMIT:
        raise Refused("the file is larger than 1 MiB")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Refused("the file is UTF-16; save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        bad, before = error.object[error.start], error.object[: error.start]
        row = before.rpartition(b"\n")[2].decode(errors="replace")
        raise Refused(
            f"not UTF-8: byte 0x{bad:02x} at offset {error.start}; save the file as UTF-8",
            (before.count(b"\n") + 1, len(row) + 1),
        ) from None
