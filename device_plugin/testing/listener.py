"""Sockets of the kubelet: clean-up, listening, and the stale socket left behind (A1)."""

import stat
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

KUBELET_SOCKET = "kubelet.sock"
CHECKPOINT = "kubelet_internal_checkpoint"
# A thread is pinned for as long as a Register call waits for its plugin.
_WORKERS = 32


def clean_up(directory: Path) -> None:
    """CleanupPluginDirectory: every socket at the top goes, links to sockets too (A1)."""
    for entry in directory.iterdir():
        if entry.name == CHECKPOINT:
            continue
        try:
            is_socket = stat.S_ISSOCK(entry.stat().st_mode)
        except OSError:
            continue  # a dangling link, for example
        if is_socket:
            entry.unlink(missing_ok=True)  # any other failure ends the kubelet


class Listener:
    """Serves on a socket at `path`; `add` puts the services into the server.

    gRPC unlinks the path that it has bound when it stops, a kubelet that exits does not. So gRPC
    is given the folder through a link of our own, and the link is gone by the time it unlinks.
    """

    def __init__(self, path: Path, add: Callable[[grpc.Server], None]) -> None:
        self._aside = tempfile.TemporaryDirectory(prefix="kubelet-")
        self._link = Path(self._aside.name) / "d"
        self._link.symlink_to(path.parent.absolute())
        self._workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="kubelet-serve")
        # No options: 4 MiB, and gRPC's own keepalive enforcement (A1).
        self._server = grpc.server(self._workers)
        add(self._server)
        try:
            self._server.add_insecure_port(f"unix:{self._link / path.name}")
        except RuntimeError:
            self._aside.cleanup()
            raise
        self._server.start()

    def close(self) -> None:
        """Drop every connection; the file stays and refuses."""
        self._link.unlink()
        self._server.stop(grace=None).wait()
        self._workers.shutdown(wait=False)
        self._aside.cleanup()
