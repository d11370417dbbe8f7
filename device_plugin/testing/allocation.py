"""Admission: which devices a container gets, in the kubelet's order and words (A8, A9, A13)."""

from collections.abc import Iterable

from device_plugin.testing.checkpoint import Checkpoint
from device_plugin.testing.devices import Endpoint, Key
from device_plugin.testing.endpoints import PluginError
from device_plugin.testing.pods import Container, PodRecord
from device_plugin.testing.records import AdmissionError, Panic
from device_plugin.testing.state import State

UNEXPECTED = "UnexpectedAdmissionError"
Reusable = dict[str, set[str]]


class AllocationError(Exception):
    """The device manager said no."""


class _Selection:
    """The IDs chosen so far; each is reserved at once, because no lock is held during calls."""

    def __init__(self, state: State, resource: str, needed: int) -> None:
        self._state = state
        self._reserved = state.devices.allocated.setdefault(resource, set())
        self.needed = needed
        self.ids: set[str] = set()

    def take(self, ids: Iterable[str]) -> bool:
        """Take what is needed, in random order; tells whether that is all."""
        for id_ in self._state.shuffled(set(ids) - self.ids)[: self.needed]:
            self._reserved.add(id_)
            self.ids.add(id_)
            self.needed -= 1
        return self.needed == 0


class Allocator:
    def __init__(self, state: State, checkpoint: Checkpoint) -> None:
        self._state = state
        self._checkpoint = checkpoint
        self._reusable: tuple[str, Reusable] = ("", {})  # of one pod, the last one

    def admit(self, record: PodRecord, *, starting: bool = False) -> None:
        """Allocate for every container; a failure fails the Pod for good (A13)."""
        try:
            for container in record.pod.in_order:
                self.allocate(record, container, starting=starting)
        except (AllocationError, PluginError) as error:
            message = f"Pod was rejected: Allocate failed due to {error}, which is unexpected"
            self._fail(record, UNEXPECTED, message)
        if not starting:
            self._check_fit(record)
        with self._state.changing():
            self._state.sync_pod(record.pod.uid)

    def allocate(self, record: PodRecord, container: Container, *, starting: bool = False) -> None:
        """Allocate one container's devices, then see what later containers may use again (A14)."""
        uid = record.pod.uid
        if self._reusable[0] != uid:
            self._reusable = (uid, {})
        reusable = self._reusable[1]
        freed = False
        for resource in self._state.shuffled(container.limits):
            if record.pod.is_claimed(container.name, resource):
                continue  # a DRA driver serves it (C7)
            with self._state.condition:
                if not self._state.devices.is_ours(resource):
                    continue  # the Pod starts without it (A8.2)
                if not freed and not starting:
                    self._state.devices.free_departed(self._state.active())
                    freed = True
            key = Key(uid, container.name, resource)
            running = starting and record.containers[container.name].state == "running"
            self._allocate_resource(key, container.limits[resource], reusable, running=running)
        keeps = record.pod.is_init(container.name) and not container.sidecar
        with self._state.condition:
            for resource, got in self._state.devices.of_container(uid, container.name).items():
                if keeps:
                    reusable.setdefault(resource, set()).update(got.ids)
                else:
                    reusable.get(resource, set()).difference_update(got.ids)

    def _allocate_resource(
        self, key: Key, required: int, reusable: Reusable, *, running: bool
    ) -> None:
        ids = self._choose(key, required, reusable, running=running)
        if not ids:
            return
        try:
            response = self._endpoint(key.resource).reach().allocate(self._state.shuffled(ids))
        except (AllocationError, PluginError):
            with self._state.changing():
                self._state.devices.recount()
            raise
        if not response.container_responses:
            # Nothing is recounted here: the IDs stay reserved for now (A10).
            raise AllocationError("no containers return in allocation response")
        with self._state.changing():
            self._look_for_lost(key, ids)
            self._state.devices.store(key, ids, response.container_responses[0])
        failure = self._checkpoint.write()
        if failure:
            raise AllocationError(failure)

    def _choose(
        self, key: Key, required: int, reusable: Reusable, *, running: bool
    ) -> set[str] | None:
        """devicesToAllocate; None: there is nothing to do."""
        with self._state.changing():
            if not self._needs(key, required, running=running):
                return None
            selection = _Selection(self._state, key.resource, required)
            if selection.take(reusable.get(key.resource, ())):
                return selection.ids
            available = self._available(key.resource, selection)
        # With policy none nothing is aligned, so the plugin is asked at every fresh allocation,
        # even when there is nothing to choose (A9).
        preferred = self._preferred(key.resource, available, selection, required)
        with self._state.changing():
            if not (selection.take(available & preferred) or selection.take(available)):
                got = required - selection.needed
                raise AllocationError(
                    "unexpectedly allocated less resources than required. "
                    f"Requested: {required}, Got: {got}"
                )
            return selection.ids

    def _needs(self, key: Key, required: int, *, running: bool) -> bool:
        """Steps 4 to 9 of A8, in their order."""
        devices = self._state.devices
        held = devices.allocations.get(key)
        if held is not None and len(held.ids) != required:
            raise AllocationError(
                f'pod "{key.pod}" container "{key.container}" changed request for resource '
                f'"{key.resource}" from {len(held.ids)} to {required}'
            )
        if running:
            return False
        healthy = devices.healthy.get(key.resource)
        if healthy is None:
            raise AllocationError(f"cannot allocate unregistered device {key.resource}")
        if not healthy:
            raise AllocationError(
                f"no healthy devices present; cannot allocate unhealthy devices {key.resource}"
            )
        if held is not None and not healthy >= held.ids:
            raise AllocationError(
                "previously allocated devices are no longer healthy; "
                f"cannot allocate unhealthy devices {key.resource}"
            )
        return held is None

    def _available(self, resource: str, selection: _Selection) -> set[str]:
        devices = self._state.devices
        available = devices.healthy[resource] - devices.allocated.get(resource, set())
        if len(available) < selection.needed:
            raise AllocationError(
                f"requested number of devices unavailable for {resource}. "
                f"Requested: {selection.needed}, Available: {len(available)}"
            )
        return available

    def _preferred(
        self, resource: str, available: set[str], selection: _Selection, required: int
    ) -> set[str]:
        with self._state.condition:
            endpoint = self._state.devices.endpoint(resource)
        if endpoint is None:
            raise AllocationError(
                f"endpoint not found in cache for a registered resource: {resource}"
            )
        if not endpoint.options or not endpoint.options.get_preferred_allocation_available:
            return set()
        shuffled = self._state.shuffled
        try:
            reply = endpoint.reach().preferred(
                shuffled(available | selection.ids), shuffled(selection.ids), required
            )
        except PluginError as error:
            raise AllocationError(
                f"device plugin GetPreferredAllocation rpc failed with err: {error}"
            ) from error
        # Only the first entry counts; unknown IDs and missing must-include ones are ignored.
        return set(reply.container_responses[0].deviceIDs) if reply.container_responses else set()

    def _endpoint(self, resource: str) -> Endpoint:
        with self._state.condition:
            endpoint = self._state.devices.endpoint(resource)
        if endpoint is None:
            raise AllocationError(f"unknown Device Plugin {resource}")
        return endpoint

    def _look_for_lost(self, key: Key, ids: set[str]) -> None:
        """An ID that vanished during the call is a nil pointer in the kubelet (A6)."""
        listed = self._state.devices.all.get(key.resource, {})
        pod = self._state.pods[key.pod].pod
        for id_ in sorted(ids - listed.keys()):
            self._state.panics.append(Panic(key.resource, id_, f"{pod.name!r} ({key.container})"))

    def _check_fit(self, record: PodRecord) -> None:
        """The fit predicate (A13) for what the device manager skipped but the Node still lists."""
        with self._state.condition:
            listed = self._state.node_status.allocatable
            skipped = {
                resource: count
                for container in record.pod.in_order
                for resource, count in container.limits.items()
                if resource in listed
                and not self._state.devices.is_ours(resource)
                and not record.pod.is_claimed(container.name, resource)
            }
        for resource, requested in skipped.items():
            if requested > listed[resource]:
                message = (
                    f"Pod was rejected: Node didn't have enough resource: {resource}, "
                    f"requested: {requested}, used: 0, capacity: {listed[resource]}"
                )
                self._fail(record, f"OutOf{resource}", message)

    def _fail(self, record: PodRecord, reason: str, message: str) -> None:
        with self._state.changing():
            record.fail(reason, message)
        raise AdmissionError(reason, message)
