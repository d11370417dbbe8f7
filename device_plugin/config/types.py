"""The config file's types: what a key is called, what it may hold, what it means when left out.

Field names are the keys of the file (`with` is `with_` here). Values are checked by `decode`
(shape) and `rules` (meaning); code that holds a `Config` may rely on every rule.
"""

from typing import Annotated, Literal

import msgspec

Duration = Annotated[float, msgspec.Meta(description="as in Go: 500ms, 30s, 1m30s")]
Scalar = str | int | bool


class Companion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A further node that belongs to a `path` device, named with the captures of its path."""

    path: str
    to: str | None = None
    permissions: str = "rw"
    optional: bool = False


class Virtual(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Devices that consist of nothing but their number: licences, or a trial without hardware."""

    count: int
    attributes: dict[str, Scalar] = {}
    capacity: dict[str, str] = {}


class Selector(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which devices of the node belong to the resource; exactly one kind (`path`, `virtual`)."""

    path: str | None = None
    virtual: Virtual | None = None
    to: str | None = None
    permissions: str = "rw"
    with_: tuple[str | Companion, ...] = msgspec.field(default=(), name="with")
    replicas: int = 1


class PerContainer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    max: int | None = None
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
    audit_interval: Duration = 10.0
    removed_grace: Duration = 3600.0
