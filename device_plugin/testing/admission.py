"""Pods as a test brings them: admitted, started, restarted, ended (A8, A10, A14)."""

import contextlib
import threading

from device_plugin.testing.allocation import Allocator
from device_plugin.testing.containers import Containers
from device_plugin.testing.pods import Pod, PodRecord
from device_plugin.testing.records import AdmissionError
from device_plugin.testing.runtime import Created
from device_plugin.testing.state import State
from device_plugin.testing.views import Views


class Admission(Views):
    """What one can do with Pods. Every step fails with KubeletPanic once there was a panic."""

    def __init__(self, state: State, allocator: Allocator, containers: Containers) -> None:
        super().__init__(state)
        self._allocator = allocator
        self._containers = containers
        self._admission = threading.Lock()  # pods are admitted one after the other (A4)

    def admit(self, pod: Pod) -> Pod:
        """Admit a Pod, which allocates its devices; AdmissionError if it is rejected (A8)."""
        self._require_running()
        record = PodRecord(pod)
        with self._admission:
            with self._state.changing():
                self._state.pods[pod.uid] = record
            self._allocator.admit(record)
        self._state.check()
        return pod

    def admit_and_drop(self, pod: Pod) -> None:
        """Allocate for a Pod that a later admission check rejects: nobody tells the plugin (A8)."""
        self.admit(pod)
        with self._state.changing():
            message = "Pod was rejected: Predicate NodeAffinity failed"
            self._state.pods[pod.uid].fail("NodeAffinity", message)

    def readmit(self) -> None:
        """Admit all Pods again, as at every kubelet start (A14).

        Running containers are skipped; the others demand healthy devices at once, and without them
        the Pod is Failed.
        """
        self._require_running()
        self._readmit(self._state.generation)
        self._state.check()

    def _readmit(self, generation: int) -> None:
        with self._admission:
            with self._state.condition:
                records = [record for record in self._state.pods.values() if record.active]
            for record in records:
                with self._state.changing():
                    if self._state.generation != generation:
                        return
                    record.known = True
                with contextlib.suppress(AdmissionError):  # it is in the Pod's status
                    self._allocator.admit(record, starting=True)
            with self._state.changing():
                self._state.sources_ready |= self._state.generation == generation

    def remove(self, pod: Pod) -> None:
        """End a Pod. Its IDs come back when somebody next looks; there is no call for it (A14)."""
        with self._state.changing():
            self._state.pods[pod.uid].removed = True

    def create_container(self, pod: Pod, name: str) -> Created:
        """Create a container: ContainerError, or RuntimeRefusal, if it cannot be now (A10, A11)."""
        self._require_running()
        record = self._active(pod)
        with self._admission:
            created = self._containers.create(record, pod.container(name))
        self._state.check()
        return created

    def restart_container(self, pod: Pod, name: str) -> Created:
        """Create it again after it ended: the first response is replayed, without Allocate."""
        self.exit_container(pod, name)
        return self.create_container(pod, name)

    def exit_container(self, pod: Pod, name: str) -> None:
        """Let a container end: it is done, or waits in CrashLoopBackOff."""
        record = self._active(pod)
        with self._state.changing():
            record.containers[name].state = "terminated"

    def _active(self, pod: Pod) -> PodRecord:
        self._state.check()
        with self._state.condition:
            record = self._state.pods[pod.uid]
            if not record.active:
                raise RuntimeError(f"pod {pod.name!r} is {record.phase} or removed")
            return record

    def _require_running(self) -> None:
        self._state.check()
        if not self.running:
            raise RuntimeError("the kubelet is not running")
