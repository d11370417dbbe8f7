"""What the fake kubelet writes down about DRA drivers, and how long it waits for them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class DraTimes:
    """The kubelet's periods, in seconds; tests make them short."""

    call: float = 45.0  # for one NodePrepareResources or NodeUnprepareResources
    resync: float = 60.0  # and up to half of it more, until a failed preparation is tried again
    retry: float = 10.0  # the same, after a failure to unprepare or to create a container
    reconcile: float = 60.0  # between looks for Pods that are gone
    health_retry: float = 5.0  # after a health stream has ended
    health_timeout: float = 30.0  # of a device whose driver names none
    wipe: float = 30.0  # without a connection, until the driver's slices are deleted
    reconnect: float = 1.0  # first pause before a new connection


class ClusterError(Exception):
    """The API server said no; the text is its own."""


class Cluster(Protocol):
    """What the kubelet needs of the API server; `apiserver.ApiServer` has it."""

    def claim(self, namespace: str, name: str) -> Any: ...  # noqa: ANN401
    def delete_slices(self, driver: str = "", node: str = "") -> int: ...


@dataclass(frozen=True, slots=True)
class PreparedDevice:
    """A device as the driver answered."""

    pool: str
    device: str
    requests: tuple[str, ...]  # none: every container that has the claim
    cdi_devices: tuple[str, ...]
    share: str | None = None


@dataclass(frozen=True, slots=True)
class ClaimCall:
    """One NodePrepareResources or NodeUnprepareResources."""

    started: float  # time.monotonic()
    duration: float
    method: str
    driver: str
    endpoint: str
    service: str  # as the driver advertises it: "v1.DRAPlugin"
    claims: tuple[tuple[str, str, str], ...]  # namespace, name, UID
    errors: Mapping[str, str]  # by UID, empty if well; only what was answered
    error: str | None = None  # of the call as a whole


@dataclass(slots=True)
class Instance:
    """One registered process of a driver."""

    driver: str
    endpoint: str
    service: str
    health_service: str  # empty: none is asked
    connected: bool = False
    watching: bool = False  # whether a health list came on the stream that is open
    health_error: str = ""  # how the last stream ended


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """What a driver said of a device."""

    health: str  # Healthy, Unhealthy, Unknown
    message: str = ""


@dataclass(frozen=True, slots=True)
class HealthReport:
    """One message of a health stream."""

    received: float  # time.monotonic()
    driver: str
    endpoint: str
    devices: Mapping[tuple[str, str], DeviceHealth]  # by pool and device


@dataclass(frozen=True, slots=True)
class Wipe:
    """The kubelet deleted ResourceSlices."""

    at: float  # time.monotonic()
    driver: str  # empty: those of all drivers, at the start
    slices: int  # how many


@dataclass(slots=True)
class ClaimRecord:
    """What the kubelet knows of a claim. The flags are lost when it restarts."""

    namespace: str
    name: str
    uid: str
    drivers: dict[str, list[PreparedDevice]]
    pods: set[str] = field(default_factory=set)  # UIDs
    prepared: bool = False
    unpreparing: bool = False
