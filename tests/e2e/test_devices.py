"""Devices that go, come back and change their number under running Pods."""

import time
from collections.abc import Callable

import pytest
from deployment import Deployment
from kubectl import Kubectl, TestPod, eventually
from local import DEVICES, FULL, NULL, ZERO, Log, Node, clock, make_node

pytestmark = pytest.mark.local_node
StartPod = Callable[..., TestPod]
Figure = Callable[[str, object], None]
STICK = "example.com/stick"


def _plug(number: tuple[int, int], node: str = "ttyE0") -> None:
    """A stick as udev shows it: a node with a number, and a link that stays."""
    make_node(node, number)
    link = DEVICES / "by-id" / "usb-e2e_stick_1"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(f"../{node}")


def _unplug(node: str = "ttyE0") -> None:
    (DEVICES / "by-id" / "usb-e2e_stick_1").unlink()
    (DEVICES / node).unlink()


def test_a_lost_device_is_unhealthy_and_comes_back_under_its_id(
    kubectl: Kubectl, plugin: Deployment, node: Node, start_pod: StartPod, figure: Figure
) -> None:
    _plug(NULL)
    kubectl.wait_resource(STICK, 1)
    pod = start_pod({STICK: 1}).wait_running()
    before, identity = pod.health(STICK), pod.identity()
    assert list(before.values()) == ["Healthy"]

    log, at = Log(), time.time()
    _unplug()
    line = log.wait(f'State pushed for device plugin" resource="{STICK}"')
    figure("device unlinked -> kubelet has the list", _since(at, line))
    figure("device unlinked -> allocatable on the Node", kubectl.wait_resource(STICK, 0))
    assert kubectl.resource(STICK) == (1, 0)
    eventually(lambda: pod.health(STICK) == dict.fromkeys(before, "Unhealthy"), 30)
    figure("device unlinked -> Unhealthy in the Pod's status", time.time() - at)

    log, at = Log(), time.time()
    _plug(NULL)
    line = log.wait(f'State pushed for device plugin" resource="{STICK}"')
    figure("device back -> kubelet has the list", _since(at, line))
    kubectl.wait_resource(STICK, 1)
    eventually(lambda: pod.health(STICK) == before, 30)
    assert pod.identity() == identity, "nothing happened to the Pod"


def test_a_restarted_container_gets_the_renumbered_stick(
    kubectl: Kubectl, plugin: Deployment, node: Node, start_pod: StartPod
) -> None:
    _plug(NULL)
    kubectl.wait_resource(STICK, 1)
    pod = start_pod({STICK: 1}).wait_running()
    assert pod.report()["nodes"]["/dev/stick"] == "c 1:3"
    _unplug()
    eventually(lambda: "Unhealthy" in pod.health(STICK).values(), 30)
    _plug(ZERO, "ttyE1")
    eventually(lambda: "Healthy" in pod.health(STICK).values(), 30)
    pod.restart()
    assert pod.report()["nodes"]["/dev/stick"] == "c 1:5"


def test_a_node_that_is_another_device_now_is_unhealthy(
    kubectl: Kubectl, plugin: Deployment, node: Node, start_pod: StartPod
) -> None:
    make_node("plain0", NULL)
    kubectl.wait_resource("example.com/plain", 1)
    pod = start_pod({"example.com/plain": 1}).wait_running()
    (DEVICES / "plain0").unlink()
    make_node("plain0", FULL)
    eventually(lambda: "moved" in plugin.log(), 30)
    kubectl.wait_resource("example.com/plain", 0)
    eventually(lambda: list(pod.health("example.com/plain").values()) == ["Unhealthy"], 30)


def _since(at: float, line: str) -> float:
    """Seconds from `at` to a line of the kubelet's log, whose clock is local time."""
    moment = time.localtime(at)
    began = moment.tm_hour * 3600 + moment.tm_min * 60 + moment.tm_sec + at % 1
    return clock(line) - began
