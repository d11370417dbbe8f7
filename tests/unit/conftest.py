"""What the tests of the parts share: a made-up /dev that needs no root, and short makers."""

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import settings

from device_plugin.device import Device, Node
from device_plugin.host import Host

# Machines that run tests are busy: time says nothing there. Whether a change lands must not depend
# on what is drawn that day; `make search` draws anew, and more.
settings.register_profile("parts", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile("parts")

_MAJOR = 188


class Tree:
    """A host root below a temporary folder; paths are the host's."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.host = Host(str(root))

    def at(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def node(self, path: str, minor: int = 0) -> str:
        """Make a character device 188:`minor`; to everybody but Host it is a sticky file."""
        self.file(path)
        os.truncate(self.at(path), minor)
        self.at(path).chmod(0o644 | stat.S_ISVTX)
        return path

    def file(self, path: str) -> str:
        self.folder(os.path.dirname(path))
        self.at(path).touch()
        return path

    def folder(self, path: str) -> str:
        self.at(path).mkdir(parents=True, exist_ok=True)
        return path

    def link(self, path: str, target: str) -> str:
        self.folder(os.path.dirname(path))
        self.at(path).symlink_to(target)
        return path


class _Kernel:
    """`os` in which sticky regular files are device nodes."""

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    @staticmethod
    def lstat(path: str) -> os.stat_result | SimpleNamespace:
        status = os.lstat(path)
        if not (stat.S_ISREG(status.st_mode) and status.st_mode & stat.S_ISVTX):
            return status
        number = os.makedev(_MAJOR, status.st_size)
        mode = stat.S_IFCHR | 0o600
        return SimpleNamespace(st_mode=mode, st_rdev=number, st_ino=status.st_ino)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    monkeypatch.setattr("device_plugin.host.os", _Kernel())
    return Tree(tmp_path)


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A short path: unix sockets have 107 bytes for theirs."""
    with tempfile.TemporaryDirectory(prefix="u", dir="/tmp") as path:
        yield Path(path)


@pytest.fixture
def make_device():
    """A device with plain nodes at the given paths."""

    def make(id_: str, *paths: str, **rest: Any) -> Device:
        return Device(id_, tuple(Node(path) for path in paths), **rest)

    return make
