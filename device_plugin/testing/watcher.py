"""The plugin watcher: plugins that are found by their socket in plugins_registry (A15)."""

import threading
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from device_plugin._api.pluginregistration.v1 import pluginregistration_pb2 as pg
from device_plugin.testing.connections import Connections
from device_plugin.testing.endpoints import PluginError
from device_plugin.testing.handshake import RegistrationSocket
from device_plugin.testing.operations import Operations
from device_plugin.testing.plugin_sockets import PluginSockets
from device_plugin.testing.records import Handshake
from device_plugin.testing.registration import VERSION, is_extended_resource_name
from device_plugin.testing.state import State

DEVICE_PLUGIN, DRA_PLUGIN = "DevicePlugin", "DRAPlugin"


@dataclass(frozen=True, slots=True)
class _Plugin:
    """What is registered, or about to be."""

    number: int  # of the socket's file
    type: str
    name: str
    endpoint: str


class Watcher:
    """Looks once in `interval` seconds, and makes what is registered equal to what is there."""

    def __init__(
        self,
        directory: Path,
        state: State,
        connections: Connections,
        *,
        interval: float,
        dial_timeout: float,
    ) -> None:
        self.directory = directory
        self._state = state
        self._connections = connections
        self._interval = interval
        self._dial_timeout = dial_timeout
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._registered: dict[str, _Plugin] = {}  # by path of the socket
        self._open: set[RegistrationSocket] = set()

    # --- life ---

    def start(self) -> None:
        """Start as a new process: every socket is met anew, and none is removed."""
        self.directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._stopping.clear()
        self._registered = {}
        self._thread = threading.Thread(target=self._run, name="kubelet-watcher", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        if self._thread is None:
            return
        self._stopping.set()
        with self._state.condition:
            sockets = list(self._open)
        for socket in sockets:
            socket.close()
        self._thread.join()
        self._thread = None

    def _run(self) -> None:
        sockets, operations = PluginSockets(str(self.directory)), Operations()
        try:
            while not self._stopping.is_set():
                self._reconcile(sockets.look(), operations)
                self._stopping.wait(self._interval)
        finally:
            operations.join()
            sockets.close()

    def _reconcile(self, found: dict[str, int], operations: Operations) -> None:
        """Let go of what is gone or was made anew, then register what is not registered."""
        with self._state.condition:
            registered = {path: plugin.number for path, plugin in self._registered.items()}
        for path, number in registered.items():
            if found.get(path) != number:
                operations.run(path, partial(self._unregister, path))
        for path, number in found.items():
            if registered.get(path) != number:
                operations.run(path, partial(self._register, path, number))

    # --- operations ---

    def _register(self, path: str, number: int) -> bool:
        """Go through one handshake; tells whether the plugin is registered."""
        started, info, failure = time.monotonic(), pg.PluginInfo(), None
        socket = self._opened(path)
        try:
            info = socket.ask(self._dial_timeout)
            self._judge(socket, info, number)
        except PluginError as error:
            failure = str(error)
        finally:
            self._close(socket)
        handshake = Handshake(
            started=started,
            ended=time.monotonic(),
            socket=path,
            type=info.type,
            name=info.name,
            endpoint=info.endpoint or path,
            versions=tuple(info.supported_versions),
            error=failure,
        )
        with self._state.changing():
            self._state.handshakes.append(handshake)
            if failure is None:
                self._state.plugins[path] = handshake
        return failure is None

    def _judge(self, socket: RegistrationSocket, info: pg.PluginInfo, number: int) -> None:
        """Take the plugin in and tell it so, or tell it why not."""
        plugin = _Plugin(number, info.type, info.name, info.endpoint or socket.path)
        try:
            _validate(socket.path, info)
            self._take_in(socket.path, plugin)
        except PluginError as error:
            socket.notify(str(error))
            raise
        try:
            socket.notify(None)
        except PluginError:
            self._let_go(socket.path)
            raise

    def _take_in(self, path: str, plugin: _Plugin) -> None:
        with self._state.changing():
            self._registered[path] = plugin
        if plugin.type != DEVICE_PLUGIN:
            return
        registration = self._state.note(plugin.name, plugin.endpoint, VERSION)
        try:
            # The endpoint as it is: no folder is put in front of it.
            client = self._connections.connect_at(plugin.endpoint, registration)
        except PluginError as error:
            self._state.settle(registration, str(error))
            with self._state.changing():
                del self._registered[path]
            raise PluginError(
                f"RegisterPlugin error -- plugin registration failed with err: {error}"
            ) from error
        self._connections.start_stream(client)
        self._state.settle(registration, None)

    def _unregister(self, path: str) -> bool:
        self._let_go(path)
        return True

    def _let_go(self, path: str) -> None:
        with self._state.changing():
            plugin = self._registered.pop(path)
            self._state.plugins.pop(path, None)
        if plugin.type == DEVICE_PLUGIN:
            self._connections.deregister(plugin.name, plugin.endpoint)

    def _opened(self, path: str) -> RegistrationSocket:
        socket = RegistrationSocket(path)
        with self._state.condition:
            self._open.add(socket)
        if self._stopping.is_set():  # `stop` may have looked before it was there
            socket.close()
        return socket

    def _close(self, socket: RegistrationSocket) -> None:
        with self._state.condition:
            self._open.discard(socket)
        socket.close()


def _validate(path: str, info: pg.PluginInfo) -> None:
    if info.type not in {DEVICE_PLUGIN, DRA_PLUGIN}:
        raise PluginError(
            "RegisterPlugin error -- no handler registered for plugin type: "
            f"{info.type} at socket {path}"
        )
    if info.type != DEVICE_PLUGIN:
        return
    why = ""
    if VERSION not in info.supported_versions:
        versions = " ".join(info.supported_versions)
        why = f"manager version, {VERSION}, is not among plugin supported versions [{versions}]"
    elif not is_extended_resource_name(info.name):
        why = f'invalid name of device plugin socket: the ResourceName "{info.name}" is invalid'
    if why:
        raise PluginError(f"RegisterPlugin error -- plugin validation failed with err: {why}")
