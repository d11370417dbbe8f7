"""The reading side of the fake kubelet."""

import time
from collections.abc import Callable
from typing import Self, TypeVar

from device_plugin.testing.pods import Pod, PodRecord
from device_plugin.testing.records import (
    Call,
    DeviceList,
    Handshake,
    NodeStatus,
    Panic,
    Registration,
)
from device_plugin.testing.state import State

_Value = TypeVar("_Value")
_SHOWN = 20  # devices of one list
_LAST_CALLS = 10


class Views:
    """What one can see of a kubelet. Every look fails with KubeletPanic once there was a panic."""

    def __init__(self, state: State) -> None:
        self._state = state

    def capacity(self, resource: str) -> int | None:
        """Count the devices now; None: never heard of."""
        self._state.check()
        with self._state.condition:
            return self._state.devices.capacity(resource)

    def allocatable(self, resource: str) -> int | None:
        """Count the healthy devices now; None: never heard of."""
        self._state.check()
        with self._state.condition:
            return self._state.devices.allocatable(resource)

    def node_status(self) -> NodeStatus:
        """What the Node object says: as of the last status tick (A7)."""
        self._state.check()
        with self._state.condition:
            return self._state.node_status

    def devices(self, resource: str) -> dict[str, str]:
        """The last list: ID to health text; of duplicates, the last one."""
        self._state.check()
        with self._state.condition:
            listed = self._state.devices.all.get(resource, {})
            return {device.id: device.health for device in listed.values()}

    def lists(self, resource: str) -> list[DeviceList]:
        """Every ListAndWatch message ever received, over kubelet restarts too."""
        self._state.check()
        with self._state.condition:
            return list(self._state.lists.get(resource, ()))

    @property
    def registrations(self) -> list[Registration]:
        """Every Register call, over kubelet restarts too."""
        self._state.check()
        with self._state.condition:
            return list(self._state.registrations)

    @property
    def calls(self) -> list[Call]:
        """Every other call to a plugin, with its duration."""
        self._state.check()
        with self._state.condition:
            return list(self._state.calls)

    @property
    def handshakes(self) -> list[Handshake]:
        """Every attempt of the plugin watcher to register a plugin, over kubelet restarts too."""
        self._state.check()
        with self._state.condition:
            return list(self._state.handshakes)

    @property
    def plugins(self) -> dict[str, Handshake]:
        """What the plugin watcher has registered, by path of the registration socket (A15)."""
        self._state.check()
        with self._state.condition:
            return dict(self._state.plugins)

    @property
    def panics(self) -> list[Panic]:
        """What a real kubelet would have died of; never raises."""
        with self._state.condition:
            return list(self._state.panics)

    @property
    def running(self) -> bool:
        with self._state.condition:
            return self._state.running

    @property
    def knows_pods(self) -> bool:
        """Whether all Pods were admitted again since the start; PodResources knows less before."""
        with self._state.condition:
            return self._state.sources_ready

    def is_streaming(self, resource: str) -> bool:
        """Whether the stream of the plugin that calls would go to is open."""
        self._state.check()
        with self._state.condition:
            client = self._state.devices.client(resource)
            return client is not None and client.registration.streaming

    def streams(self, resource: str) -> list[Registration]:
        """Every open stream, those of older instances too (A5)."""
        return [one for one in self.registrations if one.resource == resource and one.streaming]

    def pod_status(self, pod: Pod) -> PodRecord:
        """Phase, reason, message and containers of a Pod; treat it as read only."""
        self._state.check()
        with self._state.condition:
            return self._state.pods[pod.uid]

    def allocated(self, pod: Pod, name: str, resource: str) -> set[str]:
        """The IDs that a container holds."""
        self._state.check()
        with self._state.condition:
            got = self._state.devices.of_container(pod.uid, name).get(resource)
            return set(got.ids) if got else set()

    def allocated_resources_status(self, pod: Pod, name: str) -> dict[str, dict[str, str]]:
        """The container status's allocatedResourcesStatus: resource, ID, health (A12)."""
        self._state.check()
        with self._state.condition:
            return dict(self._state.pods[pod.uid].containers[name].allocated_resources)

    def wait_for(self, predicate: Callable[[Self], _Value], timeout: float = 5) -> _Value:
        """Wait until the predicate holds; it is looked at again at every change."""
        deadline = time.monotonic() + timeout
        while True:
            self._state.check()
            with self._state.condition:
                version = self._state.version
            # Outside the lock: a predicate may look at other things that have locks.
            value = predicate(self)
            if value:
                return value
            with self._state.condition:
                while self._state.version == version:
                    if not self._state.condition.wait(deadline - time.monotonic()):
                        raise AssertionError(self._not_so(timeout))

    def _not_so(self, timeout: float) -> str:
        return f"not so within {timeout:g} s; the kubelet:\n{self.dump()}"

    def dump(self) -> str:
        """Everything that may explain a failure, for people."""
        now = time.monotonic()
        with self._state.condition:
            state = self._state
            lines = [f"{'running' if state.running else 'stopped'}, start {state.generation}"]
            for resource in sorted({*state.devices.all, *state.devices.endpoints, *state.lists}):
                client = state.devices.client(resource)
                open_ = client is not None and client.registration.streaming
                listed = list(state.devices.all.get(resource, {}).values())
                devices = ", ".join(f"{one.id}={one.health}" for one in listed[:_SHOWN])
                devices += f", and {len(listed) - _SHOWN} more" if listed[_SHOWN:] else ""
                lines.append(
                    f"resource {resource}: capacity {state.devices.capacity(resource)}, "
                    f"allocatable {state.devices.allocatable(resource)}, "
                    f"stream {'open' if open_ else 'closed'}, "
                    f"{len(state.lists.get(resource, ()))} lists, last: [{devices}]"
                )
            lines += [_describe(registration, now) for registration in state.registrations]
            lines += [
                f"call {call.method} {call.resource} {call.ids[:_SHOWN]}: {call.error or 'ok'}"
                for call in state.calls[-_LAST_CALLS:]
            ]
            lines += [f"handshake {one.socket}: {one.error or 'ok'}" for one in state.handshakes]
            for record in state.pods.values():
                lines.append(
                    f"pod {record.pod.name}: {record.phase} {record.reason} {record.message}"
                    f"{' (removed)' if record.removed else ''}".rstrip()
                )
            lines += [f"panic: {panic}" for panic in state.panics]
            lines += [f"error: {error}" for error in state.errors]
        return "\n".join(f"  {line}" for line in lines)


def _describe(registration: Registration, now: float) -> str:
    outcome = "pending" if registration.replied is None else registration.error or "accepted"
    stream = ""
    if registration.stream_ended is not None:
        stream = f", stream ended: {registration.stream_error or 'by the plugin, without error'}"
    elif registration.stream_opened is not None:
        stream = ", stream open"
    age = now - registration.received
    return (
        f"registration {registration.number}, {age:.2f} s ago: {registration.resource} "
        f"at {registration.endpoint!r}: {outcome}{stream}"
    )
