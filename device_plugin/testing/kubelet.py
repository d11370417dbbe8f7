"""An embedded kubelet: as much of one as a device plugin can notice.

A black-box peer for plugins in any language: it shares nothing with the rest of this package but
the generated API. What it does and says is taken from real kubelets; "A5" and the like name the
sections of docs/kubelet.md, which also say how each thing is known.
"""

import time
from pathlib import Path
from types import TracebackType
from typing import Self, get_args

import grpc

from device_plugin._api.deviceplugin.v1beta1.deviceplugin_pb2_grpc import (
    add_RegistrationServicer_to_server,
)
from device_plugin.testing.allocation import Allocator
from device_plugin.testing.checkpoint import Checkpoint
from device_plugin.testing.claiming import Claiming
from device_plugin.testing.connections import Behaviour, Connections, Settings
from device_plugin.testing.containers import Containers
from device_plugin.testing.dra.claims import Claims
from device_plugin.testing.dra.drivers import Drivers
from device_plugin.testing.dra.records import Cluster, DraTimes
from device_plugin.testing.faults import Faults
from device_plugin.testing.handlers import DEVICE_PLUGIN, DRA_PLUGIN, DevicePlugins
from device_plugin.testing.listener import KUBELET_SOCKET, Listener, clean_up
from device_plugin.testing.podresources import PodResources
from device_plugin.testing.registration import Registrar
from device_plugin.testing.runtime import Runtime
from device_plugin.testing.state import State
from device_plugin.testing.switches import Switches
from device_plugin.testing.watcher import Watcher


class FakeKubelet(Switches, Claiming):
    """A kubelet on paper, on a real socket in `directory`. As a context manager it starts at once.

    `behaviour` says which release's handling of a second instance of a plugin applies (A5): in
    "1.36" the end of any old stream disconnects the newest client of that resource, from "1.37" on
    clients are told apart by their sockets. `seed` makes the random orders repeatable.

    With a `root`, the kubelet's own folder, it serves PodResources in `pod-resources` below that
    (B), and looks for plugins in `plugins_registry` every `watch_interval` seconds (A15): device
    plugins and DRA drivers. The claims of the latter, and the ResourceSlices of `node` that it
    deletes, are at a `cluster`, an `apiserver.ApiServer`; `dra` has the periods (C).
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        root: str | Path | None = None,
        behaviour: Behaviour = "1.37",
        runtime: Runtime | None = None,
        status_interval: float = 10.0,
        grace: float = 300.0,
        dial_timeout: float = 10.0,
        rpc_timeout: float = 60.0,
        watch_interval: float = 1.0,
        cluster: Cluster | None = None,
        node: str = "node-1",
        dra: DraTimes | None = None,
        allow_panic: bool = False,
        seed: int | None = None,
    ) -> None:
        if behaviour not in get_args(Behaviour):
            raise ValueError(f"behaviour is one of {get_args(Behaviour)}, not {behaviour!r}")
        state = State(seed=seed, allow_panic=allow_panic)
        self.directory = Path(directory).absolute()
        self._status_interval = status_interval
        self._grace = grace
        checkpoint = Checkpoint(self.directory, state)
        settings = Settings(self.directory, behaviour, dial_timeout, rpc_timeout)
        self._faults = Faults(state)
        self._connections = Connections(settings, state, checkpoint)
        self._registrar = Registrar(state, self._connections, self._faults)
        allocator = Allocator(state, checkpoint)
        drivers = Drivers(state, dra or DraTimes(), behaviour, cluster, node)
        claims = Claims(state, drivers, behaviour, cluster)
        containers = Containers(state, allocator, runtime or Runtime(), claims.cdi_devices)
        super().__init__(state, allocator, containers, claims)
        self._pod_resources: PodResources | None = None
        self._watcher: Watcher | None = None
        if root is not None:
            own = Path(root).absolute()
            self._pod_resources = PodResources(own / "pod-resources", state)
            self._watcher = Watcher(
                own / "plugins_registry",
                state,
                {DEVICE_PLUGIN: DevicePlugins(state, self._connections), DRA_PLUGIN: drivers},
                interval=watch_interval,
                dial_timeout=dial_timeout,
            )
        self._listener: Listener | None = None

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
        Until then PodResources knows of no Pod.
        """
        if self.running:
            raise RuntimeError("the kubelet is running already")
        generation = self._begin()
        if readmit and readmit_after is None:
            self.readmit()
        self._tick()
        try:
            if self._pod_resources is not None:
                self._pod_resources.start()
            self._listener = self._listen()
        except BaseException:
            with self._state.changing():
                self._state.running = False
            if self._pod_resources is not None:
                self._pod_resources.stop()
            raise
        self._drivers.start()
        if self._watcher is not None:
            self._watcher.start()
        self._run(self._keep_ticking, generation)
        self._resume(generation)
        if readmit and readmit_after is not None:
            self._run(self._readmit_later, generation, readmit_after)

    def _begin(self) -> int:
        self.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        clean_up(self.directory)
        with self._state.changing():
            self._state.generation += 1
            self._state.running = True
            self._state.devices = self._state.devices.restarted(time.monotonic())
            self._state.plugins = {}
            self._state.sources_ready = False
            self._claims.restart()
            for record in self._state.pods.values():
                record.known = False
            for uid in self._state.active():
                self._state.sync_pod(uid)
            return self._state.generation

    def _listen(self) -> Listener:
        def add(server: grpc.Server) -> None:
            add_RegistrationServicer_to_server(self._registrar, server)

        return Listener(self.directory / KUBELET_SOCKET, add)

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
        if self._watcher is not None:
            self._watcher.stop()
        self._drivers.stop()
        if self._pod_resources is not None:
            self._pod_resources.stop()
        self._join()
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

    def _readmit_later(self, generation: int, delay: float) -> None:
        with self._state.condition:
            over = self._state.condition.wait_for(
                lambda: self._state.generation != generation, timeout=delay
            )
        if not over:
            self._readmit(generation)

    # --- faults ---

    @property
    def pod_resources(self) -> PodResources:
        """The PodResources server: what was asked of it, and switches for what goes wrong there."""
        if self._pod_resources is None:
            raise RuntimeError("no PodResources without a root: FakeKubelet(directory, root=...)")
        return self._pod_resources

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
            old, self._listener = self._listener, self._listen()
            if old is not None:
                old.close()

    def delete_socket(self, resource: str) -> None:
        """Delete the socket file of a resource's plugin; the connection stays."""
        with self._state.condition:
            client = self._state.devices.client(resource)
        if client is None:
            raise LookupError(f"no plugin is connected for {resource}")
        Path(client.path).unlink()
