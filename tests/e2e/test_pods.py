"""What Pods get, and what they do not."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from deployment import Deployment
from kubectl import Kubectl, TestPod, eventually

StartPod = Callable[..., TestPod]

# What every container has, from the runtime.
_USUAL = {
    *("/dev/full", "/dev/null", "/dev/random", "/dev/tty", "/dev/urandom", "/dev/zero"),
    *("/dev/ptmx", "/dev/pts/ptmx"),
}


def _given(report: dict[str, dict[str, str]]) -> dict[str, str]:
    return {path: number for path, number in report["nodes"].items() if path not in _USUAL}


def _number(path: str) -> str:
    rdev = Path(path).stat().st_rdev
    return f"{os.major(rdev)}:{os.minor(rdev)}"


def test_pod_sees_exactly_what_the_config_promises(plugin: Deployment, start_pod: StartPod) -> None:
    report = start_pod({"example.com/full": 1}, "open=/dev/e2e-full").wait_running().report()
    assert _given(report) == {"/dev/e2e-full": "c 1:7"}
    assert report["opened"] == {"/dev/e2e-full": "ok"}
    assert report["env"]["E2E_FULL"] == "/dev/e2e-full"
    assert report["env"]["E2E_ID"] in ("full", "full-r1")
    assert "ro" in report["mounts"]["/e2e/zoneinfo"].split(",")
    assert "LICENCE" not in report["env"]


def test_pod_without_a_resource_gets_nothing(plugin: Deployment, start_pod: StartPod) -> None:
    assert _given(start_pod({}).wait_running().report()) == {}


@pytest.mark.local_node
@pytest.mark.parametrize("name", ["fuse", "kvm"])
def test_pod_opens_its_device_and_no_other(
    name: str, plugin: Deployment, start_pod: StartPod
) -> None:
    own, other = f"/dev/{name}", "/dev/kvm" if name == "fuse" else "/dev/fuse"
    if not Path(own).exists():
        pytest.skip(f"this machine has no {own}")
    # A container may make nodes; what it was not given it still cannot open.
    number = _number(other) if Path(other).exists() else "10:237"
    words = (f"open={own}", f"mknod={number}", f"mknod={_number(own)}")
    report = start_pod({f"example.com/{name}": 1}, *words).wait_running().report()
    assert _given(report) == {own: f"c {_number(own)}"}
    assert report["opened"] == {own: "ok"}
    assert report["made"] == {number: "EPERM", _number(own): "ok"}


def test_too_many_wait_for_the_scheduler_and_freed_ones_are_given_again(
    kubectl: Kubectl, plugin: Deployment, start_pod: StartPod
) -> None:
    first = start_pod({"example.com/licence": 2}).wait_running()
    held = first.report()["env"]["LICENCE"].split(",")
    assert len(set(held)) == 2
    second = start_pod({"example.com/licence": 1})

    def reason() -> str:
        conditions = second.status().get("conditions", [])
        return "".join(c.get("message", "") for c in conditions if c["type"] == "PodScheduled")

    eventually(reason, 30)
    assert "Insufficient example.com/licence" in reason()
    assert second.status()["phase"] == "Pending"
    first.delete()
    assert second.wait_running().report()["env"]["LICENCE"] in held


def test_more_than_a_container_may_have_is_said_to_the_user(
    plugin: Deployment, start_pod: StartPod
) -> None:
    status = start_pod({"example.com/full": 2}).wait_phase("Failed")
    assert status["reason"] == "UnexpectedAdmissionError"
    assert "a container may have at most 1 of example.com/full" in status["message"]
