"""Devices that the kernel makes at run time, and devices by CDI name."""

import contextlib
import fcntl
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from deployment import Deployment
from kubectl import Kubectl, TestPod, eventually
from local import DEVICES, NULL, ZERO, Log, Node, make_node

pytestmark = pytest.mark.local_node
StartPod = Callable[..., TestPod]
Figure = Callable[[str, object], None]
ZRAM, LOOP = "example.com/zram", "example.com/loop"
BY_NAME, NODELESS = "example.com/by-name", "example.com/nodeless"
LOOP_CTL_ADD, LOOP_CTL_REMOVE = 0x4C80, 0x4C81  # linux/loop.h
CONTROL = Path("/sys/class/zram-control")


@pytest.fixture
def zram() -> Iterator[Callable[[], str]]:
    """Hot-add a block device; whatever is left goes afterwards."""
    if not CONTROL.exists():
        pytest.skip("this kernel has no zram")
    made = []

    def add() -> str:
        made.append((CONTROL / "hot_add").read_text().strip())
        return made[-1]

    yield add
    for number in made:
        if Path(f"/sys/block/zram{number}").exists():
            (CONTROL / "hot_remove").write_text(number)


def test_a_block_device_is_added_and_removed(
    kubectl: Kubectl, plugin: Deployment, zram: Callable[[], str], figure: Figure
) -> None:
    before = len(list(Path("/dev").glob("zram[0-9]*")))
    kubectl.wait_resource(ZRAM, before)
    log, started = Log(), time.monotonic()
    number = zram()
    log.wait(f'State pushed for device plugin" resource="{ZRAM}"', 10)
    figure("zram hot-added -> seen in the kubelet's log", time.monotonic() - started)
    kubectl.wait_resource(ZRAM, before + 1)
    (CONTROL / "hot_remove").write_text(number)
    kubectl.wait_resource(ZRAM, before)
    assert kubectl.resource(ZRAM)[0] == before + 1, "it stays listed"


@pytest.fixture
def loop() -> Iterator[Callable[[int, int], None]]:
    """Ask the kernel for a loop device, or to take it away; it is gone at the end."""
    with Path("/dev/loop-control").open("rb") as control:

        def request(what: int, number: int) -> None:
            fcntl.ioctl(control, what, number)

        yield request
        with contextlib.suppress(OSError):
            request(LOOP_CTL_REMOVE, 200)


def test_a_loop_device_goes_and_comes_while_a_pod_has_it(
    kubectl: Kubectl, plugin: Deployment, loop: Callable[[int, int], None], start_pod: StartPod
) -> None:
    loop(LOOP_CTL_ADD, 200)
    kubectl.wait_resource(LOOP, 1)
    pod = start_pod({LOOP: 1}).wait_running()
    assert pod.report()["nodes"]["/dev/loop200"].startswith("b 7:")
    assert pod.health(LOOP) == {"loop200": "Healthy"}
    for request, health in ((LOOP_CTL_REMOVE, "Unhealthy"), (LOOP_CTL_ADD, "Healthy")):
        loop(request, 200)
        eventually(partial(_is, pod, {"loop200": health}), 30)


def _is(pod: TestPod, health: dict[str, str]) -> bool:
    return pod.health(LOOP) == health


def test_kernel_events_reach_the_pod(plugin: Deployment) -> None:
    assert plugin.log()
    assert "no kernel events" not in plugin.log()


def test_a_device_by_name_is_the_right_one_after_renumbering(
    kubectl: Kubectl, plugin: Deployment, node: Node, start_pod: StartPod
) -> None:
    make_node("ttyN0", NULL)
    link = DEVICES / "by-name" / "stick"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to("../ttyN0")
    kubectl.wait_resource(BY_NAME, 2)
    specs = [json.loads(text) for text in plugin.files("/var/run/cdi/device-plugin-*.json")]
    assert {spec["kind"] for spec in specs} == {BY_NAME, NODELESS}
    pod = start_pod({BY_NAME: 1}).wait_running()
    report = pod.report()
    assert report["nodes"]["/dev/by-name"] == "c 1:3"
    assert list(pod.health(BY_NAME)) == [report["env"]["BY_NAME"]]

    link.unlink()
    (DEVICES / "ttyN0").unlink()
    eventually(lambda: "Unhealthy" in pod.health(BY_NAME).values(), 30)
    make_node("ttyN1", ZERO)
    link.symlink_to("../ttyN1")
    eventually(lambda: "Healthy" in pod.health(BY_NAME).values(), 30)
    pod.restart()
    assert pod.report()["nodes"]["/dev/by-name"] == "c 1:5"


def test_a_device_without_nodes_has_a_name_too(
    kubectl: Kubectl, plugin: Deployment, start_pod: StartPod
) -> None:
    kubectl.wait_resource(NODELESS, 1)
    pod = start_pod({NODELESS: 1}).wait_running()
    (id_,) = pod.health(NODELESS)
    assert id_ in [
        value for key, value in pod.report()["env"].items() if key.startswith("DEVICE_PLUGIN_CDI_")
    ]
