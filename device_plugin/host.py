"""The one seam to the host's /dev and /sys.

All paths in and out are the host's own (`/dev/fuse`); `Host(root)` knows where this process sees
them (`/host/dev/fuse`). Links resolve inside the root, as the host itself would follow them.
"""

import errno
import os
import stat
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

_T = TypeVar("_T")

_MAX_LINKS = 40  # the kernel's own bound, path_resolution(7)
_MAX_ATTRIBUTE = 4096  # bytes; the kernel's own bound of a file in sysfs, but for binary ones
_READ_ONLY = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_DRIVERS = "/proc/driver/"
_NO_EVENTS = "/sys"  # inotify says nothing of what the kernel changes there
_NODES = {stat.S_IFCHR: "c", stat.S_IFBLK: "b"}
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFREG: "a regular file",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
}


class Unusable(Exception):  # noqa: N818 - it is an answer, not a failure
    """Why a path does not lead to what was asked for; the text completes "PATH ..."."""

    path = ""  # the one that was asked for


class Absent(Unusable):
    """Nothing there: not even a link that leads nowhere."""


class Entry(msgspec.Struct, frozen=True):
    """What a path leads to once every link is followed."""

    path: str  # as asked for
    real: str  # after all links, still the host's path
    mode: int
    number: str  # "c 188:0", "b 7:3"; empty for anything that is no device node

    @property
    def is_node(self) -> bool:
        return bool(self.number)

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def by_link(self) -> bool:
        """Whoever follows the path later gets what it leads to by then."""
        return self.path != self.real

    @property
    def kind(self) -> str:
        if self.number:
            return "a block device" if stat.S_ISBLK(self.mode) else "a character device"
        return _KINDS.get(stat.S_IFMT(self.mode), "no device node")


class Host:
    """Where this process sees the host's paths."""

    def __init__(self, root: str = "/") -> None:
        self._root = "" if root == "/" else os.path.abspath(root).rstrip("/")

    def local(self, path: str) -> str:
        """`path` of the host, as this process can open it.

        What /proc says of drivers is the same for every process, so a root may do without.
        """
        if self._root and path.startswith(_DRIVERS) and not os.path.isdir(self._root + _DRIVERS):
            return path
        return self._root + path

    def sees(self, path: str) -> bool:
        """Whether absence here means absence on the host: under a root only /dev and /sys are."""
        return not self._root or path.startswith(("/dev/", "/sys/"))

    def node(self, path: str) -> tuple[str, int]:
        """Number and inode of the device node that stands at `path` itself; ("", 0) for all else.

        A node that went and came back has another inode (devtmpfs), if maybe the same number.
        """
        try:
            status = os.lstat(self._root + path)
        except OSError:
            return "", 0
        number = _number(status)
        return (number, status.st_ino) if number else ("", 0)

    def look(self) -> "Look":
        return Look(self)


class Look:
    """One pass over the host: reads each thing once, and remembers where it looked.

    `folders` holds the folders (real host paths) in which a change could alter any answer given:
    exactly these need watching. A folder that does not exist yet is represented by its nearest
    existing ancestor, because that is where the search failed. Not among them: the folders above,
    which take these along unnoticed when they are renamed (udev does not, and there is the audit).
    Nor those of /sys: no watch says what changes there; kernel uevents do, and the audit.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.folders: set[str] = set()
        self._kept: dict[str, Any] = {}  # by the keys of `once`
        self._ends: dict[str, Entry | Unusable] = {}  # by path as asked for
        self._steps: dict[str, Entry] = {}  # by real path, links followed

    def once(self, key: str, make: Callable[[], _T]) -> _T:
        """What `make` comes to, made once a look; a key begins with the kind that it is for."""
        if key not in self._kept:
            self._kept[key] = make()
        kept: _T = self._kept[key]
        return kept

    def entry(self, path: str) -> Entry:
        """Follow `path` to its end.

        Raises Unusable with the reason where it leads nowhere.
        """
        entry = self._end(path)
        self.watch(os.path.dirname(entry.real))
        return entry

    def names(self, folder: str) -> list[str]:
        """The names in `folder`, unsorted.

        Raises Unusable where it is no folder, or not readable.
        """
        if not self._end(folder).is_folder:
            raise _at(folder, Unusable(f"is {self.entry(folder).kind}, not a folder"))
        real = self._end(folder).real
        self.watch(real)
        try:
            return os.listdir(self.host.local(real))
        except OSError as error:
            raise _at(folder, _unusable(error)) from None

    def watch(self, folder: str) -> None:
        """Note that a change in `folder`, a real one, could alter an answer."""
        if not f"{folder}/".startswith(f"{_NO_EVENTS}/"):
            self.folders.add(folder)

    def read(self, path: str) -> str:
        """What an attribute in sysfs says: one line of printable text, stripped; `path` is real.

        Raises Unusable where it cannot be read.
        """
        return printable(self._bytes(path))

    def lines(self, path: str) -> list[str]:
        """The same for an attribute of several lines."""
        return [printable(line) for line in self._bytes(path).splitlines()]

    def link(self, path: str) -> str:
        """What a link in sysfs says; `path` is real but for its end.

        Raises Unusable where there is no link.
        """
        try:
            return os.readlink(self.host.local(path))
        except OSError as error:
            raise _at(path, _unusable(error)) from None

    def subfolders(self, folder: str) -> list[str]:
        """The names of the folders in a folder of sysfs, but for links; `folder` is real.

        Raises Unusable where it is not there, or not readable.
        """
        try:
            with os.scandir(self.host.local(folder)) as entries:
                return [one.name for one in entries if one.is_dir(follow_symlinks=False)]
        except OSError as error:
            raise _unusable(error) from None

    def _bytes(self, path: str) -> bytes:
        try:
            file = os.open(self.host.local(path), _READ_ONLY)
            try:
                return os.read(file, _MAX_ATTRIBUTE)
            finally:
                os.close(file)
        except OSError as error:
            raise _at(path, _unusable(error)) from None

    def _end(self, path: str) -> Entry:
        end = self._ends.get(path)
        if end is None:
            try:
                end = msgspec.structs.replace(self._walk(path, "/", _MAX_LINKS), path=path)
            except Unusable as why:
                end = _at(path, why)
            self._ends[path] = end
        if isinstance(end, Unusable):
            raise end.with_traceback(None)
        return end

    def _walk(self, path: str, start: str, links_left: int) -> Entry:
        """Go component by component, as the kernel does; `start` is a real folder."""
        at = _folder("/" if path.startswith("/") else start)
        for name in path.split("/"):
            if not at.is_folder:
                self.watch(os.path.dirname(at.real))
                raise Absent("does not exist")
            if name == "..":
                at = _folder(os.path.dirname(at.real))
            elif name not in ("", "."):
                real = f"{at.real}/{name}" if at.real != "/" else f"/{name}"
                if real not in self._steps:
                    self._steps[real] = self._step(at.real, real, links_left)
                at = self._steps[real]
        return at

    def _step(self, folder: str, real: str, links_left: int) -> Entry:
        local = self.host.local(real)
        try:
            status = os.lstat(local)
            target = os.readlink(local) if stat.S_ISLNK(status.st_mode) else ""
        except OSError as error:
            self.watch(folder)
            raise _unusable(error) from None
        except ValueError:  # a NUL, or text that is no file name in bytes
            raise Unusable("cannot be a path") from None
        if not target:
            return Entry(real, real, status.st_mode, _number(status))
        self.watch(folder)
        if not links_left:
            raise Unusable("is a link cycle")
        try:
            return self._walk(target, folder, links_left - 1)
        except Absent:
            aim = os.path.normpath(os.path.join(folder, target))
            raise Unusable(f"is a link to {shown(aim)}, which does not exist") from None


def printable(data: bytes) -> str:
    """Bytes that anybody may have written, as text: what cannot be read or shown is left out."""
    text = data.decode(errors="ignore").strip()
    if text.isprintable():
        return text
    return "".join(char for char in text if char.isprintable()).strip()


def shown(path: str) -> str:
    """A path for people to read: whoever names files must not write into logs and messages."""
    return path if path.isprintable() else ascii(path)


def _folder(real: str) -> Entry:
    return Entry(real, real, stat.S_IFDIR, "")


def _number(status: os.stat_result) -> str:
    kind = _NODES.get(stat.S_IFMT(status.st_mode))
    return f"{kind} {os.major(status.st_rdev)}:{os.minor(status.st_rdev)}" if kind else ""


def _at(path: str, why: Unusable) -> Unusable:
    why.path = path
    return why


def _unusable(error: OSError) -> Unusable:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return Absent("does not exist")
    return Unusable(f"cannot be looked at: {error.strerror}")
