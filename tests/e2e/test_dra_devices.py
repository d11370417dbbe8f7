"""What DRA offers besides whole GPUs: shares, parts, nodes that come and go, their health."""

from collections.abc import Callable, Iterator

import dra
import pytest
from deployment import Deployment
from kubectl import Kubectl, Object, Refused, TestPod, eventually
from local import DEVICES, NULL, Node, make_node

StartPod = Callable[..., TestPod]
Figure = Callable[[str, object], None]
Make = Callable[..., None]
CONFIG = dra.DEVICES
SHARED, PARTS = "example.com/shared", "example.com/parts"
FULL, STICK = "example.com/full", "example.com/stick"
TAINT = f"{dra.DRIVER}/unhealthy"


@pytest.fixture
def offer(make: Make) -> Callable[..., None]:
    """A DeviceClass of a resource, and a template for one device of it, both called `name`."""

    def made(name: str, resource: str, *conditions: str, **more: object) -> None:
        make(
            dra.device_class(name, dra.of_resource(resource)),
            dra.template(name, dra.request(name, *conditions, **more)),
        )

    return made


def test_a_device_is_shared(
    kubectl: Kubectl,
    driver: Deployment,
    offer: Callable[..., None],
    start_pod: StartPod,
    figure: Figure,
) -> None:
    """`replicas: 4` is consumable capacity."""
    ((name, device),) = dra.devices(kubectl, SHARED).items()
    figure("consumable capacity, as accepted", device)
    assert device["allowMultipleAllocations"] is True
    assert device["capacity"]["replicas"]["value"] == "4"
    offer("share", SHARED)
    offer("two-shares", SHARED, capacity={"requests": {"replicas": "2"}})
    pods = [start_pod({}, claims=dra.by(one)) for one in ("share", "share", "two-shares")]
    for pod in pods:
        pod.wait_running()
    given = [dra.results(kubectl, pod.claim("gpu"))[0] for pod in pods]
    assert {one["device"] for one in given} == {name}
    assert len({one["shareID"] for one in given}) == 3
    assert [one["consumedCapacity"]["replicas"] for one in given] == ["1", "1", "2"]
    assert all(pod.report()["env"]["SHARED"].startswith(name) for pod in pods)
    late = start_pod({}, claims=dra.by("share"))
    assert late.waits()
    pods[0].delete()
    late.wait_running()
    dra.wait_prepared(driver, 3)


def test_a_device_is_taken_whole_or_in_parts(
    kubectl: Kubectl,
    driver: Deployment,
    make: Make,
    start_pod: StartPod,
    figure: Figure,
) -> None:
    found = dra.wait_whole(kubectl)
    counters = [one["spec"]["sharedCounters"] for one in found if "sharedCounters" in one["spec"]]
    figure("shared counters, as accepted", counters)
    assert counters
    parts = dra.devices(kubectl, PARTS)
    assert len(parts) == 1 + 2 + 4
    assert all(one["consumesCounters"] for one in parts.values())
    part = f'device.attributes["{dra.DRIVER}"].partition'
    whole = f'!("partition" in device.attributes["{dra.DRIVER}"])'
    sorts = {"whole": whole}
    sorts |= {name: f"!({whole}) && {part} == '{name}'" for name in ("half", "quarter")}
    make(
        dra.device_class("part", dra.of_resource(PARTS)),
        *(dra.template(name, dra.request("part", one)) for name, one in sorts.items()),
    )
    pods = [start_pod({}, claims=dra.by(name)) for name in ("half", "quarter", "quarter")]
    given = [pod.wait_running().report()["env"]["PART"] for pod in pods]
    assert len(set(given)) == 3
    figure("parts", given)
    late = [start_pod({}, claims=dra.by(name)) for name in ("half", "whole")]
    assert all(pod.waits() for pod in late)
    pods[1].delete()
    pods[2].delete()
    late[0].wait_running()
    assert late[1].waits()
    late[0].delete()
    pods[0].delete()
    late[1].wait_running()


def test_a_pod_sees_exactly_what_the_config_promises(
    driver: Deployment, offer: Callable[..., None], start_pod: StartPod
) -> None:
    offer("full", FULL)
    words = "open=/dev/e2e-full"
    report = start_pod({}, words, claims=dra.by("full")).wait_running().report()
    assert report["nodes"]["/dev/e2e-full"] == "c 1:7"
    assert report["opened"] == {"/dev/e2e-full": "ok"}
    assert report["env"]["E2E_FULL"] == "/dev/e2e-full"
    assert report["env"]["E2E_ID"] == "full"
    assert "ro" in report["mounts"]["/e2e/zoneinfo"].split(",")
    assert "SHARED" not in report["env"]
    without = start_pod({}).wait_running().report()
    assert "/dev/e2e-full" not in without["nodes"]


def _plug() -> None:
    make_node("ttyD0", NULL)
    link = DEVICES / "by-id" / "usb-e2e_dra_1"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to("../ttyD0")


def _unplug() -> None:
    (DEVICES / "by-id" / "usb-e2e_dra_1").unlink()
    (DEVICES / "ttyD0").unlink()


def _taints(kubectl: Kubectl) -> list[Object]:
    found = dra.devices(kubectl, STICK).values()
    return [taint for device in found for taint in device.get("taints", [])]


@pytest.mark.local_node
def test_a_lost_device_is_tainted_and_comes_back(
    kubectl: Kubectl,
    driver: Deployment,
    node: Node,
    *,
    offer: Callable[..., None],
    start_pod: StartPod,
    figure: Figure,
) -> None:
    _plug()
    eventually(lambda: dra.free(kubectl, STICK), 30, driver.log)
    offer("stick", STICK)
    pod = start_pod({}, claims=dra.by("stick")).wait_running()
    assert pod.report()["nodes"]["/dev/stick"] == "c 1:3"
    identity = pod.identity()
    eventually(lambda: list(pod.health("claim:gpu").values()) == ["Healthy"], 60, pod.status)

    _unplug()
    (taint,) = eventually(lambda: _taints(kubectl), 30, lambda: dra.slices(kubectl))
    figure("taint", taint)
    assert (taint["key"], taint["effect"]) == (TAINT, "NoSchedule")
    eventually(lambda: list(pod.health("claim:gpu").values()) == ["Unhealthy"], 60, pod.status)
    status = pod.container()["allocatedResourcesStatus"]
    figure("Pod's status", status)
    assert "removed" in status[0]["resources"][0].get("message", "")
    assert pod.identity() == identity
    late = start_pod({}, claims=dra.by("stick"))
    assert late.waits()

    _plug()
    eventually(lambda: dra.free(kubectl, STICK), 30, lambda: dra.slices(kubectl))
    eventually(lambda: list(pod.health("claim:gpu").values()) == ["Healthy"], 60, pod.status)
    pod.delete()
    assert late.wait_running().report()["nodes"]["/dev/stick"] == "c 1:3"


@pytest.fixture
def evicting(driver: Deployment) -> Iterator[None]:
    dra_line = f"dra: {{driver: {dra.DRIVER}}}"
    assert dra_line in CONFIG
    driver.edit(CONFIG.replace(dra_line, f"dra: {{driver: {dra.DRIVER}, unhealthy: NoExecute}}"))
    yield
    driver.edit(CONFIG)


@pytest.mark.local_node
def test_the_holder_of_a_lost_device_is_evicted_if_told(
    kubectl: Kubectl,
    driver: Deployment,
    node: Node,
    *,
    evicting: None,
    offer: Callable[..., None],
    start_pod: StartPod,
) -> None:
    _plug()
    eventually(lambda: dra.free(kubectl, STICK), 30, driver.log)
    offer("stick", STICK)
    pod = start_pod({}, claims=dra.by("stick")).wait_running()
    _unplug()
    eventually(lambda: _gone(kubectl, pod), 120, pod.describe)
    dra.wait_prepared(driver, 0)


def _gone(kubectl: Kubectl, pod: TestPod) -> bool:
    try:
        return bool(pod.status()["phase"] == "Failed")
    except Refused as why:
        return "NotFound" in str(why)


def test_a_disabled_device_is_tainted(kubectl: Kubectl, driver: Deployment) -> None:
    driver.run("disable", "full", "--reason", "being looked at")
    try:
        eventually(lambda: not dra.free(kubectl, FULL), 30, lambda: dra.slices(kubectl))
    finally:
        driver.run("enable", "full")
    eventually(lambda: dra.free(kubectl, FULL), 30)
