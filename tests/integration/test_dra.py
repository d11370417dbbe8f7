"""Devices by claims: the daemon between an embedded kubelet and a small API server."""

import json
import time

import pytest

from device_plugin.dra import publisher
from device_plugin.testing import Container, ContainerClaim, DraTimes, Pod, PodClaim, PrepareError
from device_plugin.testing.apiserver import ApiServer, allocated_claim, result

pytest.importorskip("lightkube")

DRIVER, NODE, GPU = "gpu.example.com", "node-1", "example.com/gpu"
VIRTUAL = {"virtual": {"count": 1}}
LONG = 20.0  # seconds, on a busy machine
TIMES = DraTimes(resync=0.2, retry=0.2, reconcile=0.5, health_retry=0.2, wipe=0.5, reconnect=0.05)


@pytest.fixture
def cluster():
    with ApiServer(NODE) as api:
        yield api


@pytest.fixture
def kubelet(node, cluster):
    cdi = [node.path("/cdi")]
    return node.kubelet(cluster=cluster, node=NODE, dra=TIMES, watch_interval=0.05, cdi=cdi)


@pytest.fixture
def start(node, cluster, monkeypatch):
    """Start the daemon with the GPUs of a config, told as a Pod is: by the environment."""
    monkeypatch.setenv("DEVICE_PLUGIN_NODE_NAME", NODE)

    def start(resources=None, **more):
        node.configure(config(resources or [gpus()]))
        kubeconfig = cluster.kubeconfig(node.folder / "kubeconfig")
        flags = ["--kubeconfig", kubeconfig, "--cdi-dir", node.at("/cdi")]
        more.setdefault("config", node.folder / "config.yaml")
        return node.start({}, flags=flags, **more)

    return start


def config(resources, **dra):
    document = {"version": 1, "audit_interval": "1h", "resources": resources}
    return json.dumps({**document, "dra": {"driver": DRIVER, **dra}})


def gpus(*sizes, api="dra", **more):
    devices = [
        {"virtual": {"count": 1, "attributes": {"size": size}, "capacity": {"memory": size}}}
        for size in sizes or ("24Gi", "40Gi", "80Gi")
    ]
    container = {"env": {"GPU": "{id}", "GPU_SIZE": "{attribute.size}"}}
    return {"name": GPU, "api": api, "devices": devices, "container": container, **more}


def claim(cluster, device, name="claim"):
    """A claim as the scheduler leaves it, and the Pod that it is for; both have this name."""
    container = Container("main", claims=[ContainerClaim("gpu")])
    pod = Pod(name, [container], claims=[PodClaim("gpu", name)])
    made = allocated_claim(name, [result("gpu", device, driver=DRIVER, pool=NODE)])
    made["status"]["reservedFor"] = [{"resource": "pods", "name": pod.name, "uid": pod.uid}]
    cluster.put_claim(made)
    return pod


def run(kubelet, cluster, device):
    """Run a Pod with a claim that has this device."""
    pod = kubelet.run_pod(claim(cluster, device))
    kubelet.wait_for(lambda k: k.pod_status(pod).phase == "Running", LONG)
    return pod


def ready(kubelet, cluster, count=3):
    """Wait until the kubelet and the cluster know of the driver; returns its devices' names."""
    kubelet.wait_for(lambda k: any(one.connected for one in k.drivers(DRIVER)), LONG)
    return cluster.wait_for(lambda c: d if len(d := c.devices(DRIVER)) == count else None, LONG)


def test_a_pod_gets_what_its_claim_was_allocated(kubelet, cluster, start):
    start()
    *_, large = ready(kubelet, cluster)
    [slice_] = cluster.slices(DRIVER)
    [shown] = [one for one in slice_["spec"]["devices"] if one["name"] == large]
    assert shown["capacity"]["memory"] == {"value": "80Gi"}
    assert shown["attributes"]["resource"] == {"string": GPU}
    pod = claim(cluster, large)
    kubelet.admit(pod)
    created = kubelet.create_container(pod, "main")
    assert (created.envs["GPU"], created.envs["GPU_SIZE"]) == (large, "80Gi")
    kubelet.remove(pod)
    kubelet.wait_for(lambda k: k.claim_record("claim") is None, LONG)


def test_the_cluster_is_told_when_the_kubelet_knows_the_driver(node, cluster, start):
    """Else Pods are scheduled that the kubelet refuses, and tries again only after a minute."""
    kubelet = node.kubelet(running=False, cluster=cluster, node=NODE, watch_interval=0.05)
    (node.folder / "plugins").mkdir()
    (node.folder / "plugins_registry").mkdir()
    daemon = start()
    daemon.wait_page("/readyz", 503, "waiting for the kubelet")
    assert cluster.slices(DRIVER) == []
    kubelet.start()
    ready(kubelet, cluster)


def test_without_the_api_server_the_other_resources_are_there(node, kubelet, cluster, start):
    cluster.go_away()
    daemon = start([gpus(), {"name": "example.com/x", "devices": [VIRTUAL]}])
    kubelet.healthy("example.com/x")
    daemon.wait_page("/readyz", 503, f"DRA: cannot get node {NODE}: ")
    cluster.start()
    ready(kubelet, cluster)
    daemon.wait_page("/readyz", 200)
    daemon.wait_page("/metrics", 200, "device_plugin_dra_slices_in_step 1.0")
    daemon.wait_page("/metrics", 200, "device_plugin_dra_registered 1.0")


def test_a_kubelet_restart(kubelet, cluster, start):
    """It wipes the slices, and prepares again what is prepared already."""
    start()
    *_, large = ready(kubelet, cluster)
    one = run(kubelet, cluster, large)
    kubelet.restart()
    assert len(ready(kubelet, cluster)) == 3
    kubelet.lose_sandbox(one)
    kubelet.prepare(one)
    assert [device.device for device in kubelet.prepared(one, DRIVER)] == [large]


def test_slices_wait_for_a_kubelet_that_wiped_them_before_it_knows_the_driver(
    kubelet, cluster, start
):
    """One that starts wipes first, and looks for drivers once its container runtime is there."""
    start()
    ready(kubelet, cluster)
    kubelet.stop()
    cluster.delete_slices(driver=DRIVER, node=NODE)
    with pytest.raises(AssertionError, match="not so within"):
        cluster.wait_for(lambda c: c.slices(DRIVER), publisher.HOLD / 2)
    kubelet.start()
    ready(kubelet, cluster)


def test_slices_that_somebody_deletes_are_back_at_once(kubelet, cluster, start):
    """The kubelet that watches the driver's health has not restarted."""
    start()
    ready(kubelet, cluster)
    kubelet.wait_for(lambda k: any(one.watching for one in k.drivers(DRIVER)), LONG)
    started = time.monotonic()
    cluster.delete_slices(driver=DRIVER, node=NODE)
    ready(kubelet, cluster)
    assert time.monotonic() - started < publisher.HOLD


def test_a_restart_of_the_daemon(kubelet, cluster, start):
    daemon = start()
    *_, large = ready(kubelet, cluster)
    one = run(kubelet, cluster, large)
    daemon.kill()
    start()
    kubelet.wait_for(lambda k: sum(instance.connected for instance in k.drivers(DRIVER)) == 1, LONG)
    two = claim(cluster, large, name="other")
    kubelet.admit(two)
    with pytest.raises(PrepareError, match="is still prepared for another claim"):
        kubelet.prepare(two)
    kubelet.remove(one)
    kubelet.wait_for(lambda k: k.claim_record("claim") is None, LONG)
    kubelet.prepare(two)


def test_a_device_that_breaks(node, kubelet, cluster, start):
    node.add("/dev/gpu0")
    start([{"name": GPU, "api": "dra", "devices": [{"path": node.path("/dev/gpu0")}]}])
    [id_] = ready(kubelet, cluster, 1)
    run(kubelet, cluster, id_)
    healthy = kubelet.wait_for(lambda k: k.device_health(DRIVER).get((NODE, id_)), LONG)
    assert healthy.health == "Healthy"
    node.at("/dev/gpu0").unlink()
    kubelet.wait_for(lambda k: k.device_health(DRIVER)[NODE, id_].health == "Unhealthy", LONG)
    assert kubelet.device_health(DRIVER)[NODE, id_].message == "removed"
    [taint] = cluster.wait_for(
        lambda c: c.slices(DRIVER)[0]["spec"]["devices"][0].get("taints"), LONG
    )
    assert (taint["key"], taint["effect"]) == (f"{DRIVER}/unhealthy", "NoSchedule")
    node.add("/dev/gpu0")
    kubelet.wait_for(lambda k: k.device_health(DRIVER)[NODE, id_].health == "Healthy", LONG)


def test_a_resource_moves_to_dra_and_back_while_a_pod_holds_a_device(node, kubelet, cluster, start):
    start([gpus(api="device-plugin")])
    ids = kubelet.healthy(GPU, 3)
    held, _ = kubelet.run(GPU)
    [taken] = kubelet.allocated(held, held.in_order[0].name, GPU)
    node.configure(config([gpus()]))
    offered = ready(kubelet, cluster, 2)
    assert sorted([*offered, taken]) == sorted(ids)
    assert kubelet.allocatable(GPU) == 0
    old, new = node.ask("status")["resources"]
    assert [one["id"] for one in old["devices"]] == [taken]
    assert sorted(one["id"] for one in new["devices"]) == sorted(offered)
    one = run(kubelet, cluster, offered[0])
    node.configure(config([gpus(api="device-plugin")]))
    cluster.wait_for(lambda c: c.devices(DRIVER) == [], LONG)
    kubelet.until(GPU, {taken: "Healthy", offered[1]: "Healthy", offered[0]: "Unhealthy"})
    devices = {one["id"]: one["reason"] for one in node.ask("status")["resources"][0]["devices"]}
    assert devices[offered[0]] == "a claim holds it"
    kubelet.remove(one)
    kubelet.until(GPU, dict.fromkeys(ids, "Healthy"))


def test_status_names_the_claim(node, kubelet, cluster, start):
    start()
    *_, large = ready(kubelet, cluster)
    run(kubelet, cluster, large)
    [resource] = node.ask("status")["resources"]
    claims = {one["id"]: one["claims"] for one in resource["devices"]}
    assert claims[large] == ["default/claim"]


@pytest.mark.parametrize("dra", [True, False])
def test_back_too_early(node, kubelet, cluster, start, *, monkeypatch, dra):
    """Without the component, or without `dra`: what a claim has is not given away all the same."""
    daemon = start()
    *others, large = ready(kubelet, cluster)
    run(kubelet, cluster, large)
    daemon.end()
    document = json.loads(config([gpus(api="device-plugin")]))
    if not dra:
        del document["dra"]
    node.configure(json.dumps(document))
    monkeypatch.delenv("DEVICE_PLUGIN_NODE_NAME")
    daemon = node.start({}, config=node.folder / "config.yaml")
    assert kubelet.healthy(GPU, 2) == others
    said = "needs --node-name" if dra else f"1 claims of {DRIVER} are prepared, and the config"
    daemon.wait_page("/readyz", 503, said)


def test_without_the_name_of_its_node(node, kubelet, monkeypatch):
    node.configure(config([gpus(), {"name": "example.com/x", "devices": [VIRTUAL]}]))
    daemon = node.start({}, config=node.folder / "config.yaml")
    kubelet.healthy("example.com/x")
    daemon.wait_page("/readyz", 503, "DRA: `api: dra` needs --node-name")


def test_without_the_extra(node, kubelet, start, monkeypatch):
    broken = node.folder / "lightkube"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise ImportError('not installed')")
    monkeypatch.setenv("PYTHONPATH", str(node.folder))
    daemon = start([gpus(), {"name": "example.com/x", "devices": [VIRTUAL]}])
    kubelet.healthy("example.com/x")
    daemon.wait_page("/readyz", 503, "pip install '.[kubernetes]'")


def test_the_claims_of_an_earlier_process_are_served(node, kubelet, cluster, start):
    """The config has no such resource any more, but says which driver it was."""
    daemon = start()
    *_, large = ready(kubelet, cluster)
    pod = run(kubelet, cluster, large)
    daemon.end()
    start([{"name": "example.com/x", "devices": [VIRTUAL]}])
    kubelet.wait_for(lambda k: any(one.connected for one in k.drivers(DRIVER)), LONG)
    kubelet.remove(pod)
    kubelet.wait_for(lambda k: k.claim_record("claim") is None, LONG)
