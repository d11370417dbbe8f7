"""Who holds what, from the kubelet: the only way to learn that a device is free again.

Contract: the kubelet's PodResources API v1 (api/podresources/v1). There is no call for a release,
so the kubelet is asked again and again, and no faster than the audit.
"""

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import grpc
import msgspec
from google.protobuf.message import DecodeError

from device_plugin._api.podresources.v1 import podresources_pb2 as pb
from device_plugin.listener import TO_A_KUBELET, target

SOCKET = "pod-resources/kubelet.sock"  # below the kubelet's root folder
_DEADLINE = 10.0  # seconds; a kubelet with many Pods takes its time
_RECEIVE_LIMIT = 16 * 1024 * 1024  # bytes: the server has no limit, and 4 MiB are soon reached
_REST = 0.2  # seconds between questions at least: the kubelet's limit is all clients' together


class Holder(msgspec.Struct, frozen=True, order=True):
    """A container that holds a device."""

    namespace: str
    pod: str
    container: str


class Holdings(msgspec.Struct, frozen=True):
    """One answer of the kubelet. It leaves out what ordinary init containers hold (B)."""

    asked: float  # monotonic
    holders: Mapping[str, Mapping[str, tuple[Holder, ...]]] = {}  # by resource, then by ID
    healthy: Mapping[str, frozenset[str]] = {}  # IDs that the kubelet may hand out, by resource
    numa_nodes: Mapping[tuple[str, str], tuple[int, ...]] = {}  # by resource and ID, where known
    pods: frozenset[str] = frozenset()  # names of all Pods, be it without devices

    def held(self, resource: str) -> Mapping[str, tuple[Holder, ...]]:
        """The IDs of a resource that containers hold, and which ones do."""
        return self.holders.get(resource, {})


class Unavailable(Exception):  # noqa: N818 - an answer too
    """Why the kubelet does not say who holds what."""


def ask(socket: Path, timeout: float = _DEADLINE) -> Holdings:
    """Ask once. Raises Unavailable."""
    if not socket.exists():
        raise Unavailable(f"no socket at {socket}: is the kubelet's pod-resources folder mounted?")
    asked = time.monotonic()
    limit = ("grpc.max_receive_message_length", _RECEIVE_LIMIT)
    channel = grpc.insecure_channel(target(socket), (*TO_A_KUBELET, limit))
    try:
        listed = _call(channel, "List", timeout)
        allocatable = _call(channel, "GetAllocatableResources", timeout)
        pods = pb.ListPodResourcesResponse.FromString(listed.result())
        healthy = pb.AllocatableResourcesResponse.FromString(allocatable.result())
    except grpc.RpcError as error:
        raise Unavailable(_reason(socket, error)) from None
    except DecodeError as error:
        raise Unavailable(f"{socket}: the answer makes no sense: {error}") from None
    finally:
        channel.close()
    names = frozenset(pod.name for pod in pods.pod_resources)
    return Holdings(
        asked=asked,
        holders=_holders(pods),
        healthy=_healthy(healthy.devices),
        numa_nodes=_numa_nodes(pods),
        pods=names,
    )


def _call(channel: grpc.Channel, method: str, timeout: float) -> "grpc.Future[bytes]":
    """Call without arguments, for the answer's bytes: gRPC would log those that do not parse."""
    call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
        f"/v1.PodResourcesLister/{method}"
    )
    future: grpc.Future[bytes] = call.future(b"", timeout=timeout)
    return future


def _holders(
    answer: pb.ListPodResourcesResponse,
) -> dict[str, dict[str, tuple[Holder, ...]]]:
    """Merge the entries: a device comes once for each of its NUMA nodes."""
    found: dict[str, dict[str, dict[Holder, None]]] = {}
    for pod in answer.pod_resources:
        for container in pod.containers:
            holder = Holder(pod.namespace, pod.name, container.name)
            for entry in container.devices:
                ids = found.setdefault(entry.resource_name, {})
                for id_ in entry.device_ids:
                    ids.setdefault(id_, {})[holder] = None
    return {
        resource: {id_: tuple(holders) for id_, holders in ids.items()}
        for resource, ids in found.items()
    }


def _numa_nodes(answer: pb.ListPodResourcesResponse) -> dict[tuple[str, str], tuple[int, ...]]:
    found: dict[tuple[str, str], set[int]] = {}
    for pod in answer.pod_resources:
        for entry in (entry for container in pod.containers for entry in container.devices):
            for node in entry.topology.nodes:
                for id_ in entry.device_ids if node.ID >= 0 else ():
                    found.setdefault((entry.resource_name, id_), set()).add(node.ID)
    return {key: tuple(sorted(nodes)) for key, nodes in found.items()}


def _healthy(entries: Iterable[pb.ContainerDevices]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for entry in entries:
        found.setdefault(entry.resource_name, set()).update(entry.device_ids)
    return {resource: frozenset(ids) for resource, ids in found.items()}


def _reason(socket: Path, error: grpc.RpcError) -> str:
    if not isinstance(error, grpc.Call):
        return str(error) or type(error).__name__
    code = error.code()
    if code is grpc.StatusCode.UNAVAILABLE:
        return f"{socket}: nobody answers there: the kubelet is down or starting"
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return f"{socket}: no answer in time"
    return f"{socket}: {error.details() or code.name}"


class PodResources(threading.Thread):
    """Asks at once, at every `wake` and every `interval` seconds; `answered` is called after each.

    `answered` must only pass the word on.
    """

    def __init__(self, socket: Path, interval: float, answered: Callable[[], None]) -> None:
        super().__init__(name="pod resources", daemon=True)
        self._socket = socket
        self.interval = interval
        self._answered = answered
        self._wake = threading.Event()
        self._news = threading.Condition()
        self._asked = -math.inf  # when the last question was put, answered or not
        self._stopped = threading.Event()
        self.latest: Holdings | None = None
        self.problem = ""  # why there is no answer now

    def wake(self) -> None:
        self._wake.set()

    def stop(self) -> None:
        """End soon: a question on its way is not waited for."""
        self._stopped.set()
        self._wake.set()

    def wait(self, since: float, timeout: float) -> bool:
        """Wait for the outcome of a question that was put after `since` (monotonic)."""
        with self._news:
            return self._news.wait_for(lambda: self._asked > since, timeout)

    def refresh(self, fresh: float, timeout: float) -> None:
        """Wait for an answer that is at most `fresh` seconds old; in vain, if it takes too long."""
        now = time.monotonic()
        if now - self._asked > fresh:
            self.wake()
            self.wait(now - fresh, timeout)

    def run(self) -> None:
        while not self._stopped.is_set():
            self._wake.clear()
            asked = time.monotonic()
            try:
                self.latest, self.problem = ask(self._socket), ""
            except Unavailable as why:
                self.problem = str(why)
            except Exception as error:  # noqa: BLE001 - what it sends must not end the thread
                self.problem = f"{self._socket}: {error!r}"
            with self._news:
                self._asked = asked
                self._news.notify_all()
            self._answered()
            if not self._stopped.wait(_REST):
                self._wake.wait(self.interval - _REST)
