"""Kubelet, driver and slices go and come while Pods hold claims."""

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dra
import pytest
from cluster.node import Process
from cluster.places import KUBELET_ROOT
from deployment import Deployment
from kubectl import Kubectl, Object, TestPod, eventually
from local import Log, Node

StartPod = Callable[..., TestPod]
Figure = Callable[[str, object], None]
Make = Callable[..., None]
CONFIG = dra.GPUS
CLASS = dra.DRIVER


def _what(found: list[Object]) -> list[Object]:
    """The content of slices, without what the API server and the pool's history add."""
    specs = [json.loads(json.dumps(one["spec"])) for one in found]
    for spec in specs:
        spec["pool"].pop("generation")
    return specs


@pytest.fixture
def held(
    kubectl: Kubectl, driver: Deployment, make: Make, start_pod: StartPod
) -> Iterator[TestPod]:
    """A Pod with a claim: nothing may happen to it, and in the end it is unprepared."""
    make(dra.device_class(CLASS), dra.template("any-gpu", dra.request(CLASS)))
    pod = start_pod({}, claims=dra.by("any-gpu")).wait_running()
    identity, given = pod.identity(), pod.report()["env"]["GPU"]
    dra.wait_prepared(driver, 1)
    yield pod
    assert pod.identity() == identity
    other = start_pod({}, claims=dra.by("any-gpu")).wait_running()
    assert other.report()["env"]["GPU"] != given
    pod.restart()
    assert pod.report()["env"]["GPU"] == given
    for one in (pod, other):
        one.delete()
    dra.wait_prepared(driver, 0)


@pytest.mark.local_node
def test_the_kubelet_restarts(
    kubectl: Kubectl, driver: Deployment, node: Node, held: TestPod, figure: Figure
) -> None:
    before = dra.wait_whole(kubectl)
    node.stop_kubelet()
    started = time.monotonic()
    node.start_kubelet()
    wiped = {one["metadata"]["uid"] for one in before}
    after = dra.wait_whole(
        kubectl, lambda found: found and not wiped & {one["metadata"]["uid"] for one in found}, 60
    )
    figure("kubelet started -> slices wiped and there again", time.monotonic() - started)
    assert _what(after) == _what(before)
    driver.wait_ready()


@pytest.mark.local_node
def test_slices_wait_for_a_kubelet_that_does_not_know_the_driver_yet(
    kubectl: Kubectl, driver: Deployment, node: Node
) -> None:
    """One that starts wipes them first, and registers once its container runtime is there."""
    before = dra.wait_whole(kubectl)
    node.stop_kubelet()
    kubectl("delete", "resourceslices", "--all")
    until = time.monotonic() + 2
    while time.monotonic() < until:
        assert not kubectl.get("resourceslices")["items"]
    node.start_kubelet()
    assert _what(dra.wait_whole(kubectl, timeout=60)) == _what(before)
    driver.wait_ready()


@pytest.mark.local_node
def test_the_kubelet_restarts_and_what_it_held_is_unprepared(
    kubectl: Kubectl,
    driver: Deployment,
    node: Node,
    make: Make,
    start_pod: StartPod,
) -> None:
    """The Pod goes while no kubelet runs."""
    make(dra.device_class(CLASS), dra.template("any-gpu", dra.request(CLASS)))
    pod = start_pod({}, claims=dra.by("any-gpu")).wait_running()
    name = pod.claim("gpu")
    node.stop_kubelet()
    kubectl("delete", "pod", pod.name, "-n", kubectl.namespace, "--now", "--wait=false")
    node.start_kubelet()
    eventually(lambda: not _exists(kubectl, name), 120)
    dra.wait_prepared(driver, 0)


def _exists(kubectl: Kubectl, claim: str) -> bool:
    items = kubectl.get("resourceclaims")["items"]
    return claim in [one["metadata"]["name"] for one in items]


def test_the_driver_is_deleted(
    kubectl: Kubectl, driver: Deployment, held: TestPod, figure: Figure
) -> None:
    before = dra.wait_whole(kubectl)
    started = time.monotonic()
    driver.delete_pod()
    driver.wait_ready()
    figure("driver's Pod deleted -> Ready again", time.monotonic() - started)
    assert dra.wait_whole(kubectl) == before, "nothing to write"
    assert dra.prepared(driver) == 1


@pytest.mark.local_node
def test_the_driver_is_killed(
    kubectl: Kubectl, driver: Deployment, node: Node, held: TestPod
) -> None:
    container, restarts = driver.identity()
    node.kill_container(container)
    eventually(lambda: driver.identity()[1] > restarts, 30)
    driver.wait_ready()
    dra.wait_whole(kubectl)
    assert dra.prepared(driver) == 1
    sockets = sorted(path.name for path in _sockets())
    assert len(sockets) == 2, f"the dead one's are gone: {sockets}"


def _sockets() -> list[Path]:
    folders = (KUBELET_ROOT / "plugins" / dra.DRIVER, KUBELET_ROOT / "plugins_registry")
    return [path for folder in folders for path in folder.glob("*.sock")]


@pytest.mark.local_node
def test_its_sockets_are_deleted(driver: Deployment, held: TestPod, figure: Figure) -> None:
    log, started = Log(), time.monotonic()
    for path in _sockets():
        path.unlink()
    eventually(lambda: len(_sockets()) == 2, 30, _sockets)
    figure("sockets deleted -> there again", time.monotonic() - started)
    log.wait('Registered DRA plugin"', 30)
    figure("sockets deleted -> registered again", time.monotonic() - started)


def test_the_driver_is_rolled_out(
    kubectl: Kubectl, driver: Deployment, held: TestPod, figure: Figure
) -> None:
    started = time.monotonic()
    driver.restart()
    driver.wait_ready()
    figure("driver's rollout restart -> Ready again", time.monotonic() - started)
    dra.wait_whole(kubectl)
    assert dra.prepared(driver) == 1


@pytest.fixture
def second(node: Node, tmp_path: Path) -> Iterator[Process]:
    """A further daemon of the same driver, as a process on the node; `start` is the test's."""
    process = Process("second-driver")
    yield process
    if process.outer is not None:
        process.stop()
    print(process.last_lines(100))


@pytest.mark.local_node
def test_a_second_instance_comes_and_the_first_leaves(
    kubectl: Kubectl,
    driver: Deployment,
    held: TestPod,
    *,
    second: Process,
    start_pod: StartPod,
    tmp_path: Path,
) -> None:
    """Either may be asked about any claim. The first comes back, and the second leaves."""
    before = dra.wait_whole(kubectl)
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG[: CONFIG.index("  - name: example.com/licence")])
    command = [sys.executable, "-m", "device_plugin", "run", f"--config={config}", "--http=off"]
    command += [f"--state-dir={tmp_path / 'state'}", f"--node-name={kubectl.node()}"]
    registered = Log()
    second.start([*command, f"--kubeconfig={kubectl.kubeconfig}"])
    registered.wait('Registered DRA plugin"')
    assert len(_sockets()) == 4
    pod = start_pod({}, claims=dra.by("any-gpu")).wait_running()
    given = pod.report()["env"]["GPU"]
    registered = Log()
    driver.delete_pod()
    driver.wait_ready()
    registered.wait('Registered DRA plugin"')
    second.stop()
    eventually(lambda: len(_sockets()) == 2, 30, _sockets)
    pod.restart()
    assert pod.report()["env"]["GPU"] == given
    pod.delete()  # by the first, which did not prepare it
    dra.wait_prepared(driver, 1)
    assert dra.wait_whole(kubectl) == before, "both say the same"


def _running(kubectl: Kubectl, driver: Deployment) -> list[str]:
    """The instances whose container runs."""
    return [
        pod["metadata"]["name"]
        for pod in kubectl.get("pods", namespace=driver.namespace)["items"]
        if any("running" in one["state"] for one in pod["status"].get("containerStatuses", []))
    ]


def test_the_slices_are_deleted(
    kubectl: Kubectl, driver: Deployment, held: TestPod, figure: Figure
) -> None:
    before = dra.wait_whole(kubectl)
    started = time.monotonic()
    kubectl("delete", "resourceslices", f"--field-selector=spec.nodeName={kubectl.node()}")
    after = dra.wait_whole(kubectl)
    figure("slices deleted -> there again", time.monotonic() - started)
    assert _what(after) == _what(before)


def test_a_slice_is_changed_by_somebody(
    kubectl: Kubectl, driver: Deployment, held: TestPod, figure: Figure
) -> None:
    (before,) = dra.wait_whole(kubectl)
    started = time.monotonic()
    fewer = json.dumps({"spec": {"devices": before["spec"]["devices"][:1]}})
    kubectl("patch", "resourceslice", before["metadata"]["name"], "--type=merge", "-p", fewer)
    after = dra.wait_whole(kubectl, lambda found: _what(found) == _what([before]), 60)
    figure("slice changed by somebody -> as it was", time.monotonic() - started)
    assert len(after) == 1


@contextmanager
def _away(kubectl: Kubectl, driver: Deployment) -> Iterator[None]:
    """No driver on the node, as long as it lasts."""
    words = ["patch", "daemonset", "device-plugin", "-n", driver.namespace, "-p"]

    def choose(value: str | None) -> None:
        spec = {"template": {"spec": {"nodeSelector": {"e2e/nowhere": value}}}}
        kubectl(*words, json.dumps({"spec": spec}))

    choose("true")
    try:
        eventually(lambda: not _running(kubectl, driver), 60)
        yield
    finally:
        choose(None)
        driver.wait_ready()


def test_a_pod_goes_while_the_driver_is_away(
    kubectl: Kubectl, driver: Deployment, make: Make, start_pod: StartPod
) -> None:
    """It ends when the driver is there again, and its claim is unprepared."""
    make(dra.device_class(CLASS), dra.template("any-gpu", dra.request(CLASS)))
    pod = start_pod({}, claims=dra.by("any-gpu")).wait_running()
    with _away(kubectl, driver):
        kubectl("delete", "pod", pod.name, "-n", kubectl.namespace, "--now", "--wait=false")
        eventually(lambda: "deletionTimestamp" in kubectl.get("pod", pod.name)["metadata"], 10)
    kubectl("wait", "--for=delete", f"pod/{pod.name}", "-n", kubectl.namespace, "--timeout=120s")
    dra.wait_prepared(driver, 0)


def test_a_pod_that_waits_for_the_driver_runs_when_it_is_there(
    kubectl: Kubectl, driver: Deployment, make: Make, start_pod: StartPod
) -> None:
    """It is not placed before the kubelet knows the driver; else a minute would be lost."""
    make(dra.device_class(CLASS), dra.template("any-gpu", dra.request(CLASS)))
    with _away(kubectl, driver):
        eventually(lambda: not dra.slices(kubectl), 60)  # the kubelet wipes them, after 30 s
        pod = start_pod({}, claims=dra.by("any-gpu"))
        assert pod.waits()
    pod.wait_running()
    assert not [event for event in pod.events() if "not registered" in event]


@pytest.mark.local_node
def test_the_kubelet_is_killed_between_prepare_and_start(
    kubectl: Kubectl,
    driver: Deployment,
    node: Node,
    make: Make,
    start_pod: StartPod,
) -> None:
    """The claim is prepared again, with the same answer."""
    make(dra.device_class(CLASS), dra.template("any-gpu", dra.request(CLASS)))
    pod = start_pod({}, claims=dra.by("any-gpu"))
    eventually(lambda: list(_specs(node)), 60, pod.describe)
    node.stop_kubelet(signal.SIGKILL)
    node.start_kubelet()
    given = dra.results(kubectl, pod.claim("gpu"))[0]["device"]
    assert pod.wait_running().report()["env"]["GPU"] == given
    assert dra.prepared(driver) == 1


def _specs(node: Node) -> list[Path]:
    return node.files("/run/cdi", "device-plugin-claim-*.json")
