"""examples/kind/demo.sh on this cluster: all that docs/kind.md shows but what kind itself does."""

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import without_docker
from cluster.cluster import Cluster
from cluster.places import PROJECT
from deployment import OnTheNode
from kubectl import Kubectl, Object

pytestmark = pytest.mark.local_node

HERE = PROJECT / "examples" / "kind"
DOCUMENT = (PROJECT / "docs" / "kind.md").read_text()


def commands(text: str) -> list[str]:
    return re.findall(r"^\$ (.*)$", text, re.MULTILINE)


def left(kubectl: Kubectl) -> list[Object]:
    """What the demo made and has not taken away; the kubelet takes the slices, a while later."""
    return [
        found
        for kind in ("deviceclasses", "clusterroles", "namespaces", "pods")
        for found in kubectl.get(kind, namespace="default")["items"]
        if re.match("device-plugin(-dra)?$|gpu\\.|both$", found["metadata"]["name"])
    ]


@pytest.fixture
def printed(
    cluster: Cluster, kubectl: Kubectl, on_the_node: OnTheNode, image: str, tmp_path: Path
) -> Iterator[str]:
    """All that it printed; whatever it came to, its objects are gone afterwards."""
    assert image, "which `make image` then finds made"
    on_the_node.clear()
    done = subprocess.run(
        without_docker.DEMO,
        env=without_docker.environment(tmp_path, cluster),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    yield done.stdout + ("" if done.returncode == 0 else f"\nexit status {done.returncode}")
    for given in (["-f", str(HERE / "pod.yaml"), "-n", "default"], ["-k", str(HERE)]):
        kubectl("delete", *given, "--ignore-not-found", timeout=180)


def test_the_demo(printed: str, kubectl: Kubectl, figure: Callable[[str, object], None]) -> None:
    figure("make kind-demo ON=e2e", printed)
    assert "exit status" not in printed
    (shown,) = re.findall(r"```console\n(.*?)```", DOCUMENT, re.DOTALL)
    assert commands(printed) == commands(shown), "docs/kind.md shows them as they are"
    assert re.search(r"^licence-\d-\w+ gpu-\d-\S+ (40|80)Gi$", printed, re.MULTILINE)
    assert re.search(r"^both-gpu-\w+ +allocated,reserved", printed, re.MULTILINE)
    assert left(kubectl) == []
