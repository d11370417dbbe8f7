"""PodResources: who holds what, as the kubelet tells it (B)."""

import json

import grpc
import pytest

from device_plugin._api.deviceplugin.v1beta1 import deviceplugin_pb2 as pb
from device_plugin._api.podresources.v1 import podresources_pb2 as pr
from device_plugin.testing import AdmissionError, Container, Pod

X = "example.com/x"


def pods(client):
    answer = client.List(pr.ListPodResourcesRequest(), timeout=5, wait_for_ready=True)
    return {pod.name: pod for pod in answer.pod_resources}


def shown(entries):
    """Entries as (resource, ID, NUMA nodes or None), one ID each."""
    return sorted(
        (
            entry.resource_name,
            entry.device_ids[0],
            [node.ID for node in entry.topology.nodes] if entry.HasField("topology") else None,
        )
        for entry in entries
        if len(entry.device_ids) == 1
    )


def held(client, pod, container="c"):
    [found] = [one for one in pods(client)[pod].containers if one.name == container]
    return shown(found.devices)


def allocatable(client):
    return shown(client.GetAllocatableResources(pr.AllocatableResourcesRequest()).devices)


def get(client, name, namespace="default"):
    request = pr.GetPodResourcesRequest(pod_name=name, pod_namespace=namespace)
    return client.Get(request).pod_resources


def refusal(call):
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value.code(), caught.value.details()


def device(id_, *nodes):
    topology = pb.TopologyInfo(nodes=[pb.NUMANode(ID=node) for node in nodes])
    return pb.Device(ID=id_, health="Healthy", topology=topology)


def wanting(number=1, name="p", **rest):
    return Pod(name, [Container("c", {X: number})], **rest)


def test_one_entry_for_each_device_and_numa_node(running, client, root, folder):
    kubelet, plugin = running({"root": root})
    plugin.send(device("two", 0, 1), device("none"), device("minus", -1), a="Healthy")
    kubelet.wait_for(lambda k: k.capacity(X) == 4)
    kubelet.admit(wanting(4))
    assert held(client, "p") == [
        (X, "a", None),
        (X, "minus", None),
        (X, "none", None),
        (X, "two", [0]),
        (X, "two", [1]),
    ]
    # Here the device that says "no nodes" is hidden, and -1 stays -1.
    assert allocatable(client) == [
        (X, "a", None),
        (X, "minus", [-1]),
        (X, "two", [0]),
        (X, "two", [1]),
    ]
    [entry] = json.loads((folder / "kubelet_internal_checkpoint").read_text())["Data"][
        "PodDeviceEntries"
    ]
    assert entry["DeviceIDs"] == {"-1": ["a", "minus", "none"], "0": ["two"], "1": ["two"]}


def test_the_numa_nodes_are_those_of_the_allocation(running, client, root):
    kubelet, plugin = running({"root": root})
    plugin.send(device("a", 0))
    kubelet.wait_for(lambda k: k.capacity(X) == 1)
    kubelet.admit(wanting())
    plugin.send(device("a", 1))
    kubelet.wait_for(lambda k: k.lists(X)[-1].devices == (("a", "Healthy", (1,)),))
    assert held(client, "p") == [(X, "a", [0])]
    assert allocatable(client) == [(X, "a", [1])]


def test_sidecars_come_first_and_other_init_containers_not_at_all(running, client, root):
    kubelet, _ = running({"root": root})
    kubelet.admit(
        Pod(
            "p",
            [Container("main", {X: 1}), Container("idle")],
            [Container("init", {X: 1}), Container("side", {X: 1}, restart_policy="Always")],
            namespace="team",
        )
    )
    pod = pods(client)["p"]
    assert pod.namespace == "team"
    assert [(one.name, len(one.devices)) for one in pod.containers] == [
        ("side", 1),
        ("main", 1),
        ("idle", 0),
    ]
    assert get(client, "p", "team").containers == pod.containers


def test_what_an_init_container_held_is_held_unseen(running, client, root):
    """The kubelet keeps it for the Pod's life, and no list tells."""
    kubelet, _ = running({"root": root})
    pod = kubelet.admit(Pod("p", [Container("c", {X: 1})], [Container("init", {X: 2})]))
    kubelet.create_container(pod, "init")
    kubelet.create_container(pod, "c")
    assert len(held(client, "p")) == 1
    with pytest.raises(AdmissionError, match="Requested: 1, Available: 0"):
        kubelet.admit(wanting(1, "other"))


def test_all_active_pods_and_no_others(running, client, root):
    kubelet, _ = running({"root": root})
    kubelet.admit(Pod("without", [Container("c")]))
    kubelet.admit_and_drop(wanting(name="failed"))
    gone = kubelet.admit(wanting(name="gone"))
    kubelet.admit(wanting(name="there"))
    kubelet.remove(gone)
    assert set(pods(client)) == {"without", "there"}


def test_list_frees_what_departed_pods_held_and_get_does_not(running, client, root):
    kubelet, _ = running({"root": root})
    kubelet.admit(Pod("other", [Container("c")]))
    gone = kubelet.admit(wanting(2))
    kubelet.remove(gone)
    get(client, "other")
    allocatable(client)
    assert kubelet.allocated(gone, "c", X) == {"a", "b"}
    pods(client)
    assert kubelet.allocated(gone, "c", X) == set()


def test_allocatable_are_healthy_devices_allocated_or_not(running, client, root):
    kubelet, plugin = running({"root": root})
    plugin.send(a="Healthy", b="Healthy", c="Unhealthy")
    kubelet.wait_for(lambda k: k.capacity(X) == 3)
    kubelet.admit(wanting(1))
    assert allocatable(client) == [(X, "a", None), (X, "b", None)]
    plugin.stop()
    kubelet.wait_for(lambda k: k.allocatable(X) == 0)
    assert allocatable(client) == []
    assert len(held(client, "p")) == 1


def test_get_finds_the_last_active_pod_of_a_name(running, client, root):
    kubelet, _ = running({"root": root})
    first = kubelet.admit(wanting(1))
    kubelet.remove(first)
    kubelet.admit(wanting(0))
    assert get(client, "p").containers[0].devices == []
    not_found = (grpc.StatusCode.UNKNOWN, "pod p in namespace elsewhere not found")
    assert refusal(lambda: get(client, "p", "elsewhere")) == not_found
    kubelet.admit_and_drop(wanting(1, "failed"))
    not_found = (grpc.StatusCode.UNKNOWN, "pod failed in namespace default not found")
    assert refusal(lambda: get(client, "failed")) == not_found


def test_a_starting_kubelet_knows_of_no_pod(running, client, root):
    kubelet, plugin = running({"root": root})
    pod, gone = kubelet.admit(wanting(1)), kubelet.admit(wanting(1, "gone"))
    kubelet.create_container(pod, "c")
    kubelet.restart(readmit=False)
    plugin.stop()
    plugin.serve().register()
    kubelet.wait_for(lambda k: k.allocatable(X) == 2)
    kubelet.remove(gone)
    assert pods(client) == {}
    assert refusal(lambda: get(client, "p"))[0] is grpc.StatusCode.UNKNOWN
    assert len(allocatable(client)) == 2
    assert len(kubelet.allocated(gone, "c", X)) == 1  # nothing is freed as yet
    kubelet.readmit()
    assert len(held(client, "p")) == 1
    assert kubelet.allocated(gone, "c", X) == set()


def test_pods_are_known_some_time_after_the_start(kubelet, client, root):
    started = kubelet(root=root)
    started.admit(Pod("p", [Container("c")]))
    started.restart(readmit_after=0.5)
    assert pods(client) == {}
    assert not started.knows_pods
    started.wait_for(lambda k: k.knows_pods)
    assert list(pods(client)) == ["p"]
