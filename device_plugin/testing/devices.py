"""What the device manager believes. Pure: no I/O, no lock, and the caller brings the clock."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from device_plugin._api.deviceplugin.v1beta1 import deviceplugin_pb2 as pb
from device_plugin.testing.endpoints import PluginClient, PluginError
from device_plugin.testing.records import HEALTHY, Device, NodeStatus


@dataclass(slots=True)
class Endpoint:
    """Whom to call for a resource; without a client it is known from the checkpoint only."""

    client: PluginClient | None = None
    options: pb.DevicePluginOptions | None = None
    stopped: float | None = None

    def reach(self) -> PluginClient:
        if self.client is None or self.stopped is not None:
            resource = self.client.resource if self.client else "of the checkpoint"
            raise PluginError(f"endpoint {resource} has been stopped")
        return self.client


class Key(NamedTuple):
    """Whose devices these are."""

    pod: str  # UID
    container: str
    resource: str


@dataclass(frozen=True, slots=True)
class Allocation:
    """What a container got of one resource; the response is replayed at every creation (A10)."""

    ids: frozenset[str]
    response: pb.ContainerAllocateResponse
    numa: Mapping[str, tuple[int, ...]]  # the NUMA nodes of each ID as listed then; () if none


@dataclass(slots=True)
class Devices:
    """The device manager's maps, named as the kubelet names them."""

    all: dict[str, dict[str, Device]] = field(default_factory=dict)
    healthy: dict[str, set[str]] = field(default_factory=dict)
    unhealthy: dict[str, set[str]] = field(default_factory=dict)
    endpoints: dict[str, Endpoint] = field(default_factory=dict)  # whom to call
    sockets: dict[str, dict[str, Endpoint]] = field(default_factory=dict)  # 1.37: all, by path
    allocations: dict[Key, Allocation] = field(default_factory=dict)
    allocated: dict[str, set[str]] = field(default_factory=dict)  # may run ahead of allocations
    forgotten: set[str] = field(default_factory=set)

    def receive(self, resource: str, devices: Iterable[Device]) -> set[str]:
        """Replace the list (A6); returns the IDs that are new or of another health (A12)."""
        old = self.all.get(resource, {})
        new: dict[str, Device] = {}
        healthy: set[str] = set()
        unhealthy: set[str] = set()
        changed: set[str] = set()
        for device in devices:
            if device.id not in old or old[device.id].health != device.health:
                changed.add(device.id)
            new[device.id] = device  # the last one wins ...
            # ... but an ID that was listed both ways stays in both sets.
            (healthy if device.health == HEALTHY else unhealthy).add(device.id)
        self.all[resource] = new
        self.healthy[resource] = healthy
        self.unhealthy[resource] = unhealthy
        self.forgotten.discard(resource)
        return changed

    def holders(self, ids: set[str], resource: str | None) -> dict[str, set[str]]:
        """Find the pods that hold these IDs, of one resource or of any; by ID."""
        found: dict[str, set[str]] = {}
        for key, got in self.allocations.items():
            if resource in {None, key.resource}:
                for id_ in sorted(ids & got.ids):
                    found.setdefault(id_, set()).add(key.pod)
        return found

    def endpoint(self, resource: str) -> Endpoint | None:
        return self.endpoints.get(resource)

    def client(self, resource: str) -> PluginClient | None:
        endpoint = self.endpoint(resource)
        return endpoint.client if endpoint else None

    def is_ours(self, resource: str) -> bool:
        """Resources that are neither registered nor allocated are skipped in silence (A8.2)."""
        return resource in self.healthy or resource in self.allocated

    def mark_unhealthy(self, resource: str) -> None:
        self.unhealthy.setdefault(resource, set()).update(self.healthy.get(resource, ()))
        if resource in self.healthy:
            self.healthy[resource] = set()

    def capacity(self, resource: str) -> int | None:
        if resource in self.healthy or resource in self.unhealthy:
            return len(self.healthy.get(resource, ())) + len(self.unhealthy.get(resource, ()))
        return 0 if resource in self.forgotten else None

    def allocatable(self, resource: str) -> int | None:
        if resource in self.healthy:
            return len(self.healthy[resource])
        return None if self.capacity(resource) is None else 0

    def node_status(self, now: float, grace: float) -> NodeStatus:
        """GetCapacity (A7): it is this look that forgets resources stopped for too long."""
        for resource in {*self.healthy, *self.unhealthy}:
            endpoint = self.endpoint(resource)
            stopped = endpoint.stopped if endpoint else now - grace - 1
            if stopped is not None and now - stopped > grace:
                for known in (self.endpoints, self.healthy, self.unhealthy):
                    known.pop(resource, None)
                self.forgotten.add(resource)
        resources = sorted({*self.healthy, *self.unhealthy, *self.forgotten})
        return NodeStatus(
            capacity={name: self.capacity(name) or 0 for name in resources},
            allocatable={name: self.allocatable(name) or 0 for name in resources},
        )

    def of_container(self, pod: str, container: str) -> dict[str, Allocation]:
        return {
            key.resource: got
            for key, got in self.allocations.items()
            if (key.pod, key.container) == (pod, container)
        }

    def store(self, key: Key, ids: set[str], response: pb.ContainerAllocateResponse) -> None:
        listed = self.all.get(key.resource, {})
        numa = {id_: (listed[id_].numa or ()) if id_ in listed else () for id_ in ids}
        allocation = Allocation(frozenset(ids), response, numa)
        self.allocations[key] = allocation
        self.allocated.setdefault(key.resource, set()).update(allocation.ids)

    def recount(self) -> None:
        """Set `allocated` to what the stored allocations say."""
        self.allocated = {}
        for key, got in self.allocations.items():
            self.allocated.setdefault(key.resource, set()).update(got.ids)

    def free_departed(self, active: set[str]) -> None:
        """UpdateAllocatedDevices: there is no Deallocate, IDs come back when somebody looks (A14).

        The sets are recounted only when a departed pod held something, as in the kubelet: IDs
        reserved by an allocation that failed half-way may stay reserved until then (A10).
        """
        departed = [key for key in self.allocations if key.pod not in active]
        for key in departed:
            del self.allocations[key]
        if departed:
            self.recount()

    def restarted(self, now: float) -> "Devices":
        """What a new kubelet process knows: the checkpoint's resources, empty and stopped (A7)."""
        new = Devices(allocations=dict(self.allocations), forgotten=set(self.forgotten))
        new.recount()
        for resource in self.healthy:
            new.healthy[resource] = set()
            new.unhealthy[resource] = set()
            new.endpoints[resource] = Endpoint(stopped=now)
        return new
