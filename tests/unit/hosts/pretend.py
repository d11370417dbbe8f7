"""What a test cannot make on disk: device nodes without root, errors, and devices that vanish."""

import contextlib
import errno
import os
import random
import stat
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.unit.hosts.kernel import File, Node
from tests.unit.hosts.machine import Machine

_TYPES = {"c": stat.S_IFCHR, "b": stat.S_IFBLK}
_READABLE = 0o400


def real_node(path: Path, node: Node) -> None:
    """Needs root."""
    os.mknod(path, _TYPES[node.letter] | 0o600, os.makedev(node.major, node.minor))


def pretended_node(path: Path, node: Node) -> None:
    """An empty file, which is a device node through a `System`."""
    path.touch()


def can_make_nodes(folder: Path) -> bool:
    """Whether this process may make device nodes; containers often may not, even as root."""
    try:
        real_node(folder / "null", Node("c", 1, 3))
    except PermissionError:
        return False
    (folder / "null").unlink()
    return True


class System:
    """`os` as a process on the machine would have it.

    With a seed it lists folders in an order by chance: the kernel promises none.
    """

    def __init__(self, machine: Machine, seed: int | None = None) -> None:
        self._machine = machine
        self._chance = None if seed is None else random.Random(seed)  # noqa: S311 - no secret

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def _host_path(self, path: str) -> str:
        return str(path).removeprefix(str(self._machine.root)) or "/"

    def lstat(self, path: str) -> os.stat_result | SimpleNamespace:
        status = os.lstat(path)
        node = self._machine.at(self._host_path(path))
        if not isinstance(node, Node):
            return status
        number = os.makedev(node.major, node.minor)
        return SimpleNamespace(st_mode=_TYPES[node.letter] | 0o600, st_rdev=number)

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        """Sysfs says EIO where there is nothing to read, to root as well."""
        entry = self._machine.at(self._host_path(path))
        if isinstance(entry, File) and not entry.mode & _READABLE:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return os.open(path, flags, mode)

    def listdir(self, path: str) -> list[str]:
        return self._mixed([*os.listdir(path), *self._vanished(path)])

    @contextlib.contextmanager
    def scandir(self, path: str) -> Iterator[Iterator[Any]]:
        with os.scandir(path) as entries:
            gone = [_Vanished(name) for name in self._vanished(path)]
            yield iter(self._mixed([*entries, *gone]))

    def _mixed(self, listed: list[Any]) -> list[Any]:
        if self._chance:
            self._chance.shuffle(listed)
        return listed

    def _vanished(self, path: str) -> list[str]:
        folder = self._host_path(path).rstrip("/")
        names = (os.path.split(gone) for gone in self._machine.gone())
        return [name for where, name in names if where == folder]


class _Vanished:
    """An entry of a folder: its type is known, for that was read with its name."""

    def __init__(self, name: str) -> None:
        self.name = name

    @staticmethod
    def is_dir(*, follow_symlinks: bool = True) -> bool:
        return not follow_symlinks
