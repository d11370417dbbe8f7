"""The kubelet's table of plugin connections, with the behaviour of two releases (A4, A5, A7)."""

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import grpc

from device_plugin._api.deviceplugin.v1beta1 import deviceplugin_pb2 as pb
from device_plugin.testing.checkpoint import Checkpoint
from device_plugin.testing.devices import Endpoint
from device_plugin.testing.endpoints import PluginClient, PluginError
from device_plugin.testing.records import Device, DeviceList, Registration
from device_plugin.testing.state import State

Behaviour = Literal["1.36", "1.37"]
_JOIN_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True)
class Settings:
    directory: Path
    behaviour: Behaviour
    dial_timeout: float
    rpc_timeout: float


class Connections:
    def __init__(self, settings: Settings, state: State, checkpoint: Checkpoint) -> None:
        self._settings = settings
        self._state = state
        self._checkpoint = checkpoint
        self._clients: dict[str, list[PluginClient]] = {}
        self._live: set[PluginClient] = set()  # orphans too: those that no table knows any more
        self._threads: list[threading.Thread] = []

    def connect(self, registration: Registration, context: grpc.ServicerContext) -> PluginClient:
        """Dial and ask for the options, all inside the plugin's Register call (A4)."""
        # filepath.Join: an absolute endpoint ends up below the folder, an empty one is the folder.
        path = os.path.normpath(f"{self._settings.directory}/{registration.endpoint}")
        return self.connect_at(path, registration, context)

    def connect_at(
        self, path: str, registration: Registration, context: grpc.ServicerContext | None = None
    ) -> PluginClient:
        """Dial a socket and ask for the options; without a context nobody waits for that (A15)."""
        settings = self._settings
        client = PluginClient(
            registration, path, rpc_timeout=settings.rpc_timeout, record=self._state.record
        )
        with self._state.changing():
            if not self._state.running:
                raise PluginError("context canceled")
            generation = self._state.generation
            self._live.add(client)
            self._enter(client)
        try:
            if context and not context.add_callback(client.abandon):
                client.abandon()
            remaining = context.time_remaining() if context else None
            client.dial(min(settings.dial_timeout, remaining or settings.dial_timeout))
            options = client.options(context.time_remaining() if context else None)
            self._connected(client, options, generation)
        except PluginError:
            with self._state.changing():
                if self._state.generation == generation:  # else the table is another kubelet's
                    self._leave(client)
            self._close(client)
            raise
        return client

    def start_stream(self, client: PluginClient) -> None:
        thread = threading.Thread(
            target=self._run, args=(client,), name=f"kubelet-{client.resource}", daemon=True
        )
        with self._state.condition:
            if client not in self._live:
                return
            self._threads = [old for old in self._threads if old.is_alive()]
            self._threads.append(thread)
            thread.start()

    def withhold_stream(self, client: PluginClient) -> None:
        """Open no stream; without one, nothing would ever take the client out of the table."""
        with self._state.changing():
            self._state.devices.sockets.get(client.resource, {}).pop(client.path, None)

    def deregister(self, resource: str, path: str) -> None:
        """Disconnect who serves at this socket; 1.36: who serves the resource, be it another."""
        with self._state.condition:
            found = self._lookup(resource, path)
        if found:
            self.disconnect(found)

    def disconnect(self, client: PluginClient) -> None:
        """Drop one client: its connection, its devices' health, its place in the table (A7)."""
        with self._state.changing():
            self._leave(client)
        self._close(client)
        with self._state.changing():
            self._disconnected(client)

    def close_all(self) -> None:
        """The kubelet exits: connections drop, and nobody is left to think about devices."""
        with self._state.changing():
            clients, threads = list(self._live), self._threads
            self._clients.clear()
            self._threads = []
        for client in clients:
            self._close(client)
        for thread in threads:
            thread.join(_JOIN_TIMEOUT)

    def _enter(self, client: PluginClient) -> None:
        if self._settings.behaviour == "1.36":
            self._clients[client.resource] = [client]  # an older one is forgotten, not closed
        else:
            self._clients.setdefault(client.resource, []).append(client)

    def _lookup(self, resource: str, path: str) -> PluginClient | None:
        """Find whom the kubelet takes for this client: that is the defect of 1.36 (A5)."""
        for candidate in self._clients.get(resource, ()):
            if self._settings.behaviour == "1.36" or candidate.path == path:
                return candidate
        return None

    def _leave(self, client: PluginClient) -> None:
        """Forget whoever has this client's place: 1.37 all with its path, be they well (A5)."""
        known = self._clients.pop(client.resource, [])
        if self._settings.behaviour == "1.37":
            self._clients[client.resource] = [one for one in known if one.path != client.path]

    def _connected(
        self, client: PluginClient, options: pb.DevicePluginOptions, generation: int
    ) -> None:
        with self._state.changing():
            if self._state.generation != generation:
                raise PluginError("context canceled")
            devices, endpoint = self._state.devices, Endpoint(client, options)
            if self._settings.behaviour == "1.37":
                sockets = devices.sockets.setdefault(client.resource, {})
                if client.path in sockets:  # whether or not its stream still runs
                    raise PluginError(f"device plugin already connected: {client.path}")
                sockets[client.path] = endpoint
            devices.endpoints[client.resource] = endpoint
            client.connected = True

    def _run(self, client: PluginClient) -> None:
        registration = client.registration
        with self._state.changing():
            registration.stream_opened = time.monotonic()
        failure = None
        try:
            for message in client.lists():
                self._receive(client, message)
        except PluginError as error:
            failure = str(error)
        with self._state.changing():
            registration.stream_ended = time.monotonic()
            registration.stream_error = failure
            # (Go's stream would end at once after a disconnect, and find nobody; ours is slower.)
            found = None if client.disconnected else self._lookup(client.resource, client.path)
        if found:
            self.disconnect(found)

    def _receive(self, client: PluginClient, message: pb.ListAndWatchResponse) -> None:
        received = time.monotonic()
        devices = [_device(device) for device in message.devices]
        record = DeviceList(
            received=received,
            resource=client.resource,
            devices=tuple((device.id, device.health, device.numa or ()) for device in devices),
            socket=client.path,
            registration=client.registration.number,
        )
        with self._state.changing():
            if client not in self._live:
                return
            self._state.lists.setdefault(client.resource, []).append(record)
            changed = self._state.devices.receive(client.resource, devices)
            for uid in self._told(client.resource, changed):
                self._state.sync_pod(uid)
            self._state.look_for_panics(client.resource)
        failure = self._checkpoint.write()
        with self._state.changing():  # even without failure: somebody may wait for the file
            if failure:
                self._state.errors.append(failure)

    def _told(self, resource: str, changed: set[str]) -> set[str]:
        """Find the Pods whose status is written anew (A12).

        1.36 goes by the ID alone: of the Pods that hold such an ID of any resource, it finds one.
        """
        devices = self._state.devices
        if self._settings.behaviour == "1.37":
            return set().union(*devices.holders(changed, resource).values())
        found = devices.holders(changed, None).values()
        return {self._state.shuffled(pods)[0] for pods in found}

    def _disconnected(self, client: PluginClient) -> None:
        """PluginDisconnected: 1.36 goes by the resource, later releases by the socket (A5)."""
        devices, resource = self._state.devices, client.resource
        others: dict[str, Endpoint] = {}
        if self._settings.behaviour == "1.37":
            others = devices.sockets.get(resource, {})
            leaving = others.pop(client.path, None)
        else:
            leaving = devices.endpoint(resource)
        if leaving is None:
            return
        leaving.stopped = time.monotonic()
        if others:
            # Any of them, in Go's map order; the list stays, whoever sent it.
            devices.endpoints[resource] = others[self._state.shuffled(others)[0]]
        else:
            devices.mark_unhealthy(resource)

    def _close(self, client: PluginClient) -> None:
        with self._state.changing():
            self._live.discard(client)
            client.disconnected = True
        client.close()


def _device(device: pb.Device) -> Device:
    numa = None
    if device.HasField("topology"):
        numa = tuple(node.ID for node in device.topology.nodes)
    return Device(device.ID, device.health, numa)
