"""What the fake kubelet writes down, and the ways in which it complains."""

from dataclasses import dataclass, field

HEALTHY = "Healthy"


class AdmissionError(Exception):
    """The Pod is Failed, as `kubectl describe pod` would say it (A13)."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message


class ContainerError(Exception):
    """The container waits with this reason; the Pod lives on and the kubelet would try again."""

    reason = "CreateContainerConfigError"

    def __init__(self, message: str) -> None:
        super().__init__(f"{self.reason}: {message}")
        self.message = message


class RuntimeRefusal(ContainerError):  # noqa: N818 - it names what the runtime did
    """The container runtime would not create this container."""

    reason = "CreateContainerError"


class KubeletPanic(AssertionError):  # noqa: N818 - it is the kubelet's word
    """The plugin's list lost an ID that a Pod holds: a real kubelet may crash on it (A6)."""


@dataclass(frozen=True, slots=True)
class Device:
    """One entry of a list as the plugin sent it."""

    id: str
    health: str
    numa: tuple[int, ...] | None = None  # None: no topology at all


@dataclass(frozen=True, slots=True)
class DeviceList:
    """One ListAndWatch message."""

    received: float  # time.monotonic()
    resource: str
    devices: tuple[tuple[str, str, tuple[int, ...]], ...]  # id, health, NUMA nodes
    socket: str
    registration: int  # Registration.number of the stream that it came on


@dataclass(slots=True)
class Registration:
    """One Register call and what became of it; the plugin watcher makes such a one too (A15)."""

    number: int
    received: float
    version: str
    endpoint: str
    resource: str
    replied: float | None = None
    error: str | None = None  # what the plugin was told; None while pending or when accepted
    stream_opened: float | None = None  # when ListAndWatch was called
    stream_ended: float | None = None
    stream_error: str | None = None

    @property
    def accepted(self) -> bool:
        return self.replied is not None and self.error is None

    @property
    def streaming(self) -> bool:
        return self.stream_opened is not None and self.stream_ended is None


@dataclass(frozen=True, slots=True)
class Call:
    """One call to a plugin other than ListAndWatch."""

    started: float
    duration: float
    method: str
    resource: str
    ids: tuple[str, ...] = ()  # in the order sent: devices_ids, or available_deviceIDs
    must_include: tuple[str, ...] = ()
    size: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """One call to PodResources."""

    started: float  # time.monotonic()
    method: str  # List, GetAllocatableResources, Get
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Handshake:
    """What the plugin watcher did with a socket that it found (A15)."""

    started: float
    ended: float
    socket: str  # path of the registration socket
    type: str = ""  # DevicePlugin, DRAPlugin; empty if the plugin could not be asked
    name: str = ""  # the resource, or the driver
    endpoint: str = ""  # path of the socket that serves
    versions: tuple[str, ...] = ()
    error: str | None = None  # None: registered


@dataclass(frozen=True, slots=True)
class Panic:
    """A reason for KubeletPanic."""

    resource: str
    id: str
    pod: str

    def __str__(self) -> str:
        return f"{self.resource}: {self.id!r}, held by pod {self.pod}, left the list"


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """The Node object's extended resources as of the last status tick (A7)."""

    capacity: dict[str, int] = field(default_factory=dict)
    allocatable: dict[str, int] = field(default_factory=dict)
