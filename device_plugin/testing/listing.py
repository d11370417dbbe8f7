"""What PodResources answers: the kubelet's maps put into messages (B). The caller has the lock."""

from collections.abc import Iterable, Iterator

from device_plugin._api.podresources.v1 import podresources_pb2 as pr
from device_plugin.testing.pods import PodRecord
from device_plugin.testing.state import State


def list_pods(state: State) -> pr.ListPodResourcesResponse:
    """List: all active Pods that the kubelet knows of; what others held is freed first (A14).

    A kubelet that has just started knows of no Pod, and frees nothing until it knows of all.
    """
    if state.sources_ready:
        state.devices.free_departed(state.active())
    known = {uid for uid, record in state.pods.items() if record.known and record.active}
    return pr.ListPodResourcesResponse(
        pod_resources=[_pod_resources(state, state.pods[uid]) for uid in state.shuffled(known)]
    )


def get_pod(state: State, name: str, namespace: str) -> pr.GetPodResourcesResponse | None:
    """Get: the last Pod of that name, if it is active; unlike List it frees nothing."""
    named = [
        record
        for record in state.pods.values()
        if (record.pod.name, record.pod.namespace) == (name, namespace) and record.known
    ]
    if not named or not named[-1].active:
        return None
    return pr.GetPodResourcesResponse(pod_resources=_pod_resources(state, named[-1]))


def allocatable(state: State) -> pr.AllocatableResourcesResponse:
    """GetAllocatableResources: all healthy devices, be they allocated."""
    devices = state.devices
    return pr.AllocatableResourcesResponse(
        devices=[
            entry
            for resource in state.shuffled(devices.healthy.keys() & devices.all.keys())
            for id_ in state.shuffled(devices.healthy[resource] & devices.all[resource].keys())
            for entry in _entries(resource, id_, devices.all[resource][id_].numa)
        ]
    )


def _pod_resources(state: State, record: PodRecord) -> pr.PodResources:
    """Sidecars, then the others; init containers that end are left out."""
    pod = record.pod
    sidecars = [container for container in pod.init_containers if container.sidecar]
    return pr.PodResources(
        name=pod.name,
        namespace=pod.namespace,
        containers=[
            pr.ContainerResources(
                name=container.name, devices=_held(state, pod.uid, container.name)
            )
            for container in (*sidecars, *pod.containers)
        ],
    )


def _held(state: State, uid: str, container: str) -> Iterator[pr.ContainerDevices]:
    """What a container holds, with the NUMA nodes of the time when it was allocated."""
    allocations = state.devices.of_container(uid, container)
    for resource in state.shuffled(allocations):
        got = allocations[resource]
        for id_ in state.shuffled(got.ids):
            # -1 is how the kubelet notes "no node" in its maps, so it cannot tell them apart.
            nodes = [node for node in got.numa[id_] if node != -1]
            yield from _entries(resource, id_, nodes or None)


def _entries(resource: str, id_: str, nodes: Iterable[int] | None) -> Iterator[pr.ContainerDevices]:
    """One entry for each NUMA node, and so none without nodes; None: there is no topology."""
    if nodes is None:
        yield pr.ContainerDevices(resource_name=resource, device_ids=[id_])
        return
    for node in nodes:
        topology = pr.TopologyInfo(nodes=[pr.NUMANode(ID=node)])
        yield pr.ContainerDevices(resource_name=resource, device_ids=[id_], topology=topology)
