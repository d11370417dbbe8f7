"""The walk-through of the Kubernetes documentation, with simulated GPUs of 24, 40 and 80 GiB."""

import re
from collections.abc import Callable

import dra
import pytest
from deployment import Deployment
from kubectl import Kubectl, Object, TestPod, eventually

StartPod = Callable[..., TestPod]
Figure = Callable[[str, object], None]
Make = Callable[..., None]
CONFIG = dra.GPUS
GPU, CLASS = "example.com/gpu", dra.DRIVER
SMALL, MIDDLE, LARGE = "24Gi", "40Gi", "80Gi"


def _by_memory(kubectl: Kubectl) -> dict[str, str]:
    """The name of the device of each size."""
    found = dra.devices(kubectl, GPU)
    return {one["capacity"]["memory"]["value"]: name for name, one in found.items()}


def test_the_node_has_its_slice(kubectl: Kubectl, driver: Deployment, figure: Figure) -> None:
    (one,) = dra.wait_whole(kubectl)
    node = kubectl.get("node", kubectl.node())["metadata"]
    table = kubectl("get", "resourceslices")
    figure("kubectl get resourceslices", "\n" + table.rstrip())
    row = [line.split() for line in table.splitlines() if dra.DRIVER in line]
    assert [words[1:4] for words in row] == [[node["name"], dra.DRIVER, node["name"]]]
    assert one["spec"]["pool"]["name"] == node["name"]
    owner = one["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Node", node["name"], node["uid"])
    sizes = [device["capacity"]["memory"]["value"] for device in one["spec"]["devices"]]
    assert sizes == [SMALL, MIDDLE, LARGE]
    attributes = one["spec"]["devices"][0]["attributes"]
    assert (
        attributes.items()
        >= {
            "model": {"string": "small"},
            "generation": {"int": 1},
            "display": {"bool": True},
            "firmware": {"version": "1.4.0"},
            "resource": {"string": GPU},
        }.items()
    )
    figure("a ResourceSlice", "\n" + kubectl("describe", "resourceslice", one["metadata"]["name"]))


def test_nothing_is_written_when_nothing_changed(kubectl: Kubectl, driver: Deployment) -> None:
    before = dra.wait_whole(kubectl)
    audited = re.compile(r"device_plugin_discovery_duration_seconds_count (\S+)")

    def looks() -> float:
        found = audited.search(driver.get("/metrics"))
        return float(found[1]) if found else 0.0

    count = looks()
    eventually(lambda: looks() >= count + 2, 60, lambda: driver.get("/metrics"))
    assert dra.slices(kubectl) == before


def test_a_claim_chooses_by_memory(
    kubectl: Kubectl, driver: Deployment, make: Make, start_pod: StartPod, figure: Figure
) -> None:
    wanted = dra.request(CLASS, dra.memory(MIDDLE))
    make(dra.device_class(CLASS), dra.template("large-gpu", wanted))
    pod = start_pod({}, claims=dra.by("large-gpu")).wait_running()
    env, sizes = pod.report()["env"], _by_memory(kubectl)
    assert env["GPU_MEMORY"] in (MIDDLE, LARGE)
    assert env["GPU"] == sizes[env["GPU_MEMORY"]]
    figure("env of the Pod", {key: env[key] for key in ("GPU", "GPU_MEMORY", "GPU_MODEL")})
    name = pod.claim("gpu")
    (given,) = dra.results(kubectl, name)
    assert (given["driver"], given["pool"]) == (dra.DRIVER, kubectl.node())
    assert given["device"] == env["GPU"]
    described = kubectl("describe", "resourceclaim", name, "-n", kubectl.namespace)
    figure("kubectl describe resourceclaim", "\n" + described.rstrip())
    assert re.search(rf"Device: +{env['GPU']}\n", described)
    assert pod.name in described, "for whom it is reserved"
    dra.wait_prepared(driver, 1)
    pod.delete()
    dra.wait_prepared(driver, 0)
    eventually(lambda: not kubectl.get("resourceclaims")["items"], 30)


def test_what_no_device_has_waits_with_the_reason(
    kubectl: Kubectl, driver: Deployment, make: Make, start_pod: StartPod, figure: Figure
) -> None:
    wanted = dra.request(CLASS, dra.memory("100Gi"))
    make(dra.device_class(CLASS), dra.template("huge-gpu", wanted))
    pod = start_pod({}, claims=dra.by("huge-gpu"))
    assert "cannot allocate all claims" in pod.waits()
    figure("100Gi", pod.waits())
    assert pod.status()["phase"] == "Pending"
    assert dra.prepared(driver) == 0


def test_two_pods_share_a_claim(
    kubectl: Kubectl, driver: Deployment, make: Make, start_pod: StartPod
) -> None:
    wanted = dra.request(CLASS, dra.memory(LARGE))
    make(dra.device_class(CLASS), dra.claim("one-gpu", wanted))
    pods = [start_pod({}, claims=dra.shared("one-gpu")) for _ in range(2)]
    given = {pod.wait_running().report()["env"]["GPU"] for pod in pods}
    assert given == {_by_memory(kubectl)[LARGE]}
    assert dra.prepared(driver) == 1
    pods[0].delete()
    assert dra.prepared(driver) == 1
    identity = pods[1].identity()
    pods[1].restart()
    assert pods[1].identity()[0] != identity[0]
    assert {pods[1].report()["env"]["GPU"]} == given
    pods[1].delete()
    dra.wait_prepared(driver, 0)
    eventually(lambda: not dra.results(kubectl, "one-gpu"), 30)


def test_each_device_is_given_once_and_again(
    kubectl: Kubectl, driver: Deployment, make: Make, start_pod: StartPod
) -> None:
    make(dra.device_class(CLASS), dra.template("any-gpu", dra.request(CLASS)))
    pods = [start_pod({}, claims=dra.by("any-gpu")).wait_running() for _ in range(3)]
    given = [pod.report()["env"]["GPU"] for pod in pods]
    assert sorted(given) == sorted(_by_memory(kubectl).values())
    fourth = start_pod({}, claims=dra.by("any-gpu"))
    assert fourth.waits()
    pods[1].delete()
    assert fourth.wait_running().report()["env"]["GPU"] == given[1]


def test_several_devices_in_one_claim(
    kubectl: Kubectl, driver: Deployment, make: Make, start_pod: StartPod
) -> None:
    """Placeholders mean what they mean by the device plugin: values in the order of IDs."""
    wanted = dra.request(CLASS, dra.memory(MIDDLE), allocationMode="All")
    make(dra.device_class(CLASS), dra.template("all-large", wanted))
    pod = start_pod({}, claims=dra.by("all-large")).wait_running()
    sizes = _by_memory(kubectl)
    assert set(pod.report()["env"]["GPU"].split(",")) == {sizes[MIDDLE], sizes[LARGE]}
    assert sorted(pod.report()["env"]["GPU_MEMORY"].split(",")) == [MIDDLE, LARGE]


def test_the_first_that_is_there(
    kubectl: Kubectl, driver: Deployment, make: Make, start_pod: StartPod
) -> None:
    """A prioritized list: results name a sub-request, containers the request."""
    subs = [
        {
            "name": name,
            "deviceClassName": CLASS,
            "selectors": [{"cel": {"expression": dra.memory(size)}}],
        }
        for name, size in (("huge", "100Gi"), ("large", LARGE))
    ]
    wanted: Object = {"name": "wanted", "firstAvailable": subs}
    make(dra.device_class(CLASS), dra.template("best-gpu", wanted))
    pod = start_pod({}, claims=dra.by("best-gpu")).wait_running()
    assert pod.report()["env"]["GPU_MEMORY"] == LARGE
    assert [one["request"] for one in dra.results(kubectl, pod.claim("gpu"))] == ["wanted/large"]


def test_an_admin_looks_at_a_device_in_use(
    kubectl: Kubectl, driver: Deployment, make: Make, start_pod: StartPod
) -> None:
    label = "resource.kubernetes.io/admin-access"
    kubectl("label", "namespace", kubectl.namespace, f"{label}=true", "--overwrite")
    try:
        large = dra.request(CLASS, dra.memory(LARGE))
        admin = dra.request(CLASS, dra.memory(LARGE), adminAccess=True)
        make(dra.device_class(CLASS), dra.template("user", large), dra.template("admin", admin))
        user = start_pod({}, claims=dra.by("user")).wait_running()
        looking = start_pod({}, claims=dra.by("admin")).wait_running()
        assert looking.report()["env"]["GPU"] == user.report()["env"]["GPU"]
        looking.delete()
        dra.wait_prepared(driver, 1)
    finally:
        kubectl("label", "namespace", kubectl.namespace, f"{label}-")


def test_one_daemon_serves_both(
    kubectl: Kubectl, driver: Deployment, make: Make, start_pod: StartPod
) -> None:
    kubectl.wait_resource("example.com/licence", 2)
    assert kubectl.resource(GPU)[1] <= 0, "not offered both ways"
    make(dra.device_class(CLASS), dra.template("any-gpu", dra.request(CLASS)))
    claims = dra.by("any-gpu")
    env = start_pod({"example.com/licence": 1}, claims=claims).wait_running().report()["env"]
    assert env["GPU"] in _by_memory(kubectl).values()
    assert env["LICENCE"].startswith("licence-")


def test_parameters_of_class_and_claim(
    kubectl: Kubectl, driver: Deployment, make: Make, start_pod: StartPod
) -> None:
    of_class = [dra.parameters(env={"MODE": "fast", "OF_CLASS": "{id}"})]
    of_claim = [dra.parameters(env={"MODE": "slow"})]
    make(
        dra.device_class(CLASS, config=of_class),
        dra.template("tuned-gpu", dra.request(CLASS), config=of_claim),
    )
    env = start_pod({}, claims=dra.by("tuned-gpu")).wait_running().report()["env"]
    assert env["MODE"] == "slow", "the claim's wins"
    assert env["OF_CLASS"] == env["GPU"]


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"envs": {"MODE": "fast"}}, "envs"),
        ({"env": {"MODE": 1}}, "env.MODE"),
        ({"mounts": [{"host_path": "/etc", "path": "/host-etc"}]}, "mounts"),
    ],
    ids=["unknown-key", "wrong-type", "not-a-users"],
)
def test_parameters_that_do_not_validate(
    given: Object,
    names: str,
    *,
    driver: Deployment,
    make: Make,
    start_pod: StartPod,
    figure: Figure,
) -> None:
    config = [dra.parameters(**given)]
    make(dra.device_class(CLASS), dra.template("bad-gpu", dra.request(CLASS), config=config))
    pod = start_pod({}, claims=dra.by("bad-gpu"))
    said = eventually(
        lambda: [one for one in pod.events() if one.startswith("FailedPrepareDynamicResources")],
        60,
        pod.describe,
    )
    figure("bad parameters", said[0])
    assert names in said[0]
    assert dra.prepared(driver) == 0
