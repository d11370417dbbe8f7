"""The config file's types: what a key is called, what it may hold, what it means when left out.

Field names are the keys of the file (`with` is `with_` here). `decode` reads the file by these
types, `rules` checks what they cannot say; code that holds a `Config` may rely on every rule.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from device_plugin.device import MAX_REPLICAS

HOUR = 3600.0
# Every float of the config is a duration: seconds here, text as in Go in the file.
AuditInterval = Annotated[float, msgspec.Meta(ge=0.1, le=24 * HOUR)]
Grace = Annotated[float, msgspec.Meta(ge=60, le=10 * 365 * 24 * HOUR)]
Scalar = str | int | bool


class Companion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A further node that belongs to a `path` device, named with the captures of its path."""

    path: str
    to: str | None = None
    permissions: str = "rw"
    optional: bool = False


class Virtual(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Devices that consist of nothing but their number: licences, or a trial without hardware."""

    count: Annotated[int, msgspec.Meta(ge=0, le=10_000)]
    attributes: dict[str, Scalar] = {}
    capacity: dict[str, str] = {}


class Selector(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which devices of the node belong to the resource; exactly one kind (`path`, `virtual`)."""

    path: str | None = None
    virtual: Virtual | None = None
    to: str | None = None
    permissions: str = "rw"
    with_: tuple[str | Companion, ...] = msgspec.field(default=(), name="with")
    replicas: Annotated[int, msgspec.Meta(ge=1, le=MAX_REPLICAS)] = 1


class PerContainer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    max: Annotated[int, msgspec.Meta(ge=1)] | None = None
    distinct: bool = False


class Allocation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    prefer: Literal["pack", "spread"] = "pack"


class Mount(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    host_path: str
    path: str
    read_only: bool = False


class Container(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a container gets besides the device nodes; all values take placeholders."""

    env: dict[str, str] = {}
    mounts: tuple[Mount, ...] = ()
    annotations: dict[str, str] = {}


class Resource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    devices: tuple[Selector, ...]
    allocation: Allocation = Allocation()
    per_container: PerContainer = PerContainer()
    container: Container = Container()


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: Literal[1]
    resources: tuple[Resource, ...]
    audit_interval: AuditInterval = 10.0
    removed_grace: Grace = HOUR


# Keys and values that the design has and this version has not: refused like any other, but nobody
# is told that they are misspelt.
LATER: Mapping[type, frozenset[str]] = {
    Config: frozenset(("api", "dra", "runtimes")),
    Resource: frozenset(("api", "dra", "health", "runtimes")),
    Selector: frozenset(("exec", "gpu", "health", "nodes", "pci", "usb", "vfio", "where")),
    Container: frozenset(("cdi",)),
}
LATER_VALUES = frozenset(("numa",))
