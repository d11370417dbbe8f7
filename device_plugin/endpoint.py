"""A plugin's socket in the kubelet's device-plugins folder: made, watched over, removed.

A socket name is never used twice, and a socket is named in one Register call at most: kubelets
tell the clients of a resource apart by it, and a server that stops removes whatever has its path
by then.
"""

import contextlib
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from device_plugin._api.deviceplugin.v1beta1 import deviceplugin_pb2_grpc as pb_grpc
from device_plugin.listener import PATH_LIMIT, Listener, identity, is_dead, promised, refusal
from device_plugin.plugin import MAX_STREAMS, Plugin

_T = TypeVar("_T")

KUBELET_SOCKET = "kubelet.sock"
PREFIX = "py-device-plugin-"
SUFFIX = ".sock"
_TOKEN_BYTES = 4
_DIGEST = 6  # characters that tell resources with the same readable part apart
_READABLE = 30  # characters of the resource's name that help a reader of the folder
_CALLS = 4  # threads beside those that streams hold
_MAX_RPCS = 64  # served and waiting; more are turned away
_GRACE = 0.3  # seconds for calls in flight when a server stops


def socket_name(folder: Path, resource: str) -> str:
    """A new name for a socket of `resource`.

    Raises OSError if the folder's path leaves no room for one.
    """
    return f"{_stem(folder, resource)}{secrets.token_hex(_TOKEN_BYTES)}{SUFFIX}"


def _stem(folder: Path, resource: str) -> str:
    """What all names for `resource` begin with, and no other resource's."""
    digest = hashlib.sha256(resource.encode()).hexdigest()[:_DIGEST]
    length = len(f"/{PREFIX}-{digest}-{SUFFIX}") + 2 * _TOKEN_BYTES
    room = PATH_LIMIT - len(os.fsencode(folder)) - length
    if room < 0:
        raise OSError(f"the path {folder} is {-room} bytes too long for a unix socket in it")
    readable = re.sub(r"[^A-Za-z0-9]+", "-", resource.partition("/")[2])
    return f"{PREFIX}{readable[: min(room, _READABLE)]}-{digest}-"


def why_unreachable(path: Path) -> str:
    """What a plain connection says; gRPC calls everything unavailable."""
    match refusal(path):
        case None:
            return "it took the call but did not answer: is a kubelet there?"
        case PermissionError():
            return "permission denied: run as root, or as a user who may connect to it"
    return "nobody answers there: the kubelet is down or starting"


def remove_leftovers(folder: Path) -> list[str]:
    """Remove sockets with our prefix at which nobody answers; returns their names."""
    removed = []
    for path in folder.glob(f"{PREFIX}*{SUFFIX}"):
        with contextlib.suppress(OSError):  # gone meanwhile, or not ours to remove
            if stat.S_ISSOCK(path.lstat().st_mode) and is_dead(path):
                path.unlink()
                removed.append(path.name)
    return removed


class _Threads(ThreadPoolExecutor):
    """Threads for calls; where none can be started, a call waits for one that is there.

    An exception would end the thread in which gRPC takes calls, and every later one would hang.
    """

    def submit(self, fn: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]:  # noqa: ANN401 - as Executor
        future, run = promised(partial(fn, *args, **kwargs))
        with contextlib.suppress(RuntimeError):  # by then it is in the queue
            super().submit(run)
        return future


class Endpoint:
    """A plugin's server on a socket of its own, serving from construction to `stop`."""

    def __init__(self, folder: Path, plugin: Plugin) -> None:
        """Raises OSError, with what to do, where no socket can be made."""
        self.plugin = plugin
        self.spent = False  # once a Register call has named it
        self.name = socket_name(folder, plugin.resource)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise OSError(_unusable(folder))
        self._threads = _Threads(MAX_STREAMS + _CALLS, thread_name_prefix=plugin.resource)
        add = partial(pb_grpc.add_DevicePluginServicer_to_server, plugin)
        self._listener = Listener(folder / self.name, add, self._threads, _MAX_RPCS)

    @property
    def is_there(self) -> bool:
        """Whether the socket file is still there and still ours."""
        return self._listener.is_there

    def successors(self) -> list[Path]:
        """The sockets that were made for the same resource after this one, by other processes."""
        if self._listener.identity is None:
            return []
        _, _, made = self._listener.identity
        return [path for path in self._alike() if (theirs := identity(path)) and theirs[2] > made]

    def rivals(self) -> list[Path]:
        """The sockets of other processes for the same resource, at which somebody answers."""
        return [
            path for path in self._alike() if path != self._listener.path and refusal(path) is None
        ]

    def _alike(self) -> Iterator[Path]:
        folder = self._listener.path.parent
        return folder.glob(f"{_stem(folder, self.plugin.resource)}*{SUFFIX}")

    def stop(self) -> None:
        """End the streams, see their RPCs finish, then close and remove the socket."""
        self.plugin.end_streams()
        self.plugin.wait_for_streams(_GRACE)
        self._listener.stop(_GRACE)
        self._threads.shutdown(wait=False)


def _unusable(folder: Path) -> str:
    if not folder.is_dir():
        return f"{folder} does not exist: is the kubelet's folder mounted, and the right one?"
    return f"{folder} is not writable: run as root, or give this user the folder"
