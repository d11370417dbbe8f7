"""Nodes that the kernel itself makes and removes, in the real /dev."""

import fcntl
import itertools
import os
from contextlib import suppress
from pathlib import Path

import pytest

X = "example.com/x"
LOOP_CTL_ADD, LOOP_CTL_REMOVE = 0x4C80, 0x4C81
ZRAM = Path("/sys/class/zram-control")


@pytest.fixture
def loop():
    """A loop device's number, and its control; the device is gone at the end."""
    number = 100 + os.getpid() % 10_000
    with open("/dev/loop-control", "rb") as control:
        yield number, control
        with suppress(OSError):
            fcntl.ioctl(control, LOOP_CTL_REMOVE, number)


@pytest.fixture
def zram():
    """Make zram devices; returns their numbers. They are gone at the end."""
    numbers = []

    def add():
        numbers.append((ZRAM / "hot_add").read_text().strip())
        return numbers[-1]

    yield add
    for number in numbers:
        with suppress(OSError):
            (ZRAM / "hot_remove").write_text(number)


def test_a_pty_that_closes_and_opens_again(node, kubelet):
    """It needs no root, and is a device node as real as any."""
    ends = os.openpty()
    path = os.ttyname(ends[1])
    node.start({"x": [{"path": path}]}, host_root="/")
    (id_,) = kubelet.healthy(X)
    for end in ends:
        os.close(end)
    kubelet.until(X, {id_: "Unhealthy"})
    opened: list[int] = []
    while not Path(path).exists():  # the lowest free number comes first
        opened += os.openpty()
    kubelet.until(X, {id_: "Healthy"})
    for end in opened:
        os.close(end)


@pytest.mark.root
def test_a_loop_device(node, kubelet, loop):
    number, control = loop
    id_ = f"loop{number}"
    daemon = node.start({"x": [{"path": f"/dev/{id_}"}]}, host_root="/")
    kubelet.until(X, {})
    for _ in range(2):
        fcntl.ioctl(control, LOOP_CTL_ADD, number)
        kubelet.until(X, {id_: "Healthy"})
        fcntl.ioctl(control, LOOP_CTL_REMOVE, number)
        kubelet.until(X, {id_: "Unhealthy"})
    daemon.wait_log("device unhealthy", device=id_, reason="removed", times=2)


@pytest.mark.root
@pytest.mark.skipif(not ZRAM.exists(), reason="needs the zram module")
def test_zram_devices_by_glob(node, kubelet, zram):
    before = len(list(Path("/dev").glob("zram*")))
    node.start({"x": [{"path": "/dev/zram*"}]}, host_root="/")
    kubelet.healthy(X, before)
    number = zram()
    kubelet.healthy(X, before + 1)
    (ZRAM / "hot_remove").write_text(number)
    kubelet.wait_for(lambda k: k.devices(X)[f"zram{number}"] == "Unhealthy")


@pytest.mark.root
def test_quicker_than_a_kubelet_can_be_told(node, kubelet, loop):
    """Added and removed at once, often: the last state is what counts."""
    number, control = loop
    node.start({"x": [{"path": f"/dev/loop{number}"}]}, host_root="/")
    kubelet.until(X, {})
    for request in itertools.islice(itertools.cycle((LOOP_CTL_ADD, LOOP_CTL_REMOVE)), 41):
        fcntl.ioctl(control, request, number)
    kubelet.until(X, {f"loop{number}": "Healthy"})
