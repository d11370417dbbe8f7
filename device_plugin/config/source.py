"""The files of a config: read within bounds, and made text."""

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from device_plugin.config.compose import SIZE_LIMIT
from device_plugin.config.problem import Refused

ENDINGS = (".yaml", ".yml")
_FILE_LIMIT = 100  # files of a folder
_READINGS = 10  # of a folder that changes meanwhile
_KINDS = (
    (stat.S_ISDIR, "this is a folder; move its files up, or rename it"),
    (stat.S_ISFIFO, "this is a pipe, not a file"),
    (stat.S_ISSOCK, "this is a socket, not a file"),
    (stat.S_ISCHR, "this is a device, not a file"),
    (stat.S_ISBLK, "this is a device, not a file"),
)


class Source(NamedTuple):
    """One file as it was read, or why it could not be."""

    name: str
    data: bytes = b""
    problem: str = ""


def load(path: Path) -> tuple[Source, ...]:
    """Read a file, or those of a folder that are a config, in name order.

    A folder is read until two readings agree: a ConfigMap is swapped as a whole, but not while its
    links are followed one after the other.
    """
    if not os.path.isdir(path):
        return (_file(path, SIZE_LIMIT),)
    before: tuple[Source, ...] = ()
    now = tuple(_folder(path))
    for _ in range(_READINGS):
        if now == before:
            break
        before, now = now, tuple(_folder(path))
    return now


def fingerprint(sources: Sequence[Source]) -> str:
    """Of one file the SHA-256 of its bytes, else of names and bytes; of a problem, of its text."""
    first = sources[0]
    if len(sources) == 1 and not first.problem:
        return hashlib.sha256(first.data).hexdigest()
    digest = hashlib.sha256()
    for source in sources:
        name = os.path.basename(source.name)
        for part in (os.fsencode(name), source.data, os.fsencode(source.problem)):
            digest.update(b"%d:%s" % (len(part), part))
    return digest.hexdigest()


def _folder(path: Path) -> Iterator[Source]:
    try:
        names = sorted(n for n in os.listdir(path) if n.endswith(ENDINGS) and n[0] != ".")
    except OSError as error:
        yield Source(str(path), problem=f"cannot read the folder: {error.strerror}")
        return
    if not names:
        yield Source(str(path), problem="the folder holds no file that ends in .yaml or .yml")
    if len(names) > _FILE_LIMIT:
        message = f"the folder holds {len(names)} files; at most {_FILE_LIMIT} are read"
        yield Source(str(path), problem=message)
        return
    left = SIZE_LIMIT
    for name in names:
        source = _file(path / name, left)
        left -= len(source.data)
        if left < 0 and len(names) > 1:
            message = "the files of the folder are larger than 1 MiB together"
            yield Source(str(path), problem=message)
            return
        yield source


def _file(path: Path, limit: int) -> Source:
    """Read a regular file, and not more than the limit and one byte."""
    try:
        # To open a pipe waits for somebody, to open a device may do anything: look first.
        _regular(path.stat().st_mode)
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            _regular(os.fstat(descriptor).st_mode)
            return Source(str(path), file.read(limit + 1))
    except Refused as refused:
        return Source(str(path), problem=str(refused))
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        return Source(str(path), problem=f"cannot read the file: {reason}")


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
