"""An embedded kubelet: as much of one as a device plugin can notice.

A black-box peer for plugins in any language: it shares nothing with the rest of this package but
the generated API. What it does and says is taken from real kubelets; "A5" and the like name the
sections of docs/kubelet.md, which also say how each thing is known.
"""

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, get_args

from device_plugin.testing.allocation import Allocator
from device_plugin.testing.checkpoint import Checkpoint
from device_plugin.testing.connections import Behaviour, Connections, Settings
from device_plugin.testing.containers import Containers
from device_plugin.testing.faults import Faults
from device_plugin.testing.listener import KUBELET_SOCKET, Listener, clean_up
from device_plugin.testing.pods import Pod, PodRecord
from device_plugin.testing.records import AdmissionError
from device_plugin.testing.registration import Registrar
from device_plugin.testing.runtime import Created, Runtime
from device_plugin.testing.state import State
from device_plugin.testing.views import Views


class FakeKubelet(Views):
    """A kubelet on paper, on a real socket in `directory`. As a context manager it starts at once.

    `behaviour` says which release's handling of a second instance of a plugin applies (A5): in
    "1.36" the end of any old stream disconnects the newest client of that resource, from "1.37" on
    clients are told apart by their sockets. `seed` makes the random orders repeatable.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        behaviour: Behaviour = "1.37",
        runtime: Runtime | None = None,
        status_interval: float = 10.0,
        grace: float = 300.0,
        dial_timeout: float = 10.0,
        rpc_timeout: float = 60.0,
        allow_panic: bool = False,
        seed: int | None = None,
    ) -> None:
        if behaviour not in get_args(Behaviour):
            raise ValueError(f"behaviour is one of {get_args(Behaviour)}, not {behaviour!r}")
        super().__init__(State(seed=seed, allow_panic=allow_panic))
        self.directory = Path(directory).absolute()
        self._status_interval = status_interval
        self._grace = grace
        checkpoint = Checkpoint(self.directory, self._state)
        settings = Settings(self.directory, behaviour, dial_timeout, rpc_timeout)
        self._faults = Faults(self._state)
        self._connections = Connections(settings, self._state, checkpoint)
        self._registrar = Registrar(self._state, self._connections, self._faults)
        self._allocator = Allocator(self._state, checkpoint)
        self._containers = Containers(self._state, self._allocator, runtime or Runtime())
        self._admission = threading.Lock()  # pods are admitted one after the other (A4)
        self._listener: Listener | None = None
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.running:
            self.stop()
        if error is None:
            self._state.check()
        elif self.panics:
            error.add_note(f"the kubelet had panicked: {'; '.join(map(str, self.panics))}")

    # --- life ---

    def start(self, *, readmit: bool = True, readmit_after: float | None = None) -> None:
        """Start as a new process: clean the folder, listen, admit the Pods again (A1, A14).

        By default that is done before anybody can register: the worst case, in which no plugin can
        be fast enough. With `readmit_after` it is done that many seconds after the kubelet listens,
        as a real one does (0.9 s were seen); with readmit=False, not before `readmit()`.
        """
        if self.running:
            raise RuntimeError("the kubelet is running already")
        generation = self._begin()
        if readmit and readmit_after is None:
            self.readmit()
        self._tick()
        try:
            self._listener = Listener(self.directory, self._registrar)
        except BaseException:
            with self._state.changing():
                self._state.running = False
            raise
        self._run(self._keep_ticking, generation)
        if readmit and readmit_after is not None:
            self._run(self._readmit_later, generation, readmit_after)

    def _begin(self) -> int:
        self.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        clean_up(self.directory)
        with self._state.changing():
            self._state.generation += 1
            self._state.running = True
            self._state.devices = self._state.devices.restarted(time.monotonic())
            for uid in self._state.active():
                self._state.sync_pod(uid)
            return self._state.generation

    def _run(self, target: Callable[..., None], *args: float) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def stop(self) -> None:
        """Exit: connections drop, kubelet.sock stays behind and refuses (A1)."""
        with self._state.changing():
            if not self._state.running:
                raise RuntimeError("the kubelet is not running")
            self._state.running = False
            self._state.generation += 1  # held calls and late threads notice
        if self._listener is not None:
            self._listener.close()  # first, so that pending Register calls see it drop
        self._connections.close_all()
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        self._listener = None

    def restart(
        self, *, readmit: bool = True, readmit_after: float | None = None, times: int = 1
    ) -> None:
        """Stop and start, or do so several times in quick succession."""
        for _ in range(times):
            self.stop()
            self.start(readmit=readmit, readmit_after=readmit_after)

    def _keep_ticking(self, generation: int) -> None:
        with self._state.condition:
            while not self._state.condition.wait_for(
                lambda: self._state.generation != generation, timeout=self._status_interval
            ):
                self._tick()

    def _tick(self) -> None:
        with self._state.changing():
            now = time.monotonic()
            self._state.node_status = self._state.devices.node_status(now, self._grace)

    # --- pods ---

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

    def _readmit_later(self, generation: int, delay: float) -> None:
        with self._state.condition:
            over = self._state.condition.wait_for(
                lambda: self._state.generation != generation, timeout=delay
            )
        if not over:
            self._readmit(generation)

    def _readmit(self, generation: int) -> None:
        with self._admission:
            with self._state.condition:
                records = [record for record in self._state.pods.values() if record.active]
            for record in records:
                if self._state.generation != generation:
                    return
                with contextlib.suppress(AdmissionError):  # it is in the Pod's status
                    self._allocator.admit(record, starting=True)

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

    # --- faults ---

    def refuse_registration(self, text: str, times: int | None = None) -> None:
        """Answer Register with this error, for ever or so many times."""
        self._faults.refuse(text, times)

    def accept_registration(self) -> None:
        self._faults.refuse("", 0)

    def hold_registration(self, where: Literal["arrival", "reply"] = "arrival") -> None:
        """Leave Register calls unanswered: before anything is done, or with all done."""
        self._faults.hold(where)

    def release_registration(self) -> None:
        self._faults.hold(None)

    def withhold_streams(self, times: int | None = None) -> None:
        """Never open ListAndWatch after a good Register, for ever or so many times.

        Such a client's socket may be registered again, as if a stream had ended.
        """
        self._faults.withhold(times)

    def open_streams(self, order: Literal["any", "before", "after"] = "any") -> None:
        """Open ListAndWatch again, and where wanted surely before or after the Register reply."""
        self._faults.withhold(0)
        self._faults.stream_order = order

    def cancel_stream(self, resource: str) -> None:
        """Drop the connection to a resource's plugin and live on, as 1.36 does by mistake (A5)."""
        with self._state.condition:
            client = self._state.devices.client(resource)
        if client is None:
            raise LookupError(f"no plugin is connected for {resource}")
        self._connections.disconnect(client)

    def replace_socket(self, times: int = 1) -> None:
        """Put a new kubelet.sock in the place of the old one; connections and plugins stay."""
        self._require_running()
        for _ in range(times):
            (self.directory / KUBELET_SOCKET).unlink(missing_ok=True)
            old, self._listener = self._listener, Listener(self.directory, self._registrar)
            if old is not None:
                old.close()

    def delete_socket(self, resource: str) -> None:
        """Delete the socket file of a resource's plugin; the connection stays."""
        with self._state.condition:
            client = self._state.devices.client(resource)
        if client is None:
            raise LookupError(f"no plugin is connected for {resource}")
        Path(client.path).unlink()
