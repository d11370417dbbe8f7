"""When the kernel does not tell: no inotify instance or watch left, or too many events."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

X = "example.com/x"
UNWATCHED = "not all folders are watched, the audit looks instead"
QUEUE = Path("/proc/sys/fs/inotify/max_queued_events")


@pytest.mark.parametrize("what", ["instances", "watches"])
def test_without_inotify_the_audit_finds_everything(node, kubelet, limited, what):
    path = node.add("/dev/x")
    daemon = node.start(
        {"x": [{"path": node.path("/dev/x")}]},
        audit_interval="100ms",
        within=limited(what, 0),
    )
    (id_,) = kubelet.healthy(X)
    path.unlink()
    kubelet.until(X, {id_: "Unhealthy"})
    node.add("/dev/x")
    kubelet.until(X, {id_: "Healthy"})
    kubelet.restart()
    kubelet.accepted(X, 2)
    kubelet.delete_socket(X)
    kubelet.accepted(X, 3)
    (line,) = daemon.log(UNWATCHED)
    assert what.removesuffix("es").removesuffix("s") in line["error"]
    assert "sysctl" in line["error"]


def test_more_events_than_the_kernel_keeps(node, kubelet, eventually):
    """A stopped process, as under heavy load or a frozen cgroup."""
    limit = int(QUEUE.read_text())
    if limit > 100_000:
        pytest.skip(f"takes long with {QUEUE} at {limit}")
    daemon = node.start({"x": [{"path": node.path("/dev/x*")}]})
    kubelet.until(X, {})
    eventually(lambda: _is_watched(daemon, node.at("/dev")))
    daemon.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, daemon.process.pid, os.WSTOPPED)
    one, other = node.at("/dev/noise"), node.at("/dev/more-noise")
    one.touch()
    for _ in range(limit // 4 + 10):  # four events each
        one.rename(other)
        other.rename(one)
    node.add("/dev/x0")
    daemon.process.send_signal(signal.SIGCONT)
    kubelet.healthy(X)
    daemon.wait_log(UNWATCHED, error="inotify queue overflow")
    node.add("/dev/x1")
    kubelet.healthy(X, 2)
    assert len(daemon.log(UNWATCHED)) == 1


def _is_watched(daemon, folder):
    """Whether an inotify instance of the process has a watch there, proc_pid_fdinfo(5)."""
    infos = Path(f"/proc/{daemon.process.pid}/fdinfo").iterdir()
    inode = f" ino:{folder.stat().st_ino:x} "
    with suppress(FileNotFoundError):  # closed meanwhile
        return any(inode in info.read_text() for info in infos)
    return False
