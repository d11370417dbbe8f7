"""The kubelet's table of DRA drivers: who is registered, connected, watched and wiped (C1, C3)."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence

import grpc

from device_plugin.testing.connections import Behaviour
from device_plugin.testing.dra.client import (
    HEALTH_SERVICES,
    SERVICES,
    DriverClient,
    DriverError,
)
from device_plugin.testing.dra.health import HealthCache
from device_plugin.testing.dra.records import (
    ClaimCall,
    Cluster,
    DeviceHealth,
    DraTimes,
    HealthReport,
    Instance,
    Wipe,
)
from device_plugin.testing.endpoints import PluginError
from device_plugin.testing.state import State

_JOIN_TIMEOUT = 5.0
_V1ALPHA1_HEALTH = "v1alpha1.DRAResourceHealth"


class NotRegisteredError(Exception):
    """No instance of a driver is known."""


class Drivers:
    """Instances by driver, in the order in which they registered."""

    def __init__(
        self,
        state: State,
        times: DraTimes,
        behaviour: Behaviour,
        cluster: Cluster | None,
        node: str,
    ) -> None:
        self._state = state
        self.times = times
        self._behaviour = behaviour
        self._cluster = cluster
        self._node = node
        self._clients: dict[str, list[DriverClient]] = {}
        self._wipes: dict[str, float] = {}  # by driver, when; "": all drivers
        self._threads: list[threading.Thread] = []
        self._running = False
        self.health = HealthCache(times)
        self.reports: list[HealthReport] = []
        self.wiped: list[Wipe] = []
        self.calls: list[ClaimCall] = []

    # --- life ---

    def start(self) -> None:
        """Start as a new process: nobody is registered, and the node's slices are deleted."""
        with self._state.changing():
            self._running = True
            self._wipes = {"": time.monotonic()}
        if self._cluster is not None:
            self._spawn(self._keep_wiping, self._cluster)

    def stop(self) -> None:
        with self._state.changing():
            self._running = False
            clients = [one for known in self._clients.values() for one in known]
            threads, self._threads = self._threads, []
            self._clients.clear()
        for client in clients:
            client.close()
        for thread in threads:
            thread.join(_JOIN_TIMEOUT)

    def _spawn(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    # --- registration ---

    def validate(self, driver: str, endpoint: str, versions: Sequence[str]) -> None:
        """Check what a plugin says about itself; PluginError in the kubelet's words."""
        self._choose(driver, endpoint, versions)

    def register(self, driver: str, endpoint: str, versions: Sequence[str]) -> None:
        """Take an instance in. Nobody waits for its socket to be there."""
        service = self._choose(driver, endpoint, versions)
        instance = Instance(driver, endpoint, service, self._health_service(versions))
        with self._state.changing():
            if not self._running:
                raise PluginError("context canceled")
            known = self._clients.setdefault(driver, [])
            if any(one.instance.endpoint == endpoint for one in known):
                raise PluginError(
                    f"endpoint {endpoint} already registered for DRA driver plugin {driver}"
                )
            client = DriverClient(
                instance,
                self.times,
                connection_changed=lambda up: self._connection_changed(instance, connected=up),
                record=self._record,
            )
            known.append(client)
            self._plan_wipe(driver)
            self._spawn(client.keep_connected)
            if instance.health_service:
                self._spawn(self._keep_watching, client)

    def deregister(self, driver: str, endpoint: str) -> None:
        with self._state.changing():
            known = self._clients.get(driver, [])
            leaving = [one for one in known if one.instance.endpoint == endpoint]
            self._clients[driver] = [one for one in known if one not in leaving]
            self._plan_wipe(driver)
        for client in leaving:
            client.close()

    def get(self, driver: str) -> DriverClient:
        """Choose whom to call: the newest that is connected, else the newest."""
        with self._state.condition:
            known = self._clients.get(driver, [])
            connected = [one for one in known if one.instance.connected]
            if not known:
                raise NotRegisteredError(f"DRA driver {driver} is not registered")
            return (connected or known)[-1]

    def instances(self, driver: str) -> list[Instance]:
        with self._state.condition:
            return [one.instance for one in self._clients.get(driver, ())]

    def _choose(self, driver: str, endpoint: str, versions: Sequence[str]) -> str:
        chosen = next((one for one in versions if one in SERVICES), "")
        why = ""
        if not versions:
            why = "empty list of supported gRPC services (aka supported versions)"
        elif not chosen:
            why = (
                f"none of services supported by the plugin ({_quoted(versions)}) "
                f"are supported by the kubelet ({_quoted(SERVICES)})"
            )
        if why:
            raise PluginError(
                f"invalid supported gRPC versions of DRA driver plugin {driver} "
                f"at endpoint {endpoint}: {why}"
            )
        return chosen

    def _health_service(self, versions: Sequence[str]) -> str:
        """1.36 asks everybody, 1.37 who says that it can be asked, for the best that both know."""
        if self._behaviour == "1.36":
            return _V1ALPHA1_HEALTH
        return next((one for one in HEALTH_SERVICES if one in versions), "")

    def _record(self, call: ClaimCall) -> None:
        with self._state.changing():
            self.calls.append(call)

    # --- connections and slices ---

    def _connection_changed(self, instance: Instance, *, connected: bool) -> None:
        with self._state.changing():
            if instance.connected != connected:
                instance.connected = connected
                self._plan_wipe(instance.driver)

    def _plan_wipe(self, driver: str) -> None:
        """Let a driver that cannot be reached lose its slices, unless it comes back in time."""
        if any(one.instance.connected for one in self._clients.get(driver, ())):
            self._wipes.pop(driver, None)
        else:
            self._wipes.setdefault(driver, time.monotonic() + self.times.wipe)

    def _keep_wiping(self, cluster: Cluster) -> None:
        condition = self._state.condition
        while True:
            with condition:
                due = [one for one, at in self._wipes.items() if at <= time.monotonic()]
                if not self._running:
                    return
                if not due:
                    next_ = min(self._wipes.values(), default=None)
                    condition.wait(None if next_ is None else next_ - time.monotonic())
                    continue
                for driver in due:
                    del self._wipes[driver]
            for driver in due:
                count = cluster.delete_slices(driver=driver, node=self._node)
                with self._state.changing():
                    self.wiped.append(Wipe(time.monotonic(), driver, count))

    # --- health ---

    def _keep_watching(self, client: DriverClient) -> None:
        while not client.closed:
            if not self._watch(client) or client.wait_closed(self.times.health_retry):
                return

    def _watch(self, client: DriverClient) -> bool:
        """Read one stream to its end; tells whether another is worth it."""
        instance, code = client.instance, None
        try:
            for devices in client.health():
                said = {key: DeviceHealth(one[0], one[1]) for key, one in devices.items()}
                report = HealthReport(time.monotonic(), instance.driver, instance.endpoint, said)
                with self._state.changing():
                    self.health.update(instance.driver, devices)
                    self.reports.append(report)
                    instance.watching, instance.health_error = True, ""
        except DriverError as error:
            code = error.code
            instance.health_error = str(error)
        with self._state.changing():
            if instance.watching or code is not grpc.StatusCode.UNAVAILABLE:
                self.health.clear(instance.driver)  # also what another instance has said
            instance.watching = False
        return self._behaviour == "1.36" or code is not grpc.StatusCode.UNIMPLEMENTED


def _quoted(names: Iterable[str]) -> str:
    """Print a list of strings as Go's %q does."""
    return "[" + " ".join(f'"{name}"' for name in names) + "]"
