"""What is in manifests/ and examples/, installed as people install it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from deployment import Deployment
from kubectl import Kubectl, Refused, TestPod, eventually

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "manifests"))

import programs  # noqa: E402 - where helm comes from

OVERLAYS = ROOT / "manifests" / "overlays"
CHART = ROOT / "manifests" / "helm" / "device-plugin"
HERE = ["generic", "usb", "gpu-example", "privileged", "distros/k3s"]
ELSEWHERE = {
    "distros/k0s": "/var/lib/k0s/kubelet/pod-resources",
    "distros/microk8s": "/var/snap/microk8s/common/var/lib/kubelet/pod-resources",
}
CONFIG = Path(__file__).parent / "config.yaml"


@pytest.fixture(scope="module", autouse=True)
def _nobody_else(plugin: Deployment) -> Iterator[None]:
    """One daemon a node: the other tests' makes room."""
    plugin.delete()
    yield
    plugin.apply(CONFIG.read_text())
    plugin.wait_ready()


@pytest.fixture(scope="module")
def install(
    kubectl: Kubectl, image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Deployment]]:
    """Install an overlay in place of the one before, as an upgrade would."""
    folder = tmp_path_factory.mktemp("overlay")
    deployment = Deployment(kubectl, folder, "device-plugin", image)

    def apply(overlay: str) -> Deployment:
        name, _, tag = image.rpartition(":")
        lines = [
            f"resources: [{os.path.relpath(OVERLAYS / overlay, folder)}]",
            f"images: [{{name: localhost/device-plugin, newName: {name}, newTag: {tag}}}]",
        ]
        (folder / "kustomization.yaml").write_text("\n".join(lines))
        kubectl("apply", "-k", str(folder))
        deployment.restart()  # what the ConfigMap has now, and not in a minute
        return deployment

    yield apply
    kubectl("delete", "namespace", "device-plugin", "--ignore-not-found", timeout=180)


def offered(config: Path) -> dict[str, int]:
    """How many of each resource the node must have, as `discover` sees it."""
    command = [
        sys.executable,
        "-m",
        "device_plugin",
        "discover",
        f"--config={config}",
        "-o",
        "json",
    ]
    said = subprocess.run(command, capture_output=True, check=True).stdout
    return {
        resource["name"]: sum(
            device["replicas"] for device in resource["devices"] if device["health"] == "Healthy"
        )
        for resource in json.loads(said)["resources"]
    }


@pytest.mark.local_node
@pytest.mark.parametrize("overlay", HERE)
def test_an_overlay(kubectl: Kubectl, install: Callable[[str], Deployment], overlay: str) -> None:
    install(overlay).wait_ready()
    own = OVERLAYS / overlay / "config.yaml"
    expected = offered(own if own.exists() else ROOT / "manifests" / "base" / "config.yaml")
    assert expected
    for name, count in expected.items():
        kubectl.wait_resource(name, count)


@pytest.mark.parametrize("overlay", ELSEWHERE)
def test_an_overlay_of_another_distribution_says_what_is_missing(
    kubectl: Kubectl, install: Callable[[str], Deployment], overlay: str
) -> None:
    install(overlay)
    said = eventually(
        lambda: [
            event["message"]
            for event in kubectl.get("events", namespace="device-plugin")["items"]
            if ELSEWHERE[overlay] in event.get("message", "")
        ],
        60,
    )
    assert "is not a directory" in said[0]


def test_different_configs_for_different_nodes(kubectl: Kubectl) -> None:
    """The node's label chooses the DaemonSet: one has a Pod, the other has none."""
    folder = OVERLAYS / "per-node"

    def ready(kind: str) -> int:
        found = kubectl.get("daemonset", "device-plugin", namespace=f"device-plugin-{kind}")
        count: int = found["status"].get("numberReady", 0)
        return count

    kubectl("label", "node", kubectl.node(), "example.com/devices=gateway", "--overwrite")
    try:
        kubectl("apply", "-k", str(folder))
        eventually(lambda: ready("gateway") == 1, 60)
        assert ready("camera") == 0
    finally:
        kubectl("delete", "-k", str(folder), timeout=180)
        kubectl("label", "node", kubectl.node(), "example.com/devices-")


def test_the_chart(kubectl: Kubectl, image: str, tmp_path: Path) -> None:
    repository, _, tag = image.rpartition(":")
    config = yaml.safe_load((OVERLAYS / "gpu-example" / "config.yaml").read_text())
    values = tmp_path / "values.yaml"
    values.write_text(
        json.dumps({"image": {"repository": repository, "tag": tag}, "config": config})
    )
    namespace = "device-plugin-chart"
    words = [f"--namespace={namespace}", f"--kubeconfig={kubectl.kubeconfig}", "--wait"]
    kubectl("create", "namespace", namespace)
    kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=privileged")
    try:
        programs.run("helm", "install", "device-plugin", str(CHART), *words, f"--values={values}")
        kubectl.wait_resource("example.com/gpu", 8)
        programs.run("helm", "uninstall", "device-plugin", *words)
        kubectl.wait_resource("example.com/gpu", 0)
    finally:
        kubectl("delete", "namespace", namespace, timeout=180)


def test_what_can_never_be_is_refused_when_it_is_made(
    kubectl: Kubectl, start_pod: Callable[..., TestPod]
) -> None:
    policy = str(ROOT / "examples" / "admission-policy.yaml")
    kubectl("apply", "--filename", policy)
    try:
        eventually(lambda: _refused(start_pod, "example.com/gpu", 3), 30)
        start_pod({}).wait_running()
    finally:
        kubectl("delete", "--filename", policy)


def _refused(start_pod: Callable[..., TestPod], resource: str, count: int) -> bool:
    """A new policy takes a moment."""
    try:
        start_pod({resource: count})
    except Refused as why:
        return f"at most 2 of {resource}" in str(why)
    return False


def test_a_limit_range_refuses_it_too(
    kubectl: Kubectl, start_pod: Callable[..., TestPod], install: Callable[[str], Deployment]
) -> None:
    """And a container that it gives a 0 runs, while the resource has a healthy device."""
    install("gpu-example").wait_ready()
    limits = {"example.com/gpu": 0}
    rule = {"type": "Container", "max": {"example.com/gpu": 2}}
    spec = {"limits": [rule | {"default": limits, "defaultRequest": limits}]}
    metadata = {"name": "devices"}
    kubectl.apply({"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": spec})
    try:
        with pytest.raises(Refused, match=r"maximum example\.com/gpu usage per Container is 2"):
            start_pod({"example.com/gpu": 3})
        start_pod({}).wait_running()
    finally:
        kubectl("delete", "limitrange", "devices", "-n", kubectl.namespace)
