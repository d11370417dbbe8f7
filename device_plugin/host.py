"""The one seam to the host's /dev and /sys.

All paths in and out are the host's own (`/dev/fuse`); `Host(root)` knows where this process sees
them (`/host/dev/fuse`). Links resolve inside the root, as the host itself would follow them.
"""

import errno
import os
import stat
from dataclasses import dataclass

_MAX_LINKS = 40  # the kernel's own bound, path_resolution(7)
_MAX_DEPTH = 100
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFREG: "a regular file",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
}


class Unusable(Exception):  # noqa: N818 - it is an answer, not a failure
    """Why a path does not lead to what was asked for; the text completes "PATH ..."."""


class Absent(Unusable):
    """Nothing there: not even a link that leads nowhere."""


@dataclass(frozen=True, slots=True)
class Entry:
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
        """`path` of the host, as this process can open it."""
        return self._root + path

    def sees(self, path: str) -> bool:
        """Whether absence here means absence on the host: under a root only /dev and /sys are."""
        return not self._root or path.startswith(("/dev/", "/sys/"))

    def look(self) -> "Look":
        return Look(self)


class Look:
    """One pass over the host: reads each thing once, and remembers where it looked.

    `folders` holds the folders (real host paths) in which a change could alter any answer given:
    exactly these need watching. A folder that does not exist yet is represented by its nearest
    existing ancestor, because that is where the search failed.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.folders: set[str] = set()
        self._entries: dict[str, Entry | Unusable] = {}
        self._parents: dict[str, str] = {}

    def entry(self, path: str) -> Entry:
        """Follow `path` to its end.

        Raises Unusable with the reason where it leads nowhere.
        """
        found = self._entries.get(path)
        if found is None:
            try:
                found = self._follow(path, _MAX_LINKS)
            except Unusable as why:
                found = why
            self._entries[path] = found
        if isinstance(found, Unusable):
            raise found.with_traceback(None)
        return found

    def names(self, folder: str) -> list[str]:
        """The names in `folder`, unsorted.

        Raises Unusable where it is no folder, or not readable.
        """
        entry = self.entry(folder)
        if not entry.is_folder:
            raise Unusable(f"is {entry.kind}, not a folder")
        self.folders.add(entry.real)
        try:
            return os.listdir(self.host.local(entry.real))
        except OSError as error:
            raise _unusable(error) from None

    def _follow(self, path: str, links_left: int) -> Entry:
        parent, name = os.path.split(path)
        if not name:
            return Entry(path, "/", stat.S_IFDIR, "")
        if path.count("/") > _MAX_DEPTH:
            raise Unusable("is nested too deep")
        folder = self._parent(parent, links_left)
        real = os.path.join(folder, name)
        try:
            status = os.lstat(self.host.local(real))
            if stat.S_ISLNK(status.st_mode):
                self.folders.add(folder)
                target = os.readlink(self.host.local(real))
                return self._follow_link(path, folder, target, links_left)
        except OSError as error:
            self.folders.add(folder)
            raise _unusable(error) from None
        if not stat.S_ISDIR(status.st_mode):
            self.folders.add(folder)
        return Entry(path, real, status.st_mode, _number(status))

    def _parent(self, path: str, links_left: int) -> str:
        real = self._parents.get(path)
        if real is None:
            real = self._parents[path] = self._follow(path, links_left).real
        return real

    def _follow_link(self, path: str, folder: str, target: str, links_left: int) -> Entry:
        if not links_left:
            raise Unusable("is a link cycle")
        aim = os.path.normpath(os.path.join(folder, target))
        try:
            end = self._follow(aim, links_left - 1)
        except Absent:
            raise Unusable(f"is a link to {aim}, which does not exist") from None
        return Entry(path, end.real, end.mode, end.number)


def _number(status: os.stat_result) -> str:
    kind = {stat.S_IFCHR: "c", stat.S_IFBLK: "b"}.get(stat.S_IFMT(status.st_mode))
    return f"{kind} {os.major(status.st_rdev)}:{os.minor(status.st_rdev)}" if kind else ""


def _unusable(error: OSError) -> Unusable:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return Absent("does not exist")
    return Unusable(f"cannot be looked at: {error.strerror}")
