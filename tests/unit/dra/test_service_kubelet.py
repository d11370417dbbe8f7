"""The driver behind the embedded kubelet: Pods with claims, over restarts of either side."""

import itertools

import pytest

from device_plugin.config import Container as Given
from device_plugin.config import Resource
from device_plugin.device import Device
from device_plugin.dra.claims import Claims
from device_plugin.dra.cluster import ApiError
from device_plugin.dra.offer import Offer
from device_plugin.dra.service import Service
from device_plugin.host import Host
from device_plugin.listing import Listed, Snapshot
from device_plugin.testing import (
    Container,
    ContainerClaim,
    DraTimes,
    ExtendedClaim,
    FakeKubelet,
    Pod,
    PodClaim,
    PrepareError,
    Runtime,
)
from device_plugin.testing.apiserver import ApiServer, allocated_claim, result
from device_plugin.testing.dra.records import ClusterError
from tests.unit.dra.made import Api, wait_for

DRIVER, NODE, R = "gpu.example.com", "node-1", "example.com/gpu"
FAST = DraTimes(resync=0.05, retry=0.05, reconcile=0.2, health_retry=0.05, wipe=0.3, reconnect=0.05)


class _Cluster(Api):
    """Claims of the API server's double, without HTTP."""

    def __init__(self, api):
        super().__init__()
        self.api = api

    def claim(self, namespace, name):
        self._call("claim")
        try:
            return self.api.claim(namespace, name)
        except (ClusterError, KeyError):
            raise ApiError("not found", 404) from None


class _Node:
    """A kubelet, an API server and our driver, which can be had several times."""

    def __init__(self, root):
        self.root, self.running = root, []
        for name in ("plugins", "device-plugins", "state", "cdi"):
            (root / name).mkdir()
        self.api = ApiServer(NODE)
        self.cluster = _Cluster(self.api)
        self.kubelet = FakeKubelet(
            root / "device-plugins",
            root=root,
            cluster=self.api,
            node=NODE,
            dra=FAST,
            watch_interval=0.02,
            runtime=Runtime(root, cdi_directories=["/cdi"]),
        )
        self.offer("gpu-0", "gpu-1")
        self.numbers = itertools.count()

    def offer(self, *ids, reason=""):
        resource = Resource(R, (), api="dra", container=Given(env={"GPU": "{id}"}))
        listed = tuple(Listed(Device(id_), reason) for id_ in ids)
        self.offers = [Offer(resource, Snapshot(listed))]

    def start(self):
        """Start the driver; returns its service."""
        claims = Claims(
            offers=lambda: self.offers,
            cluster=self.cluster,
            driver=DRIVER,
            pool=NODE,
            state_dir=self.root / "state",
            cdi_dir=self.root / "cdi",
            host=Host(),
        )
        service = Service(
            claims=claims,
            offers=lambda: self.offers,
            driver=DRIVER,
            pool=NODE,
            kubelet_root=self.root,
        )
        self.running.append(service)
        service.start()
        self.wait_for_instances()
        return service

    def stop(self, service):
        self.running.remove(service)
        service.stop()
        service.join(5)
        assert not service.is_alive()
        self.wait_for_instances()

    def wait_for_instances(self):
        """Wait until the kubelet has exactly the drivers that run."""
        wait_for(lambda: len(self.kubelet.drivers(DRIVER)) == len(self.running))
        wait_for(lambda: all(one.watching for one in self.kubelet.drivers(DRIVER)))

    def pod(self, name, *devices, claim=""):
        """A Pod with a claim, which has these devices."""
        claim = claim or name
        main = Container("main", claims=[ContainerClaim("gpu")])
        pod = Pod(name, containers=[main], claims=[PodClaim("gpu", claim)])
        if devices:
            results = [result("gpu", one, driver=DRIVER, pool=NODE) for one in devices]
            self.api.put_claim(allocated_claim(claim, results))
        self.reserve(claim, pod)
        return self.kubelet.admit(pod)

    def reserve(self, claim, pod):
        def add(found):
            reserved = found["status"].setdefault("reservedFor", [])
            reserved.append({"resource": "pods", "name": pod.name, "uid": pod.uid})

        self.api.change_claim("default", claim, add)

    def gpu(self, pod):
        """What the container's env says."""
        return self.kubelet.create_container(pod, "main").envs.get("GPU")

    def files(self):
        return [*(self.root / "cdi").iterdir()]


@pytest.fixture
def node(short_folder):
    made = _Node(short_folder)
    with made.api, made.kubelet:
        yield made
        for service in [*made.running]:
            made.stop(service)


def test_a_container_gets_its_device_and_gives_it_back(node):
    node.start()
    pod = node.pod("a", "gpu-1")
    assert node.gpu(pod) == "gpu-1"
    (instance,) = node.kubelet.drivers(DRIVER)
    assert (instance.service, instance.health_service) == ("v1.DRAPlugin", "v1.DRAResourceHealth")
    node.kubelet.remove(pod)
    wait_for(lambda: not node.files())


def test_an_extended_resource_is_a_claim_like_any_other(node):
    node.start()
    results = [result("container-0-request-0", "gpu-1", driver=DRIVER, pool=NODE)]
    node.api.put_claim(allocated_claim("a-extended-resources-x", results))
    mapping = ("main", R, "container-0-request-0")
    extended = ExtendedClaim("a-extended-resources-x", [mapping])
    pod = Pod("a", containers=[Container("main", {R: 1})], extended=extended)
    node.reserve("a-extended-resources-x", pod)
    assert node.gpu(node.kubelet.admit(pod)) == "gpu-1"


def test_two_pods_share_a_claim(node):
    node.start()
    first = node.pod("a", "gpu-0", claim="shared")
    second = node.pod("b", claim="shared")
    assert node.gpu(first) == node.gpu(second) == "gpu-0"
    node.kubelet.remove(first)
    assert node.files()
    node.kubelet.remove(second)
    wait_for(lambda: not node.files())


def test_what_is_wrong_is_in_the_pods_event(node):
    node.start()
    node.gpu(node.pod("a", "gpu-0"))
    with pytest.raises(PrepareError) as why:
        node.kubelet.prepare(node.pod("b", "gpu-0"))
    assert str(why.value).endswith(
        "NodePrepareResources failed for ResourceClaim b: gpu-0 of example.com/gpu is still"
        " prepared for another claim: this is tried again until its Pods have ended"
    )


def test_the_kubelet_restarts_and_the_pod_gets_a_new_sandbox(node):
    node.start()
    pod = node.pod("a", "gpu-0")
    assert node.gpu(pod) == "gpu-0"
    node.kubelet.restart()
    node.wait_for_instances()
    node.kubelet.lose_sandbox(pod)
    assert node.gpu(pod) == "gpu-0"
    assert [one.method for one in node.kubelet.claim_calls] == ["NodePrepareResources"] * 2


def test_the_driver_restarts(node):
    service = node.start()
    pod = node.pod("a", "gpu-0")
    assert node.gpu(pod) == "gpu-0"
    node.stop(service)
    node.start()
    assert not node.kubelet.wipes[1:]  # but for the one at the kubelet's start
    with pytest.raises(PrepareError, match="still prepared"):
        node.kubelet.prepare(node.pod("b", "gpu-0"))
    node.kubelet.remove(pod)
    wait_for(lambda: not node.files())


def test_the_driver_is_away_when_the_pod_ends(node):
    service = node.start()
    pod = node.pod("a", "gpu-0")
    node.gpu(pod)
    node.stop(service)
    node.kubelet.remove(pod)
    assert node.files()
    node.start()
    wait_for(lambda: not node.files())


def test_health_reaches_the_pod(node):
    service = node.start()
    pod = node.pod("a", "gpu-0")
    node.gpu(pod)

    def health():
        (devices,) = node.kubelet.claim_health(pod, "main").values()
        (one,) = devices.values()
        return one.health, one.message

    wait_for(lambda: health() == ("Healthy", ""))
    node.offer("gpu-0", "gpu-1", reason="temperature is 110")
    service.news()
    wait_for(lambda: health() == ("Unhealthy", "temperature is 110"))
    node.stop(service)
    wait_for(lambda: health()[0] == "Unknown")


def test_a_kubelet_that_speaks_only_the_older_version(node, monkeypatch):
    monkeypatch.setattr(
        "device_plugin.dra.servicers.VERSIONS", ("v1beta1.DRAPlugin", "v1alpha1.DRAResourceHealth")
    )
    node.start()
    pod = node.pod("a", "gpu-1")
    assert node.gpu(pod) == "gpu-1"
    (instance,) = node.kubelet.drivers(DRIVER)
    assert instance.service == "v1beta1.DRAPlugin"
