"""Who holds what, as the kubelet says: what follows for the list, and when it says nothing."""

import grpc
import pytest

from device_plugin._api.deviceplugin.v1beta1 import deviceplugin_pb2 as dp
from device_plugin._api.podresources.v1 import podresources_pb2 as pb
from device_plugin.testing import AdmissionError

X, Y = "example.com/x", "example.com/y"
ONE = [{"virtual": {"count": 1}}]
NULL, ZERO = (1, 3), (1, 5)


def held(**ids):
    """An answer of the kubelet's: one Pod with these IDs of example.com/<key>."""
    devices = [
        pb.ContainerDevices(resource_name=f"example.com/{name}", device_ids=[id_])
        for name, of in ids.items()
        for id_ in of
    ]
    container = pb.ContainerResources(name="main", devices=devices)
    pod = pb.PodResources(name="pod", namespace="ns", containers=[container])
    return pb.ListPodResourcesResponse(pod_resources=[pod]).SerializeToString()


def test_what_pods_hold_is_in_the_first_list(node, kubelet):
    kubelet.pod_resources.answer(held(x=["gone", "gone-r2"]), method="List")
    node.start({"x": ONE})
    kubelet.wait_for(lambda k: k.lists(X))
    (first, *_) = kubelet.lists(X)
    assert {id_: health for id_, health, _ in first.devices} == {
        "gone": "Unhealthy",
        "gone-r2": "Unhealthy",
        "x-0-c2fbed05": "Healthy",
    }


@pytest.mark.parametrize("seconds", [0.5])
def test_a_slow_kubelet_is_waited_for_a_moment_and_its_word_added_later(node, kubelet, seconds):
    kubelet.pod_resources.slow(seconds)
    daemon = node.start({"x": ONE})
    (first,) = kubelet.healthy(X)
    kubelet.pod_resources.answer(held(x=["gone"]), method="List")
    (node.folder / "pod-resources" / "new").touch()  # it asks again
    kubelet.until(X, {"gone": "Unhealthy", first: "Healthy"})
    assert not daemon.log("nobody says who holds which device")


@pytest.mark.parametrize(
    "trouble",
    [
        lambda p: p.vanish(),
        lambda p: p.stop(),
        lambda p: p.slow(60),
        lambda p: p.answer(b"\xff\xff nonsense"),
        lambda p: p.fail(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit"),
        lambda p: p.answer(held(x=["x" * 70, "Ünknown", "", "a b"], other=["y"]), method="List"),
    ],
)
def test_without_an_answer_all_else_goes_on(node, kubelet, trouble):
    trouble(kubelet.pod_resources)
    node.add("/dev/a")
    daemon = node.start({"x": [{"path": node.path("/dev/{n}")}]}, audit_interval="200ms")
    (id_,) = kubelet.healthy(X)
    kubelet.run(X)
    node.at("/dev/a").unlink()
    kubelet.until(X, {id_: "Unhealthy"})
    daemon.wait_page("/readyz", 200)
    kubelet.pod_resources.recover()
    assert daemon.end() < 1


def test_the_kubelet_is_asked_no_faster_than_the_audit(node, kubelet):
    node.start({"x": ONE})
    kubelet.healthy(X)
    kubelet.wait_for(lambda k: len(k.pod_resources.queries) == 2)
    assert {one.method for one in kubelet.pod_resources.queries} == {
        "List",
        "GetAllocatableResources",
    }


def test_a_restarted_kubelet_is_asked_at_once(node, kubelet):
    node.start({"x": ONE})
    kubelet.healthy(X)
    before = len(kubelet.pod_resources.queries)
    kubelet.restart()
    kubelet.wait_for(lambda k: len(k.pod_resources.queries) > before)


def test_held_devices_are_counted(node, kubelet):
    daemon = node.start({"x": [{"virtual": {"count": 3}}]}, audit_interval="200ms")
    kubelet.healthy(X, 3)
    pod, _ = kubelet.run(X, 2)
    daemon.wait_page("/metrics", 200, 'device_plugin_held_devices{resource="example.com/x"} 2.0')
    daemon.wait_page("/metrics", 200, "device_plugin_pod_resources_up 1.0")
    kubelet.remove(pod)
    daemon.wait_page("/metrics", 200, 'device_plugin_held_devices{resource="example.com/x"} 0.0')
    kubelet.pod_resources.vanish()
    daemon.wait_page("/metrics", 200, "device_plugin_pod_resources_up 0.0")


class TestForeign:
    def test_its_healthy_ids_are_noticed(self, node, kubelet):
        daemon = node.start({"x": ONE}, audit_interval="200ms")
        kubelet.healthy(X)
        devices = [pb.ContainerDevices(resource_name=X, device_ids=["GPU-0"])]
        answer = pb.AllocatableResourcesResponse(devices=devices).SerializeToString()
        kubelet.pod_resources.answer(answer, method="GetAllocatableResources")
        line = daemon.wait_log("another plugin offers this resource too", resource=X)
        assert line["devices"] == ["GPU-0"]
        daemon.wait_page("/readyz", 503, f"{X}: another plugin offers it too (device GPU-0)")
        kubelet.pod_resources.recover()
        daemon.wait_page("/readyz", 200)
        assert len(daemon.log("another plugin offers this resource too")) == 1

    def test_an_unknown_id_in_allocate_is_noticed(self, node, kubelet):
        daemon = node.start({"x": ONE})
        kubelet.healthy(X)
        container = dp.ContainerAllocateRequest(devices_ids=["GPU-0"])
        with pytest.raises(grpc.RpcError, match="did another plugin list it"):
            node.call(kubelet, X).Allocate(dp.AllocateRequest(container_requests=[container]))
        daemon.wait_log("another plugin offers this resource too", resource=X)
        daemon.wait_page("/readyz", 503, "another plugin offers it too")


def test_a_device_in_use_is_not_offered_through_another_resource(node, kubelet):
    node.add("/dev/a")
    daemon = node.start({"x": [{"path": node.path("/dev/a")}], "y": ONE})
    (id_,) = kubelet.healthy(X)
    kubelet.run(X)
    node.configure({"y": [*ONE, {"path": node.path("/dev/a")}]})
    kubelet.until(X, {id_: "Unhealthy"})
    daemon.wait_log("not offered", resource=Y, reason=f"a container holds it through {X}")
    assert id_ not in kubelet.devices(Y)
    with pytest.raises(AdmissionError):
        kubelet.run(X, name="another")
