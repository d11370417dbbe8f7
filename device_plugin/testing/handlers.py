"""What the plugin watcher does with plugins of each type (A15)."""

from collections.abc import Sequence
from typing import Protocol

from device_plugin.testing.connections import Connections
from device_plugin.testing.endpoints import PluginError
from device_plugin.testing.registration import VERSION, is_extended_resource_name
from device_plugin.testing.state import State

DEVICE_PLUGIN, DRA_PLUGIN = "DevicePlugin", "DRAPlugin"


class Handler(Protocol):
    """Takes plugins of one type in, and lets them go."""

    def validate(self, name: str, endpoint: str, versions: Sequence[str], /) -> None: ...
    def register(self, name: str, endpoint: str, versions: Sequence[str], /) -> None: ...
    def deregister(self, name: str, endpoint: str, /) -> None: ...


class DevicePlugins:
    """Device plugins that are found by their socket instead of by their Register call."""

    def __init__(self, state: State, connections: Connections) -> None:
        self._state = state
        self._connections = connections

    def validate(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        if VERSION not in versions:
            raise PluginError(
                f"manager version, {VERSION}, is not among plugin supported versions "
                f"[{' '.join(versions)}]"
            )
        if not is_extended_resource_name(name):
            raise PluginError(
                f'invalid name of device plugin socket: the ResourceName "{name}" is invalid'
            )

    def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        registration = self._state.note(name, endpoint, VERSION)
        try:
            # The endpoint as it is: no folder is put in front of it.
            client = self._connections.connect_at(endpoint, registration)
        except PluginError as error:
            self._state.settle(registration, str(error))
            raise
        self._connections.start_stream(client)
        self._state.settle(registration, None)

    def deregister(self, name: str, endpoint: str) -> None:
        self._connections.deregister(name, endpoint)
