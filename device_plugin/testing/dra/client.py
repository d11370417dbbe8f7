"""The kubelet as a client of one instance of a DRA driver (C1, C2, C3)."""

import contextlib
import itertools
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any
from urllib.parse import quote

import grpc

from device_plugin._api.dra.v1 import dra_pb2 as v1
from device_plugin._api.dra.v1 import dra_pb2_grpc as v1_grpc
from device_plugin._api.dra.v1beta1 import dra_pb2 as v1beta1
from device_plugin._api.dra.v1beta1 import dra_pb2_grpc as v1beta1_grpc
from device_plugin._api.drahealth.v1 import drahealth_pb2 as health_v1
from device_plugin._api.drahealth.v1 import drahealth_pb2_grpc as health_v1_grpc
from device_plugin._api.drahealth.v1alpha1 import drahealth_pb2 as health_v1alpha1
from device_plugin._api.drahealth.v1alpha1 import drahealth_pb2_grpc as health_v1alpha1_grpc
from device_plugin.testing.dra.records import (
    ClaimCall,
    ClaimRecord,
    DraTimes,
    Instance,
    PreparedDevice,
)
from device_plugin.testing.endpoints import go_error

SERVICES: dict[str, tuple[ModuleType, ModuleType]] = {
    "v1.DRAPlugin": (v1, v1_grpc),
    "v1beta1.DRAPlugin": (v1beta1, v1beta1_grpc),
}
# The best one first: unlike above the kubelet's order counts, not the driver's.
HEALTH_SERVICES: dict[str, tuple[ModuleType, ModuleType]] = {
    "v1.DRAResourceHealth": (health_v1, health_v1_grpc),
    "v1alpha1.DRAResourceHealth": (health_v1alpha1, health_v1alpha1_grpc),
}
_HEALTHS = ("Unknown", "Healthy", "Unhealthy")
_LONGEST_MESSAGE = 1024  # bytes
_MILLISECONDS = 1000
_READY, _ = grpc.ChannelConnectivity.READY.value
_LOOK = 0.2  # seconds between looks at the connection; changes are seen at once
_NO_CONNECTION = re.compile(
    r"failed to connect to all addresses; .* unix:(?P<path>[^: ]*)(:| error:) (?P<why>.*)"
)
_numbers = itertools.count(1)


class DriverError(Exception):
    """A call failed; the text is the one that the kubelet would pass on."""

    def __init__(self, text: str, code: grpc.StatusCode = grpc.StatusCode.CANCELLED) -> None:
        super().__init__(text)
        self.code = code


class DriverClient:
    """One connection, which is made again whenever it breaks."""

    def __init__(
        self,
        instance: Instance,
        times: DraTimes,
        *,
        connection_changed: Callable[[bool], None],
        record: Callable[[ClaimCall], None],
    ) -> None:
        self.instance = instance
        self._times = times
        self._connection_changed = connection_changed
        self._record = record
        self._closed = threading.Event()
        pause = int(times.reconnect * _MILLISECONDS)
        options = (
            ("grpc.default_authority", "localhost"),
            ("grpc.max_receive_message_length", 4 * 1024 * 1024),
            ("grpc.enable_http_proxy", 0),
            ("grpc.initial_reconnect_backoff_ms", pause),
            ("grpc.min_reconnect_backoff_ms", pause),
            ("fake-kubelet.driver", next(_numbers)),  # equal channels would share a connection
        )
        self._channel = grpc.insecure_channel(f"unix:{quote(instance.endpoint)}", options=options)
        self._pb, stubs = SERVICES[instance.service]
        self._stub: Any = stubs.DRAPluginStub(self._channel)

    def keep_connected(self) -> None:
        """Connect, again and again until it is closed; tell of every change.

        What gRPC for Python has for this in public lets its own thread die of an exception when the
        channel is closed, and does not connect again by itself.
        """
        channel: Any = self._channel._channel  # type: ignore[attr-defined] # noqa: SLF001
        with contextlib.suppress(ValueError):  # closed
            while not self.closed:
                state = channel.check_connectivity_state(True)
                self._connection_changed(state == _READY)
                channel.watch_connectivity_state(state, time.time() + _LOOK)

    def close(self) -> None:
        self._closed.set()
        self._channel.close()

    def wait_closed(self, timeout: float) -> bool:
        return self._closed.wait(timeout)

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    def prepare(self, claims: Sequence[ClaimRecord]) -> dict[str, tuple[list[PreparedDevice], str]]:
        """Call NodePrepareResources; devices and error by UID, whatever UIDs these are."""
        request = self._pb.NodePrepareResourcesRequest(claims=self._claims(claims))
        reply = self._call("NodePrepareResources", request, claims)
        return {
            uid: ([_device(device) for device in one.devices], one.error)
            for uid, one in reply.claims.items()
        }

    def unprepare(self, claims: Sequence[ClaimRecord]) -> dict[str, str]:
        """Call NodeUnprepareResources; errors by UID."""
        request = self._pb.NodeUnprepareResourcesRequest(claims=self._claims(claims))
        reply = self._call("NodeUnprepareResources", request, claims)
        return {uid: one.error for uid, one in reply.claims.items()}

    def health(self) -> Iterator[dict[tuple[str, str], tuple[str, str, int]]]:
        """Watch health: state, message and timeout in seconds by pool and device, whole lists."""
        pb, stubs = HEALTH_SERVICES[self.instance.health_service]
        stub: Any = stubs.DRAResourceHealthStub(self._channel)
        try:
            for message in stub.NodeWatchResources(pb.NodeWatchResourcesRequest()):
                yield {
                    (one.device.pool_name, one.device.device_name): (
                        _HEALTHS[one.health] if one.health < len(_HEALTHS) else _HEALTHS[0],
                        _shortened(one.message),
                        one.health_check_timeout_seconds,
                    )
                    for one in message.devices
                }
        except grpc.RpcError as error:
            raise _failure(error) from error
        except ValueError as error:  # the channel is closed
            raise DriverError("context canceled") from error

    def _claims(self, claims: Sequence[ClaimRecord]) -> list[Any]:
        return [
            self._pb.Claim(namespace=one.namespace, uid=one.uid, name=one.name) for one in claims
        ]

    def _call(self, method: str, request: object, claims: Sequence[ClaimRecord]) -> Any:  # noqa: ANN401
        started, failure, errors = time.monotonic(), None, {}
        try:
            reply = getattr(self._stub, method)(request, timeout=self._times.call)
            errors = {uid: one.error for uid, one in reply.claims.items()}
        except (grpc.RpcError, ValueError) as error:
            failure = _failure(error) if isinstance(error, grpc.RpcError) else _closed()
            raise failure from error
        else:
            return reply
        finally:
            self._record(self._noted(method, started, claims, errors, failure))

    def _noted(
        self,
        method: str,
        started: float,
        claims: Sequence[ClaimRecord],
        errors: Mapping[str, str],
        failure: DriverError | None,
    ) -> ClaimCall:
        return ClaimCall(
            started=started,
            duration=time.monotonic() - started,
            method=method,
            driver=self.instance.driver,
            endpoint=self.instance.endpoint,
            service=self.instance.service,
            claims=tuple((one.namespace, one.name, one.uid) for one in claims),
            errors=errors,
            error=str(failure) if failure else None,
        )


def _device(device: Any) -> PreparedDevice:  # noqa: ANN401
    has_share = "share_id" in device.DESCRIPTOR.fields_by_name and device.HasField("share_id")
    return PreparedDevice(
        pool=device.pool_name,
        device=device.device_name,
        requests=tuple(device.request_names),
        cdi_devices=tuple(device.cdi_device_ids),
        share=device.share_id if has_share else None,
    )


def _shortened(message: str) -> str:
    """Cut as the kubelet does: by bytes, be it within a character."""
    raw = message.encode()
    if len(raw) <= _LONGEST_MESSAGE:
        return message
    return (raw[: _LONGEST_MESSAGE - 3] + b"...").decode(errors="replace")


def _failure(error: grpc.RpcError) -> DriverError:
    text = go_error(error)
    found = _NO_CONNECTION.search(text)
    if found:
        text = (
            'rpc error: code = Unavailable desc = connection error: desc = "transport: Error while '
            f'dialing: dial unix {found["path"]}: connect: {found["why"].lower()}"'
        )
    return DriverError(text, error.code())


def _closed() -> DriverError:
    return DriverError("rpc error: code = Canceled desc = grpc: the client connection is closing")
