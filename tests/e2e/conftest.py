"""One cluster for all e2e tests: the one in E2E_KUBECONFIG, or our own. See cluster/."""

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # tests are no package

from cluster import cluster as clusters
from cluster import images, places
from deployment import Deployment, OnTheNode
from kubectl import Kubectl, Object, TestPod, eventually
from local import Node, remove_devices

HERE = Path(__file__).parent
NAMESPACE = "device-plugin-e2e"
GIVEN = os.environ.get("E2E_KUBECONFIG")  # never KUBECONFIG: that may be production
IMAGE = os.environ.get("E2E_IMAGE", "")
_LEFT_OUT = pytest.StashKey[int]()
_FIGURES: list[str] = []


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "local_node: needs the node itself, not only its cluster")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.timeout(300))
    needy = [item for item in items if GIVEN and item.get_closest_marker("local_node")]
    config.stash[_LEFT_OUT] = len(needy)
    for item in needy:
        item.add_marker(pytest.mark.skip(reason="needs the node itself: E2E_KUBECONFIG is set"))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for line in _FIGURES:
        terminalreporter.write_line(line)
    left_out = config.stash.get(_LEFT_OUT, 0)
    if left_out:
        terminalreporter.write_line(f"{left_out} tests left out: they need the node", yellow=True)


@pytest.fixture(scope="session")
def figure() -> Callable[[str, object], None]:
    """Say a measured figure at the end of the report."""

    def add(name: str, value: object) -> None:
        text = f"{value:.3f} s" if isinstance(value, float) else str(value)
        _FIGURES.append(f"figure: {name}: {text}")

    return add


@pytest.fixture(scope="session")
def cluster(figure: Callable[[str, object], None]) -> clusters.Cluster | None:
    """Our own cluster; None where one is given."""
    if GIVEN:
        if not IMAGE:
            pytest.exit("e2e: E2E_KUBECONFIG needs E2E_IMAGE: the image that its nodes have", 1)
        return None
    try:
        running = clusters.up(places.version(), _say)
    except places.CannotStart as why:
        pytest.exit(f"e2e: {why}", returncode=1)
    for name, seconds in running.took.items():
        figure(f"cluster, {name}", seconds)
    return running


def _say(line: str) -> None:
    print(line, file=sys.__stderr__, flush=True)


@pytest.fixture(scope="session")
def image(cluster: clusters.Cluster | None, figure: Callable[[str, object], None]) -> str:
    """The name of the plugin's image, known to the nodes."""
    if cluster is None:
        return IMAGE
    archive = images.plugin()
    figure("image, compressed", f"{archive.stat().st_size / 1e6:.1f} MB")
    cluster.load(archive)
    return images.PLUGIN


@pytest.fixture(scope="session")
def kubectl(cluster: clusters.Cluster | None) -> Iterator[Kubectl]:
    """kubectl with a namespace for the tests' Pods."""
    program = cluster.program("kubectl") if cluster else "kubectl"
    kubectl = Kubectl(program, cluster.kubeconfig if cluster else str(GIVEN), NAMESPACE)
    kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    eventually(lambda: kubectl.get("serviceaccounts")["items"], 30)
    yield kubectl
    kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", timeout=180)


@pytest.fixture(scope="session")
def on_the_node() -> Iterator[OnTheNode]:
    """Which of the daemons is there; none afterwards."""
    daemons = OnTheNode()
    yield daemons
    daemons.clear()


@pytest.fixture(scope="session")
def deployment(
    kubectl: Kubectl, image: str, tmp_path_factory: pytest.TempPathFactory
) -> Deployment:
    """The DaemonSet that has no token."""
    folder = tmp_path_factory.mktemp("deployment")
    return Deployment(kubectl, folder, f"{NAMESPACE}-daemon", image)


@pytest.fixture(scope="session")
def dra_deployment(
    kubectl: Kubectl, image: str, tmp_path_factory: pytest.TempPathFactory
) -> Deployment:
    """The DaemonSet with components/dra."""
    folder = tmp_path_factory.mktemp("dra")
    return Deployment(kubectl, folder, f"{NAMESPACE}-dra", image, ["dra"])


@pytest.fixture(scope="module")
def plugin(
    deployment: Deployment, on_the_node: OnTheNode, figure: Callable[[str, object], None]
) -> Deployment:
    """The DaemonSet, rolled out and Ready."""
    took = on_the_node.put(deployment, (HERE / "config.yaml").read_text())
    if took:
        figure("DaemonSet applied -> Ready", took)
    return deployment


@pytest.fixture(scope="module")
def driver(
    request: pytest.FixtureRequest, dra_deployment: Deployment, on_the_node: OnTheNode
) -> Deployment:
    """The same as DRA driver, Ready, with the module's CONFIG."""
    on_the_node.put(dra_deployment, request.module.CONFIG)
    return dra_deployment


@pytest.fixture
def make(kubectl: Kubectl) -> Iterator[Callable[..., None]]:
    """Make objects in the cluster; they are gone afterwards, later than the Pods."""
    made: list[Object] = []

    def apply(*objects: Object) -> None:
        made.extend(objects)
        kubectl.apply(*objects)

    yield apply
    if made:
        kubectl.delete(*made)


@pytest.fixture
def node(cluster: clusters.Cluster | None) -> Iterator[Node]:
    """The node itself; its devices are gone afterwards, and its kubelet runs."""
    assert cluster is not None
    node = Node(cluster)
    remove_devices()
    yield node
    remove_devices()
    if not node.kubelet_runs():
        node.start_kubelet({})


@pytest.fixture
def start_pod(
    kubectl: Kubectl, image: str, request: pytest.FixtureRequest, make: Callable[..., None]
) -> Iterator[Callable[..., TestPod]]:
    """Start Pods that run `inside`; they are gone afterwards."""
    prefix = re.sub("[^a-z0-9]+", "-", request.node.name.removeprefix("test_"))[:40].strip("-")
    started: list[TestPod] = []

    def start(
        limits: dict[str, int],
        *words: str,
        init: dict[str, int] | None = None,
        restart: str = "Always",
        claims: Mapping[str, Object] | None = None,
        runtime: str | None = None,
    ) -> TestPod:
        pod = TestPod(kubectl, f"{prefix}-{len(started)}")
        started.append(pod)
        spec: Object = {
            "terminationGracePeriodSeconds": 1,
            "restartPolicy": restart,
            "automountServiceAccountToken": False,
            "containers": [_container("main", image, limits, words)],
        }
        if runtime is not None:
            spec["runtimeClassName"] = runtime
        if init is not None:
            spec["initContainers"] = [_container("init", image, init, ["done"])]
        if claims:
            spec["resourceClaims"] = [{"name": name} | claim for name, claim in claims.items()]
            spec["containers"][0]["resources"]["claims"] = [{"name": name} for name in claims]
        metadata = {"name": pod.name}
        kubectl.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        return pod

    yield start
    if started:
        names = [pod.name for pod in started]
        kubectl("delete", "pods", *names, "-n", NAMESPACE, "--now", "--ignore-not-found")


def _container(
    name: str, image: str, limits: dict[str, int], words: tuple[str, ...] | list[str]
) -> Object:
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", (HERE / "inside.py").read_text(), *words],
        "resources": {"limits": limits},
    }
