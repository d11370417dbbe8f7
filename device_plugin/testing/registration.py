"""The Register call: its checks in the kubelet's order and words (A2)."""

import re

import grpc

from device_plugin._api.deviceplugin.v1beta1 import deviceplugin_pb2 as pb
from device_plugin._api.deviceplugin.v1beta1.deviceplugin_pb2_grpc import RegistrationServicer
from device_plugin.testing.connections import Connections
from device_plugin.testing.endpoints import PluginClient, PluginError
from device_plugin.testing.faults import Faults
from device_plugin.testing.records import Registration
from device_plugin.testing.state import State

VERSION = "v1beta1"
_DNS_LIMIT = 253
_NAME_LIMIT = 63
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
# How long the reply waits for the first list where the stream is to come first; a plugin may well
# send nothing before it has the reply.
_FIRST_LIST = 1.0


def is_extended_resource_name(name: str) -> bool:
    """IsExtendedResourceName (A2); the quota system's prefix counts into the length."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    domain, _, part = f"requests.{name}".partition("/")
    return (
        len(domain) <= _DNS_LIMIT
        and len(part) <= _NAME_LIMIT
        and bool(_DNS_SUBDOMAIN.fullmatch(domain))
        and bool(_NAME_PART.fullmatch(part))
    )


class Registrar(RegistrationServicer):
    """Serves kubelet.sock. Every error is a plain one in Go, so its code is UNKNOWN."""

    def __init__(self, state: State, connections: Connections, faults: Faults) -> None:
        self._state = state
        self._connections = connections
        self._faults = faults

    def Register(self, request: pb.RegisterRequest, context: grpc.ServicerContext) -> pb.Empty:
        registration = self._state.note(request.resource_name, request.endpoint, request.version)
        try:
            self._faults.wait_while_held("arrival", context)
            self._faults.check_refusal()
            _validate(request)
            # request.options is not looked at: only GetDevicePluginOptions counts.
            client = self._connections.connect(registration, context)
            self._open_stream(client, registration, context)
            self._faults.wait_while_held("reply", context)
        except PluginError as error:
            self._state.settle(registration, str(error))
            context.abort(grpc.StatusCode.UNKNOWN, str(error))
        self._state.settle(registration, None)
        return pb.Empty()

    def _open_stream(
        self, client: PluginClient, registration: Registration, context: grpc.ServicerContext
    ) -> None:
        """Open ListAndWatch: a plugin may see it before or after the reply (A4.5)."""
        if not self._faults.takes_stream():
            self._connections.withhold_stream(client)
            return
        if self._faults.stream_order == "after":
            # Called when the reply is out; at once, if nobody waits for it any more.
            if not context.add_callback(lambda: self._connections.start_stream(client)):
                self._connections.start_stream(client)
            return
        self._connections.start_stream(client)
        if self._faults.stream_order == "before":
            with self._state.condition:
                self._state.condition.wait_for(
                    lambda: (
                        registration.stream_ended is not None
                        or any(
                            message.registration == registration.number
                            for message in self._state.lists.get(registration.resource, ())
                        )
                    ),
                    timeout=_FIRST_LIST,
                )


def _validate(request: pb.RegisterRequest) -> None:
    if request.version != VERSION:
        raise PluginError(
            f'requested API version "{request.version}" is not supported by kubelet. '
            f'Supported version is ["{VERSION}"]'
        )
    if not is_extended_resource_name(request.resource_name):
        raise PluginError(f'the ResourceName "{request.resource_name}" is invalid')
