"""What `manifests` prints and what the chart makes for resources with `api: dra`, installed."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dra
import pytest
import yaml
from deployment import Deployment, OnTheNode
from kubectl import Kubectl, Object, TestPod, eventually

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "manifests"))

import programs  # noqa: E402 - where helm comes from

CHART = ROOT / "manifests" / "helm" / "device-plugin"
# Without the resource that has a device only while a test gives it one.
CONFIG = yaml.safe_load(dra.DEVICES)
CONFIG["resources"] = [one for one in CONFIG["resources"] if "stick" not in one["name"]]


@pytest.fixture(scope="module", autouse=True)
def _nobody_else(on_the_node: OnTheNode) -> None:
    """One daemon a node: the other tests' makes room."""
    on_the_node.clear()


@pytest.fixture
def printed(kubectl: Kubectl, image: str, tmp_path: Path) -> Iterator[list[Object]]:
    """All that `manifests` prints; what has a namespace or needs none is there but for Pods."""
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(CONFIG, sort_keys=False))
    command = [sys.executable, "-m", "device_plugin", "manifests"]
    command += [f"--config={config}", f"--image={image}", "--namespace=device-plugin-printed"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: list[Object] = [one for one in yaml.safe_load_all(said) if one]
    users = [one for one in found if one["kind"] in ("Pod", "ResourceClaimTemplate")]
    daemon = json.dumps(
        {"apiVersion": "v1", "kind": "List", "items": [one for one in found if one not in users]}
    )
    kubectl("apply", "-f", "-", given=daemon)
    kubectl.apply(*(one for one in users if one["kind"] != "Pod"))
    yield users
    kubectl.delete(*users)
    kubectl("delete", "-f", "-", "--ignore-not-found", given=daemon, timeout=180)


def test_what_manifests_prints(
    kubectl: Kubectl, printed: list[Object], image: str, tmp_path: Path
) -> None:
    """Each of its trial Pods gets a device: whole, a share or a part, by claim or by limits."""
    Deployment(kubectl, tmp_path, "device-plugin-printed", image).wait_ready()
    dra.wait_whole(kubectl, lambda found: any(one["spec"].get("devices") for one in found))
    kubectl.wait_resource("example.com/licence", 2)
    pods = [one for one in printed if one["kind"] == "Pod"]
    assert len(pods) > len(CONFIG["resources"]), "by claim, too"
    for one in pods:
        ours = {"image": image, "command": ["python3", "-c", "pass"]}
        one["spec"]["containers"][0].update(ours)
        kubectl.apply(one)
        pod = TestPod(kubectl, one["metadata"]["name"])
        pod.wait_phase("Succeeded")
        pod.delete()
    eventually(lambda: not kubectl.get("resourceclaims")["items"], 30)


def test_the_chart(kubectl: Kubectl, image: str, tmp_path: Path) -> None:
    repository, _, tag = image.rpartition(":")
    values = {
        "image": {"repository": repository, "tag": tag},
        "config": CONFIG,
        "dra": {"enabled": True, "deviceClasses": True},
    }
    (tmp_path / "values.yaml").write_text(json.dumps(values))
    namespace = "device-plugin-chart"
    words = [f"--namespace={namespace}", f"--kubeconfig={kubectl.kubeconfig}", "--wait"]
    kubectl("create", "namespace", namespace)
    kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=privileged")
    try:
        given = f"--values={tmp_path / 'values.yaml'}"
        programs.run("helm", "install", "device-plugin", str(CHART), *words, given)
        eventually(lambda: dra.free(kubectl, "example.com/shared"), 30)
        classes = kubectl.get("deviceclasses")["items"]
        extended = {one["spec"].get("extendedResourceName", "") for one in classes}
        assert extended >= {one["name"] for one in CONFIG["resources"] if "api" in one}
        programs.run("helm", "uninstall", "device-plugin", *words)
    finally:
        kubectl("delete", "namespace", namespace, timeout=180)
    assert not kubectl.get("deviceclasses")["items"]
