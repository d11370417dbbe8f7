"""Creating containers: PreStartContainer, the cached responses merged, the runtime (A10, A11)."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from device_plugin._api.deviceplugin.v1beta1 import deviceplugin_pb2 as pb
from device_plugin.testing.allocation import AllocationError, Allocator
from device_plugin.testing.container_config import ContainerConfig, DeviceConfig, MountConfig
from device_plugin.testing.endpoints import PluginError
from device_plugin.testing.pods import Container, Pod, PodRecord
from device_plugin.testing.records import ContainerError
from device_plugin.testing.runtime import Created, Runtime
from device_plugin.testing.state import State

_Value = TypeVar("_Value")


class Containers:
    def __init__(
        self,
        state: State,
        allocator: Allocator,
        runtime: Runtime,
        claimed: Callable[[Pod, str], list[str]],
    ) -> None:
        self._state = state
        self._allocator = allocator
        self._runtime = runtime
        self._claimed = claimed  # CDI devices of a container's claims

    def create(self, record: PodRecord, container: Container) -> Created:
        status = record.containers[container.name]
        try:
            config = self._config(record, container)
            created = self._runtime.create(config)
        except ContainerError as error:
            with self._state.changing():
                status.state, status.reason = "waiting", error.reason
                status.message = error.message
            raise
        with self._state.changing():
            status.state, status.reason, status.message = "running", "", ""
            status.restarts += 1
            self._end_init_containers(record, container)
            self._state.sync_pod(record.pod.uid)
        return created

    def _end_init_containers(self, record: PodRecord, container: Container) -> None:
        """An app container runs only after the ordinary init containers have ended."""
        if record.pod.is_init(container.name):
            return
        record.phase = "Running"
        for init in record.pod.init_containers:
            if not init.sidecar:
                record.containers[init.name].state = "terminated"

    def _config(self, record: PodRecord, container: Container) -> ContainerConfig:
        """GetDeviceRunContainerOptions (A11), then the kubelet's merge (A10)."""
        uid = record.pod.uid
        missing = False
        for resource in self._state.shuffled(container.limits):
            with self._state.condition:
                ours = self._state.devices.is_ours(resource)
            if not ours or not container.limits[resource]:
                continue
            try:
                self._pre_start(uid, container.name, resource)
            except PluginError as error:
                raise ContainerError(str(error)) from error
            with self._state.condition:
                missing |= resource not in self._state.devices.of_container(uid, container.name)
        if missing:
            # Registered since the Pod was admitted, "a race during node restart" (A11).
            try:
                self._allocator.allocate(record, container)
            except (AllocationError, PluginError) as error:
                raise ContainerError(str(error)) from error
        with self._state.condition:
            allocations = self._state.devices.of_container(uid, container.name)
        order = self._state.shuffled(allocations)
        config = merge([allocations[name].response for name in order], container.env)
        try:
            config.cdi_devices[:0] = self._claimed(record.pod, container.name)
        except KeyError as error:
            raise ContainerError(error.args[0]) from error
        return config

    def _pre_start(self, uid: str, container: str, resource: str) -> None:
        with self._state.condition:
            endpoint = self._state.devices.endpoint(resource)
            got = self._state.devices.of_container(uid, container).get(resource)
        if endpoint is None:
            raise PluginError(f"endpoint not found in cache for a registered resource: {resource}")
        # After a kubelet restart nobody has been asked for options yet: it is skipped (A11).
        if not endpoint.options or not endpoint.options.pre_start_required:
            return
        if got is None:
            raise PluginError(
                f"no devices found allocated in local cache for pod {uid}, "
                f"container {container}, resource {resource}"
            )
        try:
            endpoint.reach().pre_start(self._state.shuffled(got.ids))
        except PluginError as error:
            raise PluginError(
                f"device plugin PreStartContainer rpc failed with err: {error}"
            ) from error


def merge(
    responses: Iterable[pb.ContainerAllocateResponse], pod_env: Mapping[str, str]
) -> ContainerConfig:
    """First seen wins; what differs from it is dropped with no more than a log line (A10)."""
    config = ContainerConfig()
    envs: dict[str, str] = {}
    devices: dict[str, DeviceConfig] = {}
    mounts: dict[str, MountConfig] = {}
    conflicts = config.conflicts
    for response in responses:
        for key, value in sorted(response.envs.items()):
            _first(envs, key, value, conflicts, "Environment variable has conflicting setting")
        for device in response.devices:
            node = DeviceConfig(device.container_path, device.host_path, device.permissions)
            complaint = "Container device has conflicting mapping host devices"
            _first(devices, device.container_path, node, conflicts, complaint)
        for mount in response.mounts:
            place = MountConfig(mount.container_path, mount.host_path, mount.read_only)
            complaint = "Container mount has conflicting mapping host mounts"
            _first(mounts, mount.container_path, place, conflicts, complaint)
        for key, value in sorted(response.annotations.items()):
            _first(config.annotations, key, value, conflicts, "Annotation has conflicting setting")
        config.cdi_devices += [
            device.name for device in response.cdi_devices if device.name not in config.cdi_devices
        ]
    config.envs = [*envs.items(), *pod_env.items()]  # the last one wins: the Pod's own
    config.devices = list(devices.values())
    config.mounts = list(mounts.values())
    return config


def _first(
    table: dict[str, _Value], key: str, value: _Value, conflicts: list[str], complaint: str
) -> None:
    kept = table.setdefault(key, value)
    if kept != value:
        conflicts.append(f"{complaint}: {key}: {kept!r} stays, {value!r} is dropped")
