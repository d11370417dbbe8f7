"""The gRPC face of one resource: inventory to protobuf and back, nothing else.

Contract: the kubelet's v1beta1 device plugin API (api/deviceplugin/v1beta1).
"""

import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache

import grpc
import structlog

from device_plugin import allocation
from device_plugin._api.deviceplugin.v1beta1 import deviceplugin_pb2 as pb
from device_plugin._api.deviceplugin.v1beta1 import deviceplugin_pb2_grpc as pb_grpc
from device_plugin.allocation import Grant, Refused, Share, Unknown
from device_plugin.config import Resource
from device_plugin.device import Device
from device_plugin.health import check_mounts, check_nodes
from device_plugin.host import Host
from device_plugin.inventory import Inventory
from device_plugin.listing import CLAIMED, Snapshot
from device_plugin.metrics import Metrics
from device_plugin.state import HandedOut, Observed

OPTIONS = pb.DevicePluginOptions(get_preferred_allocation_available=True)
MAX_NAMED = 20  # IDs in a log line
MAX_STREAMS = 8  # the kubelet holds one, two around a registration; each takes a thread


class Plugin(pb_grpc.DevicePluginServicer):
    """Answers for one resource, as the config has it now, on one socket.

    `changed` is called when a stream opens or ends, `suspect` with an ID that is not ours.
    `claimed` says which devices claims have.
    """

    def __init__(
        self,
        *,
        resource: Callable[[], Resource],
        inventory: Inventory,
        host: Host,
        handed_out: HandedOut,
        metrics: Metrics,
        changed: Callable[[], None],
        suspect: Callable[[str], None],
        claimed: Callable[[], Container[str]],
    ) -> None:
        self._resource = resource
        self.resource = resource().name
        self._inventory = inventory
        self._host = host
        self._handed_out = handed_out
        self._metrics = metrics
        self._changed = changed
        self._suspect = suspect
        self._claimed = claimed
        self._log = structlog.get_logger().bind(resource=self.resource)
        self._lock = threading.Lock()
        self._ending = False
        self.streams = 0  # open now: from the call to the end of its RPC
        self.was_opened = False

    def wait_for_streams(self, timeout: float) -> None:
        """Wait until the RPC of every stream is finished, at most `timeout` seconds."""
        self._inventory.wait_for(lambda: not self.streams, timeout)

    def end_streams(self) -> None:
        """Let every ListAndWatch return; `streams` falls as their RPCs finish."""
        self._ending = True
        self._inventory.wake()

    def GetDevicePluginOptions(
        self, request: pb.Empty, context: grpc.ServicerContext
    ) -> pb.DevicePluginOptions:
        return OPTIONS

    def ListAndWatch(
        self, request: pb.Empty, context: grpc.ServicerContext
    ) -> Iterator[pb.ListAndWatchResponse]:
        """Send the list at once, then whenever it differs from what this stream last sent."""
        self._open_stream(context)
        pace = Pace()
        name, inventory = self.resource, self._inventory
        seen: Snapshot | None = None
        sent: pb.ListAndWatchResponse | None = None

        def over() -> bool:
            return self._ending or not context.is_active()

        def news() -> bool:
            return over() or inventory.snapshot(name) is not seen

        while inventory.wait_for(news) and not over():
            seen, before = inventory.snapshot(name), seen
            message = list_message(seen, before, sent)
            if message != sent:
                yield message
                sent = message
                inventory.wait_for(over, pace.after_send(time.monotonic()))

    def GetPreferredAllocation(
        self, request: pb.PreferredAllocationRequest, context: grpc.ServicerContext
    ) -> pb.PreferredAllocationResponse:
        snapshot = self._inventory.snapshot(self.resource)
        try:
            preferred = [self._prefer(snapshot, one) for one in request.container_requests]
        except Exception:  # noqa: BLE001 - for an error the kubelet fails the Pod for good (A9)
            self._log.exception("preferring failed unexpectedly")
            preferred = [[] for _ in request.container_requests]
        answers = [pb.ContainerPreferredAllocationResponse(deviceIDs=ids) for ids in preferred]
        return pb.PreferredAllocationResponse(container_responses=answers)

    def Allocate(
        self, request: pb.AllocateRequest, context: grpc.ServicerContext
    ) -> pb.AllocateResponse:
        try:
            with self._measured():
                answers = [self._allocate(c.devices_ids) for c in request.container_requests]
        except Refused as why:
            self._log.warning("allocation refused", reason=str(why))
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(why))
        return pb.AllocateResponse(container_responses=answers)

    def PreStartContainer(
        self, request: pb.PreStartContainerRequest, context: grpc.ServicerContext
    ) -> pb.PreStartContainerResponse:
        return pb.PreStartContainerResponse()  # never required: Allocate has done all there is

    def _open_stream(self, context: grpc.ServicerContext) -> None:
        with self._lock:
            full = self.streams >= MAX_STREAMS
            if not full and context.add_callback(self._stream_finished):
                self.streams += 1
                self.was_opened = True
        if full:
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{MAX_STREAMS} streams are open")
        self._changed()

    def _stream_finished(self) -> None:
        with self._lock:
            self.streams -= 1
        self._inventory.wake()  # a parked stream is not woken by its own cancellation
        self._changed()

    def _prefer(
        self, snapshot: Snapshot, request: pb.ContainerPreferredAllocationRequest
    ) -> list[str]:
        return allocation.prefer(
            self._resource(),
            snapshot,
            request.available_deviceIDs,
            request.must_include_deviceIDs,
            request.allocation_size,
        )

    def _allocate(self, ids: Iterable[str]) -> pb.ContainerAllocateResponse:
        snapshot = self._inventory.snapshot(self.resource)
        resource = self._resource()
        try:
            shares = allocation.shares(resource, snapshot, ids)
        except Unknown as why:
            self._suspect(why.id)
            raise
        observed = check_nodes(self._host, self.resource, shares)
        grant = allocation.grant(resource, shares, self._host.local)
        check_mounts(self._host, self.resource, grant)
        if grant.cdi:  # names are looked up anew, as links are: no number was handed out
            observed = [Observed(one.device, own=one.own) for one in observed]
        try:
            self._handed_out.remember(self.resource, observed)
        except OSError as error:
            self._log.error("cannot remember what was handed out", error=str(error))
        self._check_again(snapshot, ids, shares)
        ids_given = [share.id for share in shares]
        self._log.info("allocated", count=len(ids_given), devices=ids_given[:MAX_NAMED])
        return grant_message(grant)

    def _check_again(self, seen: Snapshot, ids: Iterable[str], shares: Iterable[Share]) -> None:
        """Refuse what went to claims meanwhile: now that we are remembered, they go without."""
        now = self._inventory.snapshot(self.resource)
        if now is not seen:
            allocation.shares(self._resource(), now, ids)
        claimed = self._claimed()
        for share in shares:
            if share.device.id in claimed:
                raise Refused(f"device {share.id} of {self.resource} is unhealthy: {CLAIMED}")

    @contextmanager
    def _measured(self) -> Iterator[None]:
        started, outcome = time.monotonic(), "error"
        try:
            yield
            outcome = "ok"
        except Refused:
            outcome = "refused"
            raise
        finally:
            self._metrics.allocated(self.resource, outcome, time.monotonic() - started)


class Pace:
    """How long a stream rests after a message, so that a flapping device cannot wear the kubelet.

    Each message costs the kubelet a checkpoint with fsync. What changes during the rest goes out
    as one message after it. Single changes go at once; a budget that refills bounds the rest.
    """

    REST = 0.002  # seconds: lets the changes of one moment become one message
    BUDGET = 400.0  # messages
    REFILL = 20.0  # messages a second

    def __init__(self) -> None:
        self._budget, self._then = self.BUDGET, 0.0

    def after_send(self, now: float) -> float:
        """Seconds to rest; `now` is monotonic."""
        if self._then:
            refilled = self._budget + (now - self._then) * self.REFILL
            self._budget = min(self.BUDGET, refilled)
        self._then = now
        self._budget = max(0.0, self._budget - 1)
        return self.REST if self._budget >= 1 else 1 / self.REFILL


def list_message(
    snapshot: Snapshot,
    before: Snapshot | None = None,
    sent: pb.ListAndWatchResponse | None = None,
) -> pb.ListAndWatchResponse:
    """The whole list: replicas follow the health of their device.

    With the snapshot `before` and what was `sent` for it, only what differs is made anew: of
    10,000 IDs mostly one.
    """
    if before is None or sent is None or not _differ_in_health_only(before, snapshot):
        return pb.ListAndWatchResponse(
            devices=[
                pb.Device(ID=id_, health=listed.health, topology=topology)
                for listed in snapshot.devices
                for topology in [_topology(listed.device.numa_nodes)]
                for id_ in listed.device.replica_ids
            ]
        )
    message = pb.ListAndWatchResponse()
    message.CopyFrom(sent)
    at = 0
    for old, new in zip(before.devices, snapshot.devices, strict=True):
        if new is not old:
            for device in message.devices[at : at + new.device.replicas]:
                device.health = new.health
        at += new.device.replicas
    return message


@lru_cache(maxsize=64)
def _topology(nodes: tuple[int, ...]) -> pb.TopologyInfo | None:
    """None where nothing is known: PodResources leaves out what has a topology without nodes."""
    return pb.TopologyInfo(nodes=[pb.NUMANode(ID=node) for node in nodes]) if nodes else None


def _differ_in_health_only(before: Snapshot, after: Snapshot) -> bool:
    return len(before.devices) == len(after.devices) and all(
        old.device is new.device or _told(old.device) == _told(new.device)
        for old, new in zip(before.devices, after.devices, strict=True)
    )


def _told(device: Device) -> tuple[str, int, tuple[int, ...]]:
    """What the kubelet learns of a device, its health apart."""
    return device.id, device.replicas, device.numa_nodes


def grant_message(grant: Grant) -> pb.ContainerAllocateResponse:
    return pb.ContainerAllocateResponse(
        envs=grant.env,
        annotations=grant.annotations,
        mounts=[
            pb.Mount(host_path=m.host_path, container_path=m.path, read_only=m.read_only)
            for m in grant.mounts
        ],
        devices=[
            pb.DeviceSpec(host_path=n.host_path, container_path=n.to, permissions=n.permissions)
            for n in grant.nodes
        ],
        cdi_devices=[pb.CDIDevice(name=name) for name in grant.cdi],
    )
