"""The move of a resource from the device plugin to DRA and back, with one Pod spec."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dra
import pytest
import yaml
from deployment import Deployment
from kubectl import Kubectl, Object, TestPod, eventually

StartPod = Callable[..., TestPod]
Figure = Callable[[str, object], None]
Make = Callable[..., None]
GPU = "example.com/gpu"
MOVED = dra.GPUS
CONFIG = BEFORE = MOVED.replace("    api: dra\n", "")


def _printed(config: str, folder: Path, kind: str) -> list[Object]:
    """What `manifests` prints of one kind."""
    path = folder / "config.yaml"
    path.write_text(config)
    command = [sys.executable, "-m", "device_plugin", "manifests", f"--config={path}"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [one for one in yaml.safe_load_all(said) if one and one["kind"] == kind]


@pytest.fixture
def classes(make: Make, tmp_path: Path) -> None:
    """The DeviceClass that `manifests` prints: it may be there before the move, and stay."""
    found = _printed(MOVED, tmp_path, "DeviceClass")
    assert [one["spec"]["extendedResourceName"] for one in found] == [GPU]
    make(*found)


@pytest.fixture
def edit(driver: Deployment) -> Iterator[Callable[[str], None]]:
    yield driver.edit
    driver.edit(CONFIG)


def _by_claim(pod: TestPod) -> str:
    """The claim that the scheduler made for the Pod; none by the device plugin."""
    found: str = (pod.status().get("extendedResourceClaimStatus") or {}).get(
        "resourceClaimName", ""
    )
    return found


def test_the_move_and_back(
    kubectl: Kubectl,
    driver: Deployment,
    classes: None,
    *,
    edit: Callable[[str], None],
    start_pod: StartPod,
    figure: Figure,
) -> None:
    def start() -> tuple[TestPod, str]:
        pod = start_pod({GPU: 1}).wait_running()
        given: str = pod.report()["env"]["GPU"]
        return pod, given

    kubectl.wait_resource(GPU, 3)
    identity = driver.identity()
    old, kept = start()
    assert _by_claim(old) == ""

    edit(MOVED)
    kubectl.wait_resource(GPU, 0, timeout=90)
    eventually(lambda: len(dra.free(kubectl, GPU)) == 2, 30, lambda: dra.slices(kubectl))
    assert kept not in dra.free(kubectl, GPU), "a Pod has it"
    (two, second), (three, third) = start(), start()
    assert {kept, second, third} == set(dra.devices(kubectl, GPU)) | {kept}
    assert all(_by_claim(pod) for pod in (two, three))
    figure("moved: the claim of a Pod with limits", _by_claim(two))
    waiting = start_pod({GPU: 1})
    figure("moved: why a Pod waits", waiting.waits())
    assert old.status()["phase"] == "Running"

    started = time.monotonic()
    old.delete()
    assert waiting.wait_running(180).report()["env"]["GPU"] == kept
    figure("moved: the old Pod deleted -> its device by DRA", time.monotonic() - started)

    edit(BEFORE)
    eventually(lambda: kubectl.resource(GPU)[1] == 0, 90)
    waiting.delete()
    started = time.monotonic()
    kubectl.wait_resource(GPU, 1, timeout=120)
    figure("moved back: a claim's Pod deleted -> allocatable", time.monotonic() - started)
    early = start_pod({GPU: 1})  # the scheduler counts Pods by claims against the kubelet's number
    assert f"Insufficient {GPU}" in early.waits()
    for pod, device in ((two, second), (three, third)):
        assert pod.status()["phase"] == "Running"
        assert pod.report()["env"]["GPU"] == device
        pod.delete()  # is unprepared, though nothing is offered by DRA any more
    assert early.wait_running().report()["env"]["GPU"] in (kept, second, third)
    assert _by_claim(early) == ""
    kubectl.wait_resource(GPU, 3, timeout=120)
    dra.wait_prepared(driver, 0)
    eventually(lambda: not dra.devices(kubectl, GPU), 30)
    assert driver.identity() == identity, "all without a restart"


def test_the_move_by_a_restart(
    kubectl: Kubectl,
    driver: Deployment,
    classes: None,
    edit: Callable[[str], None],
    start_pod: StartPod,
) -> None:
    """A new process knows from the kubelet which devices Pods hold."""
    kubectl.wait_resource(GPU, 3)
    old = start_pod({GPU: 1}).wait_running()
    kept = old.report()["env"]["GPU"]
    edit(MOVED)
    driver.restart()
    driver.wait_ready()
    eventually(lambda: kubectl.resource(GPU)[1] <= 0, 30)
    eventually(lambda: len(dra.free(kubectl, GPU)) == 2, 30, lambda: dra.slices(kubectl))
    assert kept not in dra.free(kubectl, GPU)
    pods = [start_pod({GPU: 1}).wait_running() for _ in range(2)]
    assert kept not in [pod.report()["env"]["GPU"] for pod in pods]
    assert all(map(_by_claim, pods))
    old.delete()
    eventually(lambda: kept in dra.free(kubectl, GPU), 120, lambda: dra.slices(kubectl))
