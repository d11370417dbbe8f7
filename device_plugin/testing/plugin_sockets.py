"""Finding plugins' sockets below plugins_registry, and telling old ones from new ones (A15)."""

import contextlib
import itertools
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(slots=True)
class _Socket:
    """A file that was found; the handle keeps its inode's number from being used again."""

    number: int
    handle: int | None  # None: it was renamed away

    def close(self) -> None:
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None

    def is_at(self, path: str) -> bool:
        if self.handle is None:
            return False
        try:
            return os.path.samestat(os.lstat(path), os.fstat(self.handle))
        except OSError:
            return False

    def is_removed(self) -> bool:
        """Whether the file is gone; one that was renamed away has a name still."""
        return self.handle is not None and os.fstat(self.handle).st_nlink == 0


class PluginSockets:
    """Looks at a folder and all below it.

    Names with a dot in front do not count, be it of sockets or of folders; but the start, and the
    look into a new folder, take folders as they come. A socket that is renamed away stays.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._folders: set[str] = set()
        self._known: dict[str, _Socket] = {}
        self._numbers = itertools.count(1)

    def look(self) -> dict[str, int]:
        """Return the sockets by path, each with a number: a socket made anew has a new one."""
        before, self._folders = self._folders, {self._root}
        for path in list(self._walk(self._root, before)):
            known = self._known.get(path)
            if known is None or not known.is_at(path):
                self._take(path)
        for path, known in list(self._known.items()):
            if known.is_at(path):
                continue
            if known.is_removed():
                del self._known[path]
            known.close()
        return {path: known.number for path, known in self._known.items()}

    def close(self) -> None:
        for known in self._known.values():
            known.close()
        self._known.clear()
        self._folders.clear()

    def _take(self, path: str) -> None:
        try:
            handle = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return  # gone already
        if path in self._known:
            self._known[path].close()
        self._known[path] = _Socket(next(self._numbers), handle)

    def _walk(self, folder: str, before: set[str]) -> Iterator[str]:
        """Yield the paths of sockets; `before`: the folders that were watched at the last look."""
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                hidden = entry.name.startswith(".")
                if entry.is_dir(follow_symlinks=False):
                    if hidden and entry.path not in before and folder in before:
                        continue
                    self._folders.add(entry.path)
                    yield from self._walk(entry.path, before)
                elif not hidden and _is_socket(entry.path):
                    yield entry.path


def _is_socket(path: str) -> bool:
    """Whether it is a socket, or a link to one."""
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False
