"""The kubelet as a client of one plugin socket: dial, options, calls, stream (A3, A4)."""

import itertools
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar
from urllib.parse import quote

import grpc

from device_plugin._api.deviceplugin.v1beta1 import deviceplugin_pb2 as pb
from device_plugin._api.deviceplugin.v1beta1.deviceplugin_pb2_grpc import DevicePluginStub
from device_plugin.testing.dialling import Dialling
from device_plugin.testing.records import Call, Registration

PRE_START_TIMEOUT = 30.0
_CHANNEL_OPTIONS = (
    ("grpc.default_authority", "localhost"),
    ("grpc.max_receive_message_length", 4 * 1024 * 1024),  # not the 16 MiB that people hope for
    ("grpc.enable_http_proxy", 0),
)
# Where gRPC for Python and for Go word the same thing in two ways, users see Go's.
_GO_WORDS = {
    "Deadline Exceeded": "context deadline exceeded",
    "Channel closed!": "context canceled",
    "Locally cancelled by application!": "context canceled",
}
_TOO_LARGE = re.compile(r".*(?P<rest>eceived message larger than max \(\d+ vs\. \d+\)).*")
# What a call on a channel that is closed already amounts to.
_CLOSED = "rpc error: code = Canceled desc = context canceled"

_numbers = itertools.count(1)
_Request = TypeVar("_Request")
_Response = TypeVar("_Response")


class PluginError(Exception):
    """A call to a plugin failed; the text is the one that the kubelet would pass on."""


def go_error(error: grpc.RpcError) -> str:
    """Spell a gRPC error as Go prints it: users see this text in their Pod's status (A13)."""
    code: grpc.StatusCode = error.code()
    details: str = _TOO_LARGE.sub(r"grpc: r\g<rest>", error.details() or "")
    name = "Canceled" if code is grpc.StatusCode.CANCELLED else code.name.title().replace("_", "")
    return f"rpc error: code = {name} desc = {_GO_WORDS.get(details, details)}"


class PluginClient:
    """One connection to one plugin socket. It is never reconnected: a new one is made instead."""

    def __init__(
        self,
        registration: Registration,
        path: str,
        *,
        rpc_timeout: float,
        record: Callable[[Call], None],
    ) -> None:
        self.registration = registration
        self.resource = registration.resource
        self.path = path
        self._rpc_timeout = rpc_timeout
        self._record = record
        self._dialling = Dialling(path)
        self.connected = False  # dialled and asked for its options
        self.disconnected = False  # on purpose: the end of its stream means nothing any more
        # The number keeps connections apart: equal channels would share one.
        self._options = (*_CHANNEL_OPTIONS, ("fake-kubelet.client", next(_numbers)))
        self._channel = self._open_channel()
        self._stub = DevicePluginStub(self._channel)

    def dial(self, timeout: float) -> None:
        """Connect, whatever it takes: a refused connection is tried again in silence (A3)."""
        if not self._dialling.run(timeout):
            why = "context canceled" if self._dialling.abandoned else "context deadline exceeded"
            raise PluginError(f"failed to dial device plugin: {why}")

    def _open_channel(self) -> grpc.Channel:
        return grpc.insecure_channel(f"unix:{quote(self.path)}", options=self._options)

    def abandon(self) -> None:
        """Give up connecting, because the plugin no longer waits for its Register call."""
        if not self.connected:
            self.close()

    def options(self, timeout: float | None) -> pb.DevicePluginOptions:
        """GetDevicePluginOptions: bounded by the plugin's own Register deadline only (A4)."""
        limit = self._rpc_timeout if timeout is None else timeout
        try:
            return self._call(
                "GetDevicePluginOptions", self._stub.GetDevicePluginOptions, pb.Empty(), limit
            )
        except PluginError as error:
            raise PluginError(f"failed to get device plugin options: {error}") from error

    def allocate(self, ids: Sequence[str]) -> pb.AllocateResponse:
        request = pb.AllocateRequest(
            container_requests=[pb.ContainerAllocateRequest(devices_ids=ids)]
        )
        return self._call("Allocate", self._stub.Allocate, request, self._rpc_timeout, ids=ids)

    def preferred(
        self, available: Sequence[str], must_include: Sequence[str], size: int
    ) -> pb.PreferredAllocationResponse:
        wanted = pb.ContainerPreferredAllocationRequest(
            available_deviceIDs=available,
            must_include_deviceIDs=must_include,
            allocation_size=size,
        )
        return self._call(
            "GetPreferredAllocation",
            self._stub.GetPreferredAllocation,
            pb.PreferredAllocationRequest(container_requests=[wanted]),
            self._rpc_timeout,
            ids=available,
            must_include=must_include,
            size=size,
        )

    def pre_start(self, ids: Sequence[str]) -> None:
        request = pb.PreStartContainerRequest(devices_ids=ids)
        method = self._stub.PreStartContainer
        self._call("PreStartContainer", method, request, PRE_START_TIMEOUT, ids=ids)

    def lists(self) -> Iterator[pb.ListAndWatchResponse]:
        """Open ListAndWatch and yield its messages; no deadline, no keepalive."""
        try:
            yield from self._stub.ListAndWatch(pb.Empty())
        except grpc.RpcError as error:
            raise PluginError(go_error(error)) from error
        except ValueError as error:
            raise PluginError(_CLOSED) from error

    def close(self) -> None:
        """End every call and the connection."""
        self._dialling.abandon()
        self._channel.close()

    def _call(
        self,
        name: str,
        method: "grpc.UnaryUnaryMultiCallable[_Request, _Response]",
        request: _Request,
        timeout: float,
        *,
        ids: Sequence[str] = (),
        must_include: Sequence[str] = (),
        size: int = 0,
    ) -> _Response:
        started, failure = time.monotonic(), None
        try:
            return method(request, timeout=timeout)
        except grpc.RpcError as error:
            failure = go_error(error)
            raise PluginError(failure) from error
        except ValueError as error:
            failure = _CLOSED
            raise PluginError(failure) from error
        finally:
            self._record(
                Call(
                    started=started,
                    duration=time.monotonic() - started,
                    method=name,
                    resource=self.resource,
                    ids=tuple(ids),
                    must_include=tuple(must_include),
                    size=size,
                    error=failure,
                )
            )
