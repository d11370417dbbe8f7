"""What all parts of the fake kubelet share, under one lock; every change wakes the waiters."""

import contextlib
import random
import threading
import time
from collections.abc import Iterable, Iterator

from device_plugin.testing.devices import Devices
from device_plugin.testing.pods import PodRecord
from device_plugin.testing.records import (
    HEALTHY,
    Call,
    DeviceList,
    Handshake,
    KubeletPanic,
    NodeStatus,
    Panic,
    Query,
    Registration,
)


class State:
    """Read and write it inside `reading()` or `changing()` only."""

    def __init__(self, *, seed: int | None, allow_panic: bool) -> None:
        self.condition = threading.Condition()  # over a re-entrant lock
        self.version = 0
        self.running = False
        self.generation = 0  # counts starts: what an earlier life left behind must not write here
        self.devices = Devices()
        self.node_status = NodeStatus()
        self.pods: dict[str, PodRecord] = {}
        self.lists: dict[str, list[DeviceList]] = {}
        self.registrations: list[Registration] = []
        self.calls: list[Call] = []
        self.queries: list[Query] = []
        self.handshakes: list[Handshake] = []
        self.plugins: dict[str, Handshake] = {}  # registered by the watcher, by socket
        self.sources_ready = False  # whether the kubelet knows all Pods since it started
        self.panics: list[Panic] = []
        self.errors: list[str] = []
        self._allow_panic = allow_panic
        # Go's maps and sets have no order; the seed makes a run repeatable.
        self.random = random.Random(seed)  # noqa: S311 - not for cryptography

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        with self.condition:
            try:
                yield
            finally:
                self.version += 1
                self.condition.notify_all()

    def check(self) -> None:
        """Fail loudly once a real kubelet would have crashed."""
        with self.condition:
            if self.panics and not self._allow_panic:
                raise KubeletPanic("; ".join(str(panic) for panic in self.panics))

    def note(self, resource: str, endpoint: str, version: str) -> Registration:
        """Write down that a plugin wants to be registered."""
        with self.changing():
            number = len(self.registrations) + 1
            registration = Registration(number, time.monotonic(), version, endpoint, resource)
            self.registrations.append(registration)
            return registration

    def settle(self, registration: Registration, error: str | None) -> None:
        """Write down what came of it."""
        with self.changing():
            registration.error = error
            registration.replied = time.monotonic()

    def record(self, call: Call) -> None:
        with self.changing():
            self.calls.append(call)

    def shuffled(self, ids: Iterable[str]) -> list[str]:
        with self.condition:
            order = sorted(ids)  # sets of strings differ from run to run
            self.random.shuffle(order)
            return order

    def active(self) -> set[str]:
        """Pods that hold what they were given; rejected and removed ones do not (A14)."""
        return {uid for uid, record in self.pods.items() if record.active}

    def sync_pod(self, uid: str) -> None:
        """Write allocatedResourcesStatus as the kubelet does when it syncs a Pod (A12).

        An ID that no list knows reads Healthy, and init containers are left out.
        """
        record = self.pods[uid]
        for container in record.pod.containers:
            record.containers[container.name].allocated_resources = {
                resource: {
                    id_: listed[id_].health if id_ in listed else HEALTHY for id_ in sorted(got.ids)
                }
                for resource, got in self.devices.of_container(uid, container.name).items()
                for listed in [self.devices.all.get(resource, {})]
            }

    def look_for_panics(self, resource: str) -> None:
        """Find the held IDs that the last list lost (A6).

        Stricter than a real kubelet on purpose. That one dies later, when it starts or resizes a
        Pod, and only with a NUMA policy and NUMA nodes on the resource's devices; but whether the
        node of a user has these is no plugin's affair, and the ID is lost by now.
        """
        listed = self.devices.all.get(resource, {})
        for key, got in self.devices.allocations.items():
            if key.resource != resource or key.pod not in self.pods:
                continue
            record = self.pods[key.pod]
            for lost in sorted(got.ids - listed.keys()) if record.active else ():
                panic = Panic(resource, lost, f"{record.pod.name!r} ({key.container})")
                if panic not in self.panics:
                    self.panics.append(panic)
