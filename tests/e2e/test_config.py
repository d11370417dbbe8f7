"""The config edited under a running plugin, and what an admin asks it: status, metrics, disable."""

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from deployment import Deployment
from kubectl import Kubectl, Object, TestPod, eventually

StartPod = Callable[..., TestPod]
Figure = Callable[[str, object], None]
LICENCE, ADDED = "example.com/licence", "example.com/added"
CONFIG = (Path(__file__).parent / "config.yaml").read_text()


@pytest.fixture
def edit(plugin: Deployment) -> Iterator[Callable[[str], None]]:
    """Edit the ConfigMap as `kubectl apply` does; afterwards it is as before."""
    yield plugin.edit
    plugin.edit(CONFIG)


def _devices(plugin: Deployment, resource: str) -> list[Object]:
    answer = json.loads(plugin.run("status", "-o", "json"))
    found = [one["devices"] for one in answer["resources"] if one["name"] == resource]
    return found[0] if found else []


def test_an_edited_config_map_is_read_in_place(
    kubectl: Kubectl,
    plugin: Deployment,
    edit: Callable[[str], None],
    start_pod: StartPod,
    figure: Figure,
) -> None:
    kubectl.wait_resource(LICENCE, 2)
    pod = start_pod({LICENCE: 1}).wait_running()
    identity, before = plugin.identity(), plugin.log()
    added = f"  - {{name: {ADDED}, devices: [{{virtual: {{count: 3}}}}]}}\n"
    started = time.monotonic()
    edit(CONFIG + added)
    kubectl.wait_resource(ADDED, 3, timeout=90)
    figure("ConfigMap edited -> new resource allocatable", time.monotonic() - started)

    edit(CONFIG.replace("count: 2", "count: 0") + added.replace("count: 3", "count: three"))
    eventually(lambda: set(pod.health(LICENCE).values()) == {"Unhealthy"}, 90, plugin.log)
    kubectl.wait_resource(LICENCE, 0)
    assert kubectl.resource(LICENCE) == (2, 0), "what Pods may hold stays listed"
    assert kubectl.resource(ADDED) == (3, 3), "a mistake leaves its resource as it was"
    assert "must be a whole number" in plugin.log()

    edit(CONFIG)
    kubectl.wait_resource(LICENCE, 2, timeout=90)
    kubectl.wait_resource(ADDED, 0, timeout=90)
    eventually(lambda: set(pod.health(LICENCE).values()) == {"Healthy"}, 30)
    assert plugin.identity() == identity, "no restart"
    registered = [
        line for line in plugin.log().removeprefix(before).splitlines() if LICENCE in line
    ]
    assert not [line for line in registered if '"registered"' in line], "no registration"


def test_status_and_metrics_say_what_kubectl_says(
    kubectl: Kubectl, plugin: Deployment, start_pod: StartPod, figure: Figure
) -> None:
    kubectl.wait_resource(LICENCE, 2)
    pods = [start_pod({LICENCE: 1}).wait_running() for _ in range(2)]
    holders = {h["pod"]: h for one in _devices(plugin, LICENCE) for h in one["holders"]}
    assert holders.keys() == {pod.name for pod in pods}
    for pod in pods:
        holder = holders[pod.name]
        assert (holder["namespace"], holder["container"]) == (kubectl.namespace, "main")
        assert list(pod.health(LICENCE)) == [holder["device"]]
        assert pod.report()["env"]["LICENCE"] == holder["device"]
    figure("status", "\n" + plugin.run("status"))
    held = f'device_plugin_held_devices{{resource="{LICENCE}"}} 2.0'
    eventually(lambda: held in plugin.get("/metrics"), 30, lambda: plugin.get("/metrics"))
    healthy = re.search(
        rf'device_plugin_devices{{health="Healthy",resource="{LICENCE}"}} (\S+)',
        plugin.get("/metrics"),
    ) or pytest.fail(plugin.get("/metrics"))
    assert (float(healthy[1]), float(healthy[1])) == kubectl.resource(LICENCE)
    pods[0].delete()
    eventually(
        lambda: (
            [h["pod"] for one in _devices(plugin, LICENCE) for h in one["holders"]]
            == [pods[1].name]
        ),
        30,
    )


def test_a_disabled_device_is_out_of_service_until_enabled(
    kubectl: Kubectl, plugin: Deployment, start_pod: StartPod
) -> None:
    kubectl.wait_resource(LICENCE, 2)
    pod = start_pod({LICENCE: 1}).wait_running()
    (id_,) = pod.health(LICENCE)
    plugin.run("disable", id_, "--reason", "being looked at")
    try:
        kubectl.wait_resource(LICENCE, 1)
        eventually(lambda: pod.health(LICENCE) == {id_: "Unhealthy"}, 30)
        identity = pod.identity()
        plugin.delete_pod()
        plugin.wait_ready()
        kubectl.wait_resource(LICENCE, 1)
        reasons = [one["reason"] for one in _devices(plugin, LICENCE) if one["id"] == id_]
        assert reasons == ["disabled: being looked at"]
    finally:
        plugin.run("enable", id_)
    kubectl.wait_resource(LICENCE, 2)
    eventually(lambda: pod.health(LICENCE) == {id_: "Healthy"}, 30)
    assert pod.identity() == identity, "nothing happened to the Pod"
