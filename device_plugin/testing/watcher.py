"""The plugin watcher: plugins that are found by their socket in plugins_registry (A15)."""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from device_plugin._api.pluginregistration.v1 import pluginregistration_pb2 as pg
from device_plugin.testing.endpoints import PluginError
from device_plugin.testing.handlers import Handler
from device_plugin.testing.handshake import RegistrationSocket
from device_plugin.testing.operations import Operations
from device_plugin.testing.plugin_sockets import PluginSockets
from device_plugin.testing.records import Handshake
from device_plugin.testing.state import State


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
        handlers: Mapping[str, Handler],
        *,
        interval: float,
        dial_timeout: float,
    ) -> None:
        self.directory = directory
        self._state = state
        self._handlers = handlers  # by type of plugin
        self._interval = interval
        self._dial_timeout = dial_timeout
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._registered: dict[str, _Plugin] = {}  # by path of the socket
        self._open: set[RegistrationSocket] = set()

    # --- life ---

    def start(self) -> None:
        """Start as a new process: every socket is met anew, and none is removed."""
        # The other folder is where DRA drivers have their own sockets.
        for folder in (self.directory, self.directory.with_name("plugins")):
            folder.mkdir(mode=0o750, parents=True, exist_ok=True)
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
            self._take_in(socket.path, plugin, info.supported_versions)
        except PluginError as error:
            socket.notify(str(error))
            raise
        try:
            socket.notify(None)
        except PluginError:
            self._let_go(socket.path)
            raise

    def _take_in(self, path: str, plugin: _Plugin, versions: Sequence[str]) -> None:
        handler = self._handlers.get(plugin.type)
        said, failed = "RegisterPlugin error -- ", "plugin validation failed with err: "
        if handler is None:
            raise PluginError(
                f"{said}no handler registered for plugin type: {plugin.type} at socket {path}"
            )
        try:
            handler.validate(plugin.name, plugin.endpoint, versions)
            failed = "plugin registration failed with err: "
            with self._state.changing():
                self._registered[path] = plugin
            handler.register(plugin.name, plugin.endpoint, versions)
        except PluginError as error:
            with self._state.changing():
                self._registered.pop(path, None)
            raise PluginError(f"{said}{failed}{error}") from error

    def _unregister(self, path: str) -> bool:
        self._let_go(path)
        return True

    def _let_go(self, path: str) -> None:
        with self._state.changing():
            plugin = self._registered.pop(path)
            self._state.plugins.pop(path, None)
        self._handlers[plugin.type].deregister(plugin.name, plugin.endpoint)

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
