"""What a ResourceClaim says of its allocation: the part of it that is ours, typed. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from device_plugin.allocation import Refused
from device_plugin.attribute import Quantity
from device_plugin.dra.cluster import Json

REPLICAS = "replicas"  # the capacity that says how many claims may share a device
FROM_CLASS = "FromClass"


class ClaimRef(msgspec.Struct, frozen=True):
    """A claim as the kubelet names it: only the UID tells it from a later one of the same name."""

    namespace: str
    name: str
    uid: str


class Toleration(msgspec.Struct, frozen=True):
    """A taint that the claim takes a device with."""

    key: str = ""  # empty: any
    operator: str = "Equal"


class Result(msgspec.Struct, frozen=True, rename="camel"):
    """One device that was allocated."""

    request: str  # perhaps REQUEST/SUBREQUEST
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: Mapping[str, str | int] | None = None
    tolerations: tuple[Toleration, ...] | None = None

    @property
    def base(self) -> str:
        """The request, without a subrequest."""
        return self.request.partition("/")[0]

    @property
    def replicas(self) -> int:
        """How many of the device's replicas it takes."""
        for name, amount in (self.consumed_capacity or {}).items():
            if name.rpartition("/")[2] == REPLICAS:
                return -(-Quantity.parse(str(amount)).nano // 10**9)
        return 1

    def tolerates(self, key: str) -> bool:
        """Whether the claim takes a device with this taint, whatever its value."""
        return any(
            one.key == key or (not one.key and one.operator == "Exists")
            for one in self.tolerations or ()
        )


class _Opaque(msgspec.Struct, frozen=True):
    driver: str
    parameters: Any = None


class Configuration(msgspec.Struct, frozen=True):
    """Parameters, and the requests that they are for."""

    source: str
    requests: tuple[str, ...] | None = None
    opaque: _Opaque | None = None

    def is_for(self, request: str) -> bool:
        """Whether they are for REQUEST/SUBREQUEST; a request's are for all of its subrequests."""
        return not self.requests or bool({request, request.partition("/")[0]} & {*self.requests})


class _Devices(msgspec.Struct, frozen=True):
    results: tuple[Result, ...] = ()
    config: tuple[Configuration, ...] = ()


class _Allocation(msgspec.Struct, frozen=True):
    devices: _Devices = _Devices()


class _Status(msgspec.Struct, frozen=True):
    allocation: _Allocation | None = None


class _Metadata(msgspec.Struct, frozen=True):
    uid: str


class _Claim(msgspec.Struct, frozen=True):
    metadata: _Metadata
    status: _Status = _Status()


class Allocated(msgspec.Struct, frozen=True):
    """Our devices of a claim, and the parameters that are for us."""

    results: tuple[Result, ...]
    configurations: tuple[Configuration, ...]


def allocated(claim: Json, ref: ClaimRef, driver: str, pool: str) -> Allocated:
    """Read a claim. Raises Refused if it is not the one that is meant, or nothing of it is ours."""
    try:
        read = msgspec.convert(claim, _Claim)
    except msgspec.ValidationError as error:
        raise Refused(f"the claim is not as resource.k8s.io/v1 has it: {error}") from None
    if read.metadata.uid != ref.uid:
        raise Refused("it is gone, and another claim has its name: delete the Pod")
    if read.status.allocation is None:
        raise Refused("it is not allocated any more: delete the Pod")
    devices = read.status.allocation.devices
    results = tuple(one for one in devices.results if one.driver == driver)
    if not results:
        raise Refused(f"nothing of it is allocated from {driver}, which is asked: delete the Pod")
    if strange := sorted({one.pool for one in results} - {pool}):
        raise Refused(f"it has devices of the node {strange[0]}, and this is {pool}")
    ours = (one for one in devices.config if one.opaque is not None)
    return Allocated(results, tuple(one for one in ours if _driver(one) == driver))


def is_gone(claim: Json, uid: str) -> bool | None:
    """Whether the claim has no devices any more; None if what was answered does not say."""
    try:
        read = msgspec.convert(claim, _Claim)
    except msgspec.ValidationError:
        return None
    if claim.get("kind") != "ResourceClaim":
        return None
    if read.metadata.uid != uid:
        return True
    if read.status.allocation is None:
        return None if "allocation" in claim.get("status", {}) else True
    return False if read.status.allocation.devices.results else None


def _driver(one: Configuration) -> str:
    return one.opaque.driver if one.opaque is not None else ""


def requests(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Group what was allocated by request, without subrequests."""
    found: dict[str, list[Result]] = {}
    for result in results:
        found.setdefault(result.base, []).append(result)
    return found
