"""The plugin goes and comes while Pods hold devices: none of them notices."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from deployment import Deployment
from kubectl import Kubectl, TestPod, eventually
from local import DEVICE_PLUGINS, Log, Node

StartPod = Callable[..., TestPod]
Figure = Callable[[str, object], None]
FULL = "example.com/full"


def _wait_listed(kubectl: Kubectl, plugin: Deployment) -> None:
    plugin.wait_ready()
    kubectl.wait_resource(FULL, 2, 60)


def test_deleted(kubectl: Kubectl, plugin: Deployment, start_pod: StartPod, figure: Figure) -> None:
    pod = start_pod({FULL: 1}).wait_running()
    identity = pod.identity()
    started = time.monotonic()
    plugin.delete_pod()
    _wait_listed(kubectl, plugin)
    figure("plugin's Pod deleted -> Ready again", time.monotonic() - started)
    assert pod.identity() == identity
    assert start_pod({FULL: 1}).wait_running().report()["nodes"]["/dev/e2e-full"] == "c 1:7"


@pytest.mark.local_node
def test_killed(
    kubectl: Kubectl, plugin: Deployment, node: Node, start_pod: StartPod, figure: Figure
) -> None:
    pod = start_pod({FULL: 1}).wait_running()
    identity = pod.identity()
    container = plugin.pod()["status"]["containerStatuses"][0]
    log = Log()
    started = node.kill_container(container["containerID"])
    log.wait(f'Processed device updates for resource" resourceName="{FULL}"')
    figure("plugin SIGKILLed -> list is in again", time.monotonic() - started)
    _wait_listed(kubectl, plugin)
    eventually(
        lambda: (
            plugin.pod()["status"]["containerStatuses"][0]["restartCount"]
            > container["restartCount"]
        )
    )
    assert pod.identity() == identity


def test_rolled_out_again(
    kubectl: Kubectl, plugin: Deployment, start_pod: StartPod, figure: Figure
) -> None:
    pod = start_pod({FULL: 1}).wait_running()
    identity = pod.identity()
    started = time.monotonic()
    plugin.restart()
    _wait_listed(kubectl, plugin)
    figure("rollout restart -> Ready again", time.monotonic() - started)
    assert pod.identity() == identity


@pytest.fixture
def start_instance(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    """A further daemon of the same resource, as a process on the node."""
    config = tmp_path / "config.yaml"
    resource = "{name: example.com/twice, devices: [{virtual: {count: 4}}]}"
    config.write_text(f"version: 1\nresources: [{resource}]\n")
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str) -> subprocess.Popen[bytes]:
        command: list[str | Path] = [
            sys.executable,
            "-m",
            "device_plugin",
            "run",
            "--config",
            config,
            "--http",
            "off",
        ]
        command += ["--device-plugin-dir", DEVICE_PLUGINS, "--state-dir", tmp_path / name]
        with (tmp_path / f"{name}.log").open("wb") as log:
            started.append(subprocess.Popen(command, stderr=log))
        return started[-1]

    yield start
    for process in started:
        process.send_signal(signal.SIGTERM)
        process.wait(10)
    for log in tmp_path.glob("*.log"):
        print(log.name, log.read_text())


@pytest.mark.local_node
def test_a_second_instance_comes_and_the_first_leaves(
    kubectl: Kubectl,
    node: Node,
    start_instance: Callable[[str], subprocess.Popen[bytes]],
    figure: Figure,
) -> None:
    name = "example.com/twice"
    first = start_instance("first")
    kubectl.wait_resource(name, 4)
    log = Log()
    start_instance("second")
    log.wait(f'Processed device updates for resource" resourceName="{name}"')
    first.send_signal(signal.SIGTERM)
    first.wait(10)
    left = time.monotonic()
    time.sleep(1)  # by then it must be registered again; the Node's status comes each second
    kubectl.wait_resource(name, 4, timeout=3)
    figure("first of two instances left -> allocatable", time.monotonic() - left)
    time.sleep(3)  # two status ticks: it must stay so
    assert kubectl.resource(name) == (4, 4)
