"""Pods that choose another container runtime: what reaches them, and what they are told."""

import base64
import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import worker
from cluster.cluster import Cluster
from kubectl import Kubectl, Object, Refused, TestPod, eventually
from local import DEVICES, FULL, Node, make_node

pytestmark = [pytest.mark.local_node, pytest.mark.usefixtures("plugin")]  # which has the handlers

StartPod = Callable[..., TestPod]
Make = Callable[..., None]

_HANDLERS = ("runc", "crun", "runsc")
_LABEL = "example.com/sandboxes"
_OVERHEAD = {"cpu": "10m", "memory": "24Mi"}


def _class(name: str, handler: str, **more: Any) -> Object:
    metadata = {"name": name}
    kind = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass"}
    return kind | {"metadata": metadata, "handler": handler, **more}


@pytest.fixture(params=_HANDLERS)
def runtime(request: pytest.FixtureRequest, make: Make) -> str:
    """A RuntimeClass of each handler that the node has."""
    handler: str = request.param
    make(_class(f"e2e-{handler}", handler, overhead={"podFixed": _OVERHEAD}))
    return f"e2e-{handler}"


@pytest.fixture
def label(kubectl: Kubectl) -> Iterator[Callable[[], str]]:
    """Say that the node has sandboxes; afterwards it says nothing."""
    yield lambda: kubectl("label", "node", kubectl.node(), f"{_LABEL}=true")
    kubectl("label", "node", kubectl.node(), f"{_LABEL}-")


def _info(cluster: Cluster, pod: TestPod) -> Object:
    """What containerd knows of the Pod's container."""
    identity = pod.identity()[0].rpartition("/")[2]
    said = worker.ctr(cluster.path, "containers", "info", identity).stdout
    found: Object = json.loads(said)
    return found


def _block(name: str, number: tuple[int, int]) -> Path:
    path = DEVICES / name
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mknod(path, stat.S_IFBLK | 0o666, os.makedev(*number))
    path.chmod(0o666)
    return path


def test_a_pod_has_what_the_config_promises(
    runtime: str, cluster: Cluster, start_pod: StartPod
) -> None:
    limits = {"example.com/full": 1, "example.com/licence": 1}
    pod = start_pod(limits, "open=/dev/e2e-full", runtime=runtime).wait_running()
    report = pod.report()
    assert report["nodes"]["/dev/e2e-full"] == "c 1:7"
    assert report["opened"] == {"/dev/e2e-full": "ok"}
    assert report["env"]["E2E_FULL"] == "/dev/e2e-full"
    assert report["env"]["LICENCE"].startswith("licence")
    assert "ro" in report["mounts"]["/e2e/zoneinfo"].split(",")
    info = _info(cluster, pod)
    handler = runtime.removeprefix("e2e-")
    program = base64.b64decode(info["Runtime"]["Options"]["value"]).decode(errors="replace")
    assert f"/{handler}" in program
    # containerd passes on the annotations of devices that the handler's allow-list has.
    given = {key for key in info["Spec"]["annotations"] if key.endswith("/full")}
    assert given == ({"example.com/full"} if handler == "crun" else set())


def test_a_device_by_its_cdi_name(
    runtime: str, kubectl: Kubectl, node: Node, start_pod: StartPod
) -> None:
    make_node("by-name/a", FULL)
    kubectl.wait_resource("example.com/by-name", 2)
    pod = start_pod({"example.com/by-name": 1}, "open=/dev/by-name", runtime=runtime)
    report = pod.wait_running().report()
    assert report["nodes"]["/dev/by-name"] == "c 1:7"
    assert report["opened"] == {"/dev/by-name": "ok"}


@pytest.mark.parametrize("kind", ["c", "b"])
def test_a_sandbox_cannot_open_what_it_has_no_driver_for(
    kind: str, runtime: str, kubectl: Kubectl, node: Node, start_pod: StartPod
) -> None:
    if kind == "c":
        number, path = "10:232", make_node("plain0", (10, 232))
        if not Path("/dev/kvm").exists():
            pytest.skip("this machine has no /dev/kvm")
    else:
        number, path = "7:0", _block("plain1", (7, 0))
        if not Path("/dev/loop0").exists():
            pytest.skip("this machine has no /dev/loop0")
    kubectl.wait_resource("example.com/plain", 1)
    pod = start_pod({"example.com/plain": 1}, f"open={path}", runtime=runtime)
    report = pod.wait_running().report()
    assert report["nodes"][str(path)] == f"{kind} {number}"
    assert report["opened"] == {str(path): "ENXIO" if runtime == "e2e-runsc" else "ok"}


def test_what_a_sandbox_does_not_open_through_a_mount(runtime: str, start_pod: StartPod) -> None:
    """A device node it has no driver for; the others may not, as it was not handed over."""
    words = ("open=/e2e/kmsg", "connect=/e2e/socket")
    report = start_pod({"example.com/mounted": 1}, *words, runtime=runtime).wait_running().report()
    is_sandbox = runtime == "e2e-runsc"
    assert report["opened"] == {"/e2e/kmsg": "ENXIO" if is_sandbox else "EPERM"}
    assert report["connected"] == {"/e2e/socket": "ECONNREFUSED" if is_sandbox else "ok"}


def test_a_sandbox_has_some_devices_of_its_own(make: Make, start_pod: StartPod) -> None:
    """Asked for or not; what it was not given it may make, and not open."""
    make(_class("e2e-own", "runsc"))
    words = ("open=/dev/fuse", "open=/dev/net/tun", "mknod=10:232")
    report = start_pod({}, *words, runtime="e2e-own").wait_running().report()
    assert report["opened"] == {"/dev/fuse": "ok", "/dev/net/tun": "ok"}
    assert report["made"] == {"10:232": "ENXIO"}


@pytest.fixture
def group() -> Iterator[str]:
    """A device node that is called like a VFIO group; there is none behind it."""
    path = Path("/dev/vfio/7007")
    made = not path.parent.exists()
    path.parent.mkdir(exist_ok=True)
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(*FULL))
    path.chmod(0o666)
    yield str(path)
    path.unlink()
    if made:
        path.parent.rmdir()


def test_a_vfio_group_is_what_a_runtime_makes_of_it(
    runtime: str, kubectl: Kubectl, node: Node, start_pod: StartPod, group: str
) -> None:
    kubectl.wait_resource("example.com/group", 1)
    pod = start_pod({"example.com/group": 1}, f"open={group}", runtime=runtime)
    if runtime != "e2e-runsc":
        assert pod.wait_running().report()["opened"] == {group: "ok"}
        return
    # gVisor takes it for a TPU, which it would have to know: the sandbox ends.
    said = eventually(
        lambda: [e for e in pod.events() if e.startswith("Failed:")], 60, pod.describe
    )
    assert "OCI runtime start failed: starting container: " in said[0]
    assert said[0].endswith('urpc method "containerManager.StartSubcontainer" failed: EOF')
    eventually(lambda: [e for e in pod.events() if e.startswith("SandboxChanged")], 60)


def test_overhead_stands_in_the_pod(runtime: str, kubectl: Kubectl, start_pod: StartPod) -> None:
    pod = start_pod({}, runtime=runtime)
    assert kubectl.get("pod", pod.name)["spec"]["overhead"] == _OVERHEAD
    pod.wait_running()


def _mebibytes(kubectl: Kubectl) -> int:
    """Memory that Pods may have on the node."""
    text: str = kubectl.get("node", kubectl.node())["status"]["allocatable"]["memory"]
    assert text.endswith("Ki")
    return int(text[:-2]) >> 10


def test_overhead_is_counted_by_the_scheduler(
    kubectl: Kubectl, make: Make, start_pod: StartPod
) -> None:
    memory = f"{_mebibytes(kubectl) * 6 // 10}Mi"
    make(_class("e2e-large", "crun", overhead={"podFixed": {"memory": memory}}))
    first = start_pod({"example.com/licence": 1}, runtime="e2e-large").wait_running()
    second = start_pod({"example.com/licence": 1}, runtime="e2e-large")
    assert "Insufficient memory" in second.waits()
    first.delete()
    second.wait_running()


def test_overhead_larger_than_the_node_is_said_by_the_scheduler(
    kubectl: Kubectl, make: Make, start_pod: StartPod
) -> None:
    memory = f"{_mebibytes(kubectl) * 2}Mi"
    make(_class("e2e-huge", "crun", overhead={"podFixed": {"memory": memory}}))
    waits = start_pod({"example.com/licence": 1}, runtime="e2e-huge").waits()
    assert waits.startswith("0/1 nodes are available: 1 Insufficient memory.")


def test_the_classes_selector_keeps_pods_off_nodes_without_the_handler(
    kubectl: Kubectl,
    make: Make,
    start_pod: StartPod,
    label: Callable[[], str],
) -> None:
    selector = {_LABEL: "true"}
    toleration = {"key": _LABEL, "operator": "Exists", "effect": "NoSchedule"}
    scheduling = {"nodeSelector": selector, "tolerations": [toleration]}
    make(_class("e2e-chosen", "crun", scheduling=scheduling))
    pod = start_pod({"example.com/full": 1}, runtime="e2e-chosen")
    assert "1 node(s) didn't match Pod's node affinity/selector" in pod.waits()
    label()
    pod.wait_running()
    spec = kubectl.get("pod", pod.name)["spec"]
    assert spec["nodeSelector"] == selector
    assert toleration in spec["tolerations"]


def test_a_handler_that_the_node_lacks_is_said_in_the_pods_events(
    make: Make, start_pod: StartPod
) -> None:
    make(_class("e2e-missing", "no-such"))
    pod = start_pod({"example.com/full": 1}, runtime="e2e-missing")
    said = eventually(lambda: [e for e in pod.events() if e.startswith("Failed")], 60, pod.describe)
    assert said[0].startswith("FailedCreatePodSandBox: Failed to create pod sandbox: ")
    assert said[0].endswith('no runtime for "no-such" is configured')


def test_a_class_that_nobody_made_is_refused_at_once(start_pod: StartPod) -> None:
    with pytest.raises(Refused, match='pod rejected: RuntimeClass "e2e-none" not found'):
        start_pod({}, runtime="e2e-none")
