"""Pods as far as devices are concerned: what they ask for, and what the kubelet says of them."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_uids = itertools.count(1)


@dataclass(frozen=True, slots=True)
class ContainerClaim:
    """What a container wants of its Pod's claims; no request: all that the claim has."""

    name: str  # as the Pod calls the claim
    request: str = ""


@dataclass(frozen=True, slots=True)
class PodClaim:
    """A claim of a Pod; `template`: it was made for this Pod, which must own it (C2)."""

    name: str
    claim: str  # name of the ResourceClaim
    template: bool = False


@dataclass(frozen=True, slots=True)
class ExtendedClaim:
    """The claim that the scheduler made for extended resources which a DRA driver serves (C7)."""

    claim: str
    mappings: Sequence[tuple[str, str, str]]  # container, resource, request


@dataclass(frozen=True, slots=True)
class Container:
    """A container; among init containers, `restart_policy="Always"` makes it a sidecar."""

    name: str
    limits: Mapping[str, int] = field(default_factory=dict)
    restart_policy: str | None = None
    env: Mapping[str, str] = field(
        default_factory=dict
    )  # the Pod's own, which wins over the plugin's (A10)
    claims: Sequence[ContainerClaim] = ()

    @property
    def sidecar(self) -> bool:
        return self.restart_policy == "Always"


@dataclass(frozen=True, slots=True)
class Pod:
    """A Pod. Two with the same name are two Pods: the UID tells them apart."""

    name: str
    containers: Sequence[Container] = ()
    init_containers: Sequence[Container] = ()
    uid: str = field(default_factory=lambda: f"00000000-0000-0000-0000-{next(_uids):012d}")
    namespace: str = "default"
    claims: Sequence[PodClaim] = ()
    extended: ExtendedClaim | None = None

    @property
    def all_claims(self) -> list[PodClaim]:
        """What must be prepared before the Pod starts (C2, C7)."""
        extended = [PodClaim("", self.extended.claim)] if self.extended else []
        return [*self.claims, *extended]

    def requests_of(self, name: str) -> list[tuple[str, str]]:
        """Names of the ResourceClaims of a container, each with a request or an empty one."""
        container = self.container(name)
        found = [
            (one.claim, wanted.request)
            for wanted in container.claims
            for one in self.claims
            if one.name == wanted.name
        ]
        mappings = self.extended.mappings if self.extended else ()
        return found + [
            (self.extended.claim, request)
            for place, resource, request in mappings
            if self.extended and place == name and container.limits.get(resource)
        ]

    def is_claimed(self, name: str, resource: str) -> bool:
        """Whether a container has an extended resource by a claim, and not by a plugin (C7)."""
        mappings = self.extended.mappings if self.extended else ()
        return any((place, one) == (name, resource) for place, one, _ in mappings)

    def container(self, name: str) -> Container:
        for container in self.in_order:
            if container.name == name:
                return container
        raise KeyError(f"pod {self.name!r} has no container {name!r}")

    @property
    def in_order(self) -> list[Container]:
        """The order of admission: init containers, then the others (A8)."""
        return [*self.init_containers, *self.containers]

    def is_init(self, name: str) -> bool:
        return any(container.name == name for container in self.init_containers)


@dataclass(slots=True)
class ContainerStatus:
    """A container's state and, while it waits, why."""

    state: str = "waiting"  # waiting, running, terminated
    reason: str = ""
    message: str = ""
    restarts: int = -1  # the first creation is none
    allocated_resources: dict[str, dict[str, str]] = field(default_factory=dict)


@dataclass(slots=True)
class PodRecord:
    """What the kubelet keeps about a Pod."""

    pod: Pod
    phase: str = "Pending"  # Pending, Running, Failed
    reason: str = ""
    message: str = ""
    removed: bool = False
    known: bool = True  # the kubelet has been told of it since it started
    sandbox: bool = False  # its claims are prepared, its containers may be made (C2)
    wanted: bool = False  # the kubelet shall start it, again and again until it runs
    terminating: bool = False  # it has ended but for its claims
    events: list[str] = field(default_factory=list)  # "Reason: message", as users see them
    errors: list[str] = field(default_factory=list)  # what only the kubelet's log would say
    containers: dict[str, ContainerStatus] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.containers = {container.name: ContainerStatus() for container in self.pod.in_order}

    @property
    def active(self) -> bool:
        return not self.removed and self.phase != "Failed"

    def fail(self, reason: str, message: str) -> None:
        self.phase, self.reason, self.message = "Failed", reason, message
