"""The node itself, where the cluster is our own: devices, kubelet, processes."""

import os
import re
import shutil
import signal
import stat
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from cluster import worker
from cluster.cluster import Cluster
from cluster.places import KUBELET_ROOT
from kubectl import eventually

DEVICE_PLUGINS = KUBELET_ROOT / "device-plugins"
DEVICES = Path("/dev/e2e")  # as on the host: there is one devtmpfs
NULL, ZERO, FULL = (1, 3), (1, 5), (1, 7)
_CLOCK = re.compile(r"^[IWEF]\d{4} (\d\d:\d\d:\d\d\.\d{6})")


def make_node(name: str, number: tuple[int, int]) -> Path:
    """A device node under DEVICES."""
    path = DEVICES / name
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(*number))
    path.chmod(0o666)
    return path


def remove_devices() -> None:
    shutil.rmtree(DEVICES, ignore_errors=True)


class Log:
    """What the kubelet logs from now on."""

    def __init__(self) -> None:
        self._file = worker.KUBELET.log
        self._start = self._file.stat().st_size

    def lines(self, text: str) -> list[str]:
        with self._file.open(errors="replace") as file:
            file.seek(self._start)
            return [line.rstrip() for line in file if text in line]

    def wait(self, text: str, timeout: float = 60) -> str:
        return eventually(lambda: self.lines(text), timeout, lambda: f"kubelet logs {text!r}")[0]


def clock(line: str) -> float:
    """When a line of the kubelet's log was written, in seconds of the day."""
    found = _CLOCK.match(line)
    assert found, line
    moment = datetime.strptime(found[1], "%H:%M:%S.%f")  # noqa: DTZ007 - only differences count
    return moment.hour * 3600 + moment.minute * 60 + moment.second + moment.microsecond / 1e6


class Node:
    """The kubelet and its host."""

    def __init__(self, cluster: Cluster) -> None:
        self._path = cluster.path

    def stop_kubelet(self, signum: int = signal.SIGTERM) -> None:
        worker.stop_kubelet(signum)

    def start_kubelet(self, settings: Mapping[str, object] | None = None) -> Log:
        if settings is not None:
            worker.configure_kubelet(settings)
        log = Log()
        worker.start_kubelet(self._path)
        return log

    def restart_kubelet(self, settings: Mapping[str, object] | None = None) -> Log:
        self.stop_kubelet()
        return self.start_kubelet(settings)

    def kubelet_runs(self) -> bool:
        return worker.KUBELET.pid is not None

    def files(self, folder: str, pattern: str) -> list[Path]:
        """Files as the node has them, seen from here."""
        return list(Path(f"/proc/{worker.KUBELET.pid}/root{folder}").glob(pattern))

    def container_pid(self, container_id: str) -> int:
        """The first process of a container, as numbered here."""
        name = container_id.rpartition("/")[2]
        listed = worker.ctr(self._path, "tasks", "list").stdout.splitlines()
        inner = next(int(line.split()[1]) for line in listed if line.startswith(name))
        return _outer(inner)

    def kill_container(self, container_id: str) -> float:
        """SIGKILL its first process; returns when."""
        os.kill(self.container_pid(container_id), signal.SIGKILL)
        return time.monotonic()


def _outer(inner: int) -> int:
    """The number here of the process that the node numbers `inner`."""
    depth = len(_numbers(worker.CONTAINERD.pid or 0)) - 1
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            numbers = _numbers(int(entry))
            if len(numbers) > depth and numbers[depth] == inner:
                return int(entry)
    raise ProcessLookupError(inner)


def _numbers(pid: int) -> list[int]:
    """A process's numbers in its PID namespaces, outermost first."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return []
    line = next(line for line in status.splitlines() if line.startswith("NSpid:"))
    return [int(word) for word in line.split()[1:]]
