"""The DaemonSet, and what an admin sees of it."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from deployment import Deployment
from kubectl import Kubectl, eventually
from local import Node


def test_node_describes_the_resources(
    kubectl: Kubectl, plugin: Deployment, figure: Callable[[str, object], None]
) -> None:
    kubectl.wait_resource("example.com/licence", 2)
    described = kubectl("describe", "node", kubectl.node())
    for section in ("Capacity", "Allocatable"):
        block = re.search(rf"^{section}:\n((?: .*\n)+)", described, re.MULTILINE)
        assert block
        assert re.search(r"example\.com/full: +2\n", block[1])
        assert re.search(r"example\.com/licence: +2\n", block[1])
        figure(section, "\n" + block[1].rstrip())


def test_pod_is_as_little_privileged_as_it_can_be(kubectl: Kubectl, plugin: Deployment) -> None:
    spec = plugin.pod()["spec"]
    assert not any(spec.get(key) for key in ("hostNetwork", "hostPID", "hostIPC"))
    assert spec["enableServiceLinks"] is False
    assert not [v for v in spec["volumes"] if "projected" in v], "no token"
    context = spec["containers"][0]["securityContext"]
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["readOnlyRootFilesystem"]
    assert not context["allowPrivilegeEscalation"]
    assert not context.get("privileged")


@pytest.mark.local_node
def test_memory(plugin: Deployment, node: Node, figure: Callable[[str, object], None]) -> None:
    container = plugin.pod()["status"]["containerStatuses"][0]["containerID"]
    status = Path(f"/proc/{node.container_pid(container)}/status").read_text()
    sizes = {line.split()[0]: int(line.split()[1]) for line in status.splitlines() if "kB" in line}
    figure("plugin's resident memory", f"{sizes['VmRSS:'] / 1024:.1f} MiB")
    figure("of it not shared with files", f"{sizes['RssAnon:'] / 1024:.1f} MiB")
    assert sizes["VmRSS:"] < 64 << 10, "what the DaemonSet asks for"


def test_a_refused_config_is_named_in_the_log(
    kubectl: Kubectl, plugin: Deployment, image: str, tmp_path: Path
) -> None:
    volumes: list[object] = [{"name": "state", "hostPath": None, "emptyDir": {}}]
    patch = json.dumps(
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "device-plugin"},
            "spec": {"template": {"spec": {"volumes": volumes}}},
        }
    )
    bad = Deployment(kubectl, tmp_path / "bad", "device-plugin-bad", image)
    bad.apply("version: 1\nresources:\n  - name: example.com/x\n    devises: []\n", patch)
    try:
        # The container starts again and again, each time with an empty log.
        said = eventually(lambda: log if ":4:5" in (log := bad.log()) else None, 60, bad.log)
        assert "devices" in said, "the suggestion"
        status = kubectl.get("daemonset", "device-plugin", namespace=bad.namespace)["status"]
        assert status["numberReady"] == 0
    finally:
        bad.delete()
