"""The driver's two sockets in the kubelet's folders: made, watched over, removed.

The one that serves is made first; the kubelet finds the other, which names it, and registers the
driver. Each pair has names of its own, so that two instances can be there at once, and that the
kubelet's back-off, which is a path's, never meets a new socket. What is gone from the second folder
is deregistered.
"""

import contextlib
import os
import re
import secrets
import stat
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import grpc

from device_plugin.listener import PATH_LIMIT, Listener, is_dead, promised

PLUGINS, REGISTRY = "plugins", "plugins_registry"
_EIGHT = "[0-9a-f]{8}"
_FOLDER_MODE = 0o750

_T = TypeVar("_T")
Add = Callable[[grpc.Server], None]  # gives a server what it serves


class Folders:
    """Where a driver's sockets are; the same paths for the kubelet and for us."""

    def __init__(self, kubelet_root: Path, driver: str) -> None:
        self.registry = kubelet_root / REGISTRY
        self.plugins = kubelet_root / PLUGINS
        self.serving = self.plugins / driver
        self._driver = driver

    def new(self) -> tuple[Path, Path]:
        """Two new paths: of the socket that serves, and of the one that registers."""
        token = secrets.token_hex(4)
        return (
            self.serving / f"dra-{token}.sock",
            self.registry / f"{self._driver}-{token}-reg.sock",
        )

    def make(self) -> None:
        """Raises OSError, with what to do, where there can be no sockets."""
        for folder in (self.registry, self.plugins):
            if not folder.is_dir():
                raise OSError(
                    f"{folder} does not exist: is the kubelet's folder mounted, and the right one?"
                )
        if self.serving.exists() and not self.serving.is_dir():
            raise OSError(f"{self.serving} is no folder: remove it from the node")
        try:
            self.serving.mkdir(_FOLDER_MODE, exist_ok=True)
        except OSError as error:
            raise OSError(f"cannot make {self.serving}: {error.strerror}: run as root") from None
        for folder in (self.registry, self.serving):
            if not os.access(folder, os.W_OK | os.X_OK):
                raise OSError(f"{folder} is not writable: run as root, and mount it writable")

    def remove_leftovers(self) -> list[str]:
        """Remove this driver's sockets at which nobody answers; returns their names."""
        ours = {
            self.registry: re.compile(rf"{re.escape(self._driver)}-{_EIGHT}-reg\.sock"),
            self.serving: re.compile(rf"dra-{_EIGHT}\.sock"),
        }
        removed = []
        for folder, name in ours.items():
            for path in sorted(folder.glob("*.sock")):
                with contextlib.suppress(OSError):  # gone meanwhile, or not ours to remove
                    is_ours = name.fullmatch(path.name) and stat.S_ISSOCK(path.lstat().st_mode)
                    if is_ours and is_dead(path):
                        path.unlink()
                        removed.append(path.name)
        return removed


class _Threads(Executor):
    """A thread a call; the process ends without them, for the API server may hang."""

    def submit(self, fn: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]:  # noqa: ANN401
        future, run = promised(partial(fn, *args, **kwargs))
        try:
            threading.Thread(target=run, name="dra call", daemon=True).start()
        except RuntimeError as error:  # raised, it would end the thread in which gRPC takes calls
            future.set_exception(error)
        return future


def listen(path: Path, add: Add, calls: int) -> Listener:
    """Serve so many calls at once, each on a thread of its own. Raises OSError."""
    if (over := len(os.fsencode(path)) - PATH_LIMIT) > 0:
        raise OSError(f"{path} is {over} bytes too long for a unix socket: shorten dra.driver")
    return Listener(path, add, _Threads(), calls)
