"""A gRPC server on a unix socket, and what tells one socket from another."""

import contextlib
import os
import socket
import stat
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import grpc

_T = TypeVar("_T")

PATH_LIMIT = 107  # bytes of a unix socket's path, unix(7)
# For a channel to a kubelet: nothing of an earlier one's connection may slow this one down.
TO_A_KUBELET = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0))

Identity = tuple[int, int, int]


def identity(path: Path) -> Identity | None:
    """What tells a socket from its successor at the same path; None where there is none.

    Inode numbers are reused at once on some file systems, hence the time; not the inode's change
    time, which a mere chmod or relabelling moves.
    """
    try:
        status = path.stat()
    except OSError:
        return None
    if not stat.S_ISSOCK(status.st_mode):
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns


def target(path: Path) -> str:
    """A socket as gRPC names it: a URI, so that a path with `%`, `#` or `?` must be quoted."""
    return f"unix:{quote(os.fspath(path))}"


def is_dead(path: Path) -> bool:
    """Whether nobody listens on the socket; one that is about to be listened on is dead too."""
    return isinstance(refusal(path), ConnectionRefusedError)


def refusal(path: Path) -> OSError | None:
    """Try a plain connection; returns why there is none."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(os.fspath(path))
        except OSError as error:
            return error
    return None


def promised(fn: Callable[[], _T]) -> tuple[Future[_T], Callable[[], None]]:
    """A future, and what to run for it on some thread; for an executor of gRPC's."""
    future: Future[_T] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(fn())
        except BaseException as error:  # noqa: BLE001 - it is for whoever asks for the result
            future.set_exception(error)

    return future, run


class Listener:
    """Serves from construction to `stop`."""

    def __init__(
        self, path: Path, add: Callable[[grpc.Server], None], threads: Executor, calls: int
    ) -> None:
        """Take so many calls at once, each on one of the threads; `add` says what is served.

        Submitting to `threads` must not fail: an exception ends the thread in which gRPC takes
        calls, and every later one hangs. Raises OSError where no socket can be made.
        """
        self.path = path
        executor: Any = threads  # more than an Executor is not asked for
        self._server = grpc.server(executor, maximum_concurrent_rpcs=calls)
        add(self._server)
        try:
            self._server.add_insecure_port(target(path))
        except RuntimeError as error:
            raise OSError(f"cannot listen on {path}: {error}") from None
        self._server.start()
        self.identity = identity(path)

    @property
    def is_there(self) -> bool:
        """Whether the socket file is still there and still ours."""
        return self.identity is not None and identity(self.path) == self.identity

    def stop(self, grace: float) -> None:
        """Remove the socket, take no more calls, give those in flight so many seconds."""
        if self.is_there:
            with contextlib.suppress(OSError):  # gone meanwhile
                self.path.unlink()
        self._server.stop(grace).wait()
