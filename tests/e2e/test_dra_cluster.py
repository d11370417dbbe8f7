"""What the driver may do in the cluster, what it costs, and the cluster's own troubles."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dra
import pytest
from cluster.node import Process
from deployment import Deployment
from kubectl import Kubectl, Object, Refused, TestPod, eventually
from local import Node

StartPod = Callable[..., TestPod]
Figure = Callable[[str, object], None]
Make = Callable[..., None]
CONFIG = dra.GPUS
CLASS = dra.DRIVER


def _slice(node: str) -> Object:
    """Of a driver that nobody is."""
    spec = {
        "driver": "other.example.com",
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "one"}],
    }
    metadata = {"name": f"e2e-{node}"}
    return {"apiVersion": dra.API, "kind": "ResourceSlice", "metadata": metadata, "spec": spec}


@pytest.fixture
def as_driver(kubectl: Kubectl, driver: Deployment) -> Iterator[Callable[..., str]]:
    """kubectl as the driver's service account, from the given node."""
    account = f"system:serviceaccount:{driver.namespace}:device-plugin"
    groups = ("system:serviceaccounts", "system:authenticated")
    words = [f"--as={account}", *(f"--as-group={group}" for group in groups)]

    def run(*arguments: str, node: str = "", given: Object | None = None) -> str:
        extra = [f"--as-user-extra=authentication.kubernetes.io/node-name={node}"] if node else []
        text = None if given is None else json.dumps(given)
        return kubectl(*arguments, *words, *extra, given=text)

    yield run
    kubectl.delete(_slice(kubectl.node()), _slice("another"))


def test_it_may_do_little(as_driver: Callable[..., str], figure: Figure) -> None:
    may = as_driver("auth", "can-i", "--list", "--no-headers")
    own = [line for line in may.splitlines() if "selfsubject" not in line and "[/" not in line]
    figure("what the driver may do", "\n" + "\n".join(own))
    for verb, what in (
        ("update", "resourceclaims"),
        ("list", "pods"),
        ("get", "secrets"),
        ("update", "nodes"),
        ("create", "deviceclasses.resource.k8s.io"),
    ):
        with pytest.raises(Refused):
            as_driver("auth", "can-i", verb, what, "--all-namespaces", "--quiet")


@pytest.mark.parametrize("where", ["", "another"])
def test_it_may_write_slices_of_its_own_node_only(
    kubectl: Kubectl, as_driver: Callable[..., str], where: str, figure: Figure
) -> None:
    own = kubectl.node()
    with pytest.raises(Refused) as why:
        as_driver("create", "-f", "-", node=where, given=_slice(own))
    figure("slices of another node", str(why.value))
    as_driver("create", "-f", "-", node=own, given=_slice(own))
    delete = ["delete", "--raw", f"/apis/{dra.API}/resourceslices/e2e-{own}"]
    with pytest.raises(Refused):
        as_driver(*delete, node=where)
    as_driver(*delete, node=own)


def test_the_pod_is_as_little_privileged_as_it_can_be(kubectl: Kubectl, driver: Deployment) -> None:
    spec = driver.pod()["spec"]
    assert not any(spec.get(key) for key in ("hostNetwork", "hostPID", "hostIPC"))
    assert [v["name"] for v in spec["volumes"] if "projected" in v], "its token"
    context = spec["containers"][0]["securityContext"]
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["readOnlyRootFilesystem"]
    assert not context.get("privileged")


@pytest.mark.local_node
def test_memory(driver: Deployment, node: Node, figure: Figure) -> None:
    dra_container, _ = driver.identity()
    status = Path(f"/proc/{node.container_pid(dra_container)}/status").read_text()
    sizes = {line.split()[0]: int(line.split()[1]) for line in status.splitlines() if "kB" in line}
    figure("driver's resident memory", f"{sizes['VmRSS:'] / 1024:.1f} MiB")
    figure("driver's, not shared with files", f"{sizes['RssAnon:'] / 1024:.1f} MiB")
    limit = driver.pod()["spec"]["containers"][0]["resources"]["requests"]["memory"]
    assert sizes["VmRSS:"] < int(limit.removesuffix("Mi")) << 10, "what the DaemonSet asks for"


@pytest.fixture
def stopped_api(node: Node) -> Iterator[Callable[[], None]]:
    """Have the API server stand still; it goes on when it is called again, or afterwards."""
    process = Process("kube-apiserver")
    outer, pid = process.outer, process.pid
    assert outer is not None
    assert pid is not None
    stop = [pid]

    def turn() -> None:
        if stop:
            os.kill(stop.pop(), signal.SIGSTOP)
            return
        for one in (pid, outer):  # nsenter stands still with its child
            os.kill(one, signal.SIGCONT)

    yield turn
    stop.clear()
    turn()


@pytest.mark.local_node
def test_the_api_server_stands_still(
    kubectl: Kubectl,
    driver: Deployment,
    make: Make,
    *,
    start_pod: StartPod,
    stopped_api: Callable[[], None],
    figure: Figure,
) -> None:
    make(dra.device_class(CLASS), dra.template("any-gpu", dra.request(CLASS)))
    pod = start_pod({}, claims=dra.by("any-gpu")).wait_running()
    identity, own = pod.identity(), driver.identity()
    before = dra.wait_whole(kubectl)
    stopped_api()
    time.sleep(25)  # longer than any call of the driver's may take
    stopped_api()
    eventually(lambda: _answers(kubectl), 60)
    kubectl("delete", "resourceslices", f"--field-selector=spec.nodeName={kubectl.node()}")
    started = time.monotonic()
    dra.wait_whole(kubectl, timeout=90)
    figure("API server back, slices deleted -> there again", time.monotonic() - started)
    assert len(dra.slices(kubectl)) == len(before)
    assert pod.identity() == identity
    assert driver.identity() == own, "no restart"
    late = start_pod({}, claims=dra.by("any-gpu")).wait_running()
    assert late.report()["env"]["GPU"] != pod.report()["env"]["GPU"]


def _answers(kubectl: Kubectl) -> bool:
    try:
        return bool(kubectl("get", "--raw", "/readyz"))
    except Refused:
        return False
