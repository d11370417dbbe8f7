"""The kubelet goes and comes while Pods hold devices."""

import time
from collections.abc import Callable

import pytest
from deployment import Deployment
from kubectl import Kubectl, TestPod, eventually
from local import DEVICE_PLUGINS, DEVICES, NULL, Log, Node, clock, make_node

pytestmark = pytest.mark.local_node
StartPod = Callable[..., TestPod]
Figure = Callable[[str, object], None]
FULL = "example.com/full"


def _first(log: Log, text: str) -> float:
    return clock(log.wait(text))


def test_pods_survive_a_kubelet_restart(
    kubectl: Kubectl, plugin: Deployment, node: Node, start_pod: StartPod, figure: Figure
) -> None:
    running = start_pod({FULL: 1}).wait_running()
    crashing = start_pod({"example.com/licence": 1}, "exit=0")
    with_init = start_pod({"example.com/fuse": 1}, init={"example.com/fuse": 1}).wait_running()
    eventually(lambda: crashing.container().get("restartCount", 0) >= 1, 60)
    identity = running.identity(), with_init.identity()

    log = node.restart_kubelet()
    listening = _first(log, "Starting device plugin registration server")
    listed = max(
        _first(log, f'Processed device updates for resource" resourceName="{name}"')
        for name in (FULL, "example.com/licence", "example.com/fuse")
    )
    added = _first(log, '"SyncLoop ADD" source="api"')
    figure("kubelet restart: registration socket -> all lists are in", listed - listening)
    figure("kubelet restart: all lists are in -> SyncLoop ADD", added - listed)

    kubectl.wait_resource(FULL, 2)
    eventually(lambda: log.lines("SyncLoop ADD"), 30)
    before = crashing.container()["restartCount"]
    eventually(lambda: crashing.container().get("restartCount", 0) > before, 90, crashing.describe)
    assert (running.identity(), with_init.identity()) == identity
    phases = [pod.status()["phase"] for pod in (running, crashing, with_init)]
    if listed < added:
        assert "Failed" not in phases
    else:  # the kubelet looked at Pods before any plugin could be there: kubernetes#118559
        figure("kubelet restart: Pods came before the lists", phases)


def test_a_stopped_kubelet_loses_nothing(
    kubectl: Kubectl, plugin: Deployment, node: Node, start_pod: StartPod, figure: Figure
) -> None:
    pod = start_pod({FULL: 1}).wait_running()
    identity = pod.identity()
    node.stop_kubelet()
    make_node("plain1", NULL)  # while nobody listens
    time.sleep(3)
    sockets = [entry for entry in DEVICE_PLUGINS.iterdir() if entry.is_socket()]
    node.start_kubelet()
    kubectl.wait_resource("example.com/plain", 1, 60)
    kubectl.wait_resource(FULL, 2)
    assert pod.identity() == identity
    now = {entry for entry in DEVICE_PLUGINS.iterdir() if entry.is_socket()}
    assert len(now) == len(sockets), "each resource has one socket, no more"


def test_a_held_device_may_vanish_under_a_numa_policy(
    kubectl: Kubectl, plugin: Deployment, node: Node, start_pod: StartPod
) -> None:
    """A plugin that drops a held ID panics the kubelet here: A6."""
    node.restart_kubelet({"topologyManagerPolicy": "restricted"})
    make_node("plain2", NULL)
    kubectl.wait_resource("example.com/plain", 1, 60)
    pod = start_pod({"example.com/plain": 1}).wait_running()
    identity = pod.identity()
    (DEVICES / "plain2").unlink()
    kubectl.wait_resource("example.com/plain", 0)
    log = node.restart_kubelet({"topologyManagerPolicy": "restricted"})
    log.wait("SyncLoop ADD")
    kubectl.wait_resource(FULL, 2)
    assert node.kubelet_runs()
    assert not log.lines("panic")
    assert pod.identity() == identity
    # Hardware without a NUMA node has no say in the alignment.
    assert start_pod({FULL: 1}).wait_running().status()["phase"] == "Running"
    node.restart_kubelet({})
