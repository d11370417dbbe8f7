"""When the kernel does not tell: no inotify instance or watch left, or too many events."""

import signal
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


def test_more_events_than_the_kernel_keeps(node, kubelet):
    """A stopped process, as under heavy load or a frozen cgroup."""
    limit = int(QUEUE.read_text())
    if limit > 100_000:
        pytest.skip(f"takes long with {QUEUE} at {limit}")
    daemon = node.start({"x": [{"path": node.path("/dev/x*")}]})
    kubelet.until(X, {})
    daemon.process.send_signal(signal.SIGSTOP)
    one, other = node.at("/dev/noise"), node.at("/dev/more-noise")
    one.touch()
    for _ in range(limit // 4 + 1):  # four events each
        one.rename(other)
        other.rename(one)
    node.add("/dev/x1")
    daemon.process.send_signal(signal.SIGCONT)
    kubelet.healthy(X)
    daemon.wait_log(UNWATCHED, error="inotify queue overflow")
    node.add("/dev/x2")
    kubelet.healthy(X, 2)
    assert len(daemon.log(UNWATCHED)) == 1
