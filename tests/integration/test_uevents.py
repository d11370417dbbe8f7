"""The kernel tells of what inotify does not see; where it does not, the audit finds it."""

import re
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

X = "example.com/x"
SILENT = "no kernel events, the audit looks instead"
EVENT = Path("/sys/class/mem/null/uevent")  # writing to it lets the kernel send an event
POD = ["unshare", "--net"]  # what an ordinary Pod has of its own
POD_OF_A_USER = ["unshare", "--user", "--map-root-user", "--net"]  # hostUsers: false


@pytest.fixture
def unseen(node):
    """Mount a folder with a node over an empty one: inotify has no word for that."""
    folder, full = node.at("/dev/m"), node.at("/full")
    folder.mkdir()
    full.mkdir()
    node.add("/full/x")
    yield lambda: subprocess.run(["mount", "--bind", full, folder], check=True)
    # Lazily: the daemon may be looking into it just now.
    subprocess.run(["umount", "--lazy", folder], stderr=subprocess.DEVNULL, check=False)


@pytest.mark.root
@pytest.mark.parametrize("within", [[], POD], ids=["host", "pod"])
def test_an_event_lets_it_look_again(node, kubelet, unseen, within):
    node.add("/dev/y")
    daemon = node.start({"x": [{"path": "/dev/m/x"}, {"path": "/dev/y"}]}, within=within)
    (id_,) = kubelet.healthy(X)
    node.ask("disable", device=id_)  # answered when all the looks of the start are done
    kubelet.until(X, {id_: "Unhealthy"})
    unseen()
    EVENT.write_text("change")
    kubelet.wait_for(lambda k: "Healthy" in k.devices(X).values())
    assert not daemon.log(SILENT)


@pytest.mark.root
def test_without_events_the_audit_finds_it(node, kubelet, unseen):
    daemon = node.start({"x": [{"path": "/dev/m/x"}]}, audit_interval="200ms", within=POD_OF_A_USER)
    kubelet.until(X, {})
    unseen()
    kubelet.healthy(X)
    (line,) = daemon.log(SILENT)
    assert line["level"] == "warning"
    assert "user namespace" in line["error"]


@pytest.mark.root
def test_a_storm_costs_few_looks(node, kubelet, eventually):
    daemon = node.start({"x": [{"path": "/dev/x"}]})
    kubelet.until(X, {})
    with storm():
        before = looks(daemon)
        eventually(lambda: looks(daemon) >= before + 5)
        assert looks(daemon) < before + 10
        node.add("/dev/x")
        kubelet.healthy(X)
        assert daemon.end() < 2


def looks(daemon):
    """How often it has looked at the devices."""
    (count,) = re.findall(r"_discovery_duration_seconds_count (.*)", daemon.get("/metrics")[1])
    return int(float(count))


@contextmanager
def storm():
    """As many events as the kernel makes."""
    stop = threading.Event()

    def blow():
        with EVENT.open("wb", buffering=0) as event:
            while not stop.is_set():
                event.write(b"change")

    thread = threading.Thread(target=blow)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
