"""What a program of the kind `exec` prints: JSON, which docs/exec.md describes.

The program is the admin's, but what it prints may come from hardware: it is bounded, typed and
printable, or all of it is refused.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from device_plugin.attribute import Attribute, Quantity, Version
from device_plugin.discovery import described
from device_plugin.runner import Failed
from device_plugin.sdk import Device, Node

_SHOWN = 200  # characters of what is wrong
_DIALECT = "https://json-schema.org/draft/2020-12/schema"

_Text = Annotated[str, Meta(max_length=described.LONGEST_TEXT)]
_Path = Annotated[str, Meta(pattern="^/", max_length=described.LONGEST_PATH)]
_Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class ListedNode(Struct, frozen=True, forbid_unknown_fields=True):
    """A device node that the device hands over; one that is missing makes it unhealthy."""

    host_path: Annotated[_Path, Meta(description="Where it is on the host, links allowed.")]
    to: Annotated[
        _Path | None, Meta(description="Where the container finds it; else at the same path.")
    ] = None
    permissions: Annotated[
        str, Meta(pattern="^[rwm]{1,3}$", description="Some of r, w and m (mknod).")
    ] = "rw"
    optional: Annotated[bool, Meta(description="The device is one without this node, too.")] = False


class Typed(Struct, frozen=True, forbid_unknown_fields=True):
    """A version (semver.org) or a quantity (as in Kubernetes); one of the two."""

    version: _Text | None = None
    quantity: _Text | None = None


Value = _Text | _Whole | bool | Typed


class Listed(Struct, frozen=True, forbid_unknown_fields=True):
    """A device."""

    id: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=described.LONGEST_ID,
            description="What makes it this one and no other, on each run the same.",
        ),
    ]
    nodes: Annotated[
        tuple[ListedNode, ...],
        Meta(max_length=described.MOST_NODES, description="The primary one first."),
    ] = ()
    attributes: Annotated[
        dict[str, Value],
        Meta(
            max_length=described.MOST_ATTRIBUTES,
            description="What it says about itself, for `where` and `{attribute}`.",
        ),
    ] = {}
    numa_nodes: Annotated[
        tuple[Annotated[int, Meta(ge=0, le=described.HIGHEST_NUMA)], ...],
        Meta(max_length=described.MOST_NUMA, description="None: not known."),
    ] = ()
    health: Literal["Healthy", "Unhealthy"] = "Healthy"
    reason: Annotated[_Text, Meta(description="Why it is unhealthy.")] = ""


class Listing(Struct, frozen=True, forbid_unknown_fields=True):
    """What a program of the kind `exec` prints."""

    devices: Annotated[tuple[Listed, ...], Meta(max_length=described.MOST_DEVICES)]


def decode(printed: bytes) -> tuple[Device, ...]:
    """Read what a program printed. Raises Failed, with where and what is wrong."""
    devices = []
    try:
        listing = msgspec.json.decode(printed, type=Listing)
        for index, listed in enumerate(listing.devices):
            devices.append(_device(listed, f" - at `$.devices[{index}]`"))
        described.check(devices)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        text = "".join(char if char.isprintable() else "?" for char in str(error))
        raise Failed(f"printed no list of devices: {text[:_SHOWN]}") from None
    return tuple(devices)


def _device(listed: Listed, place: str) -> Device:
    """What it says of a device. Raises ValueError."""
    if not listed.reason.isprintable():
        raise ValueError(f"`reason`: there are unprintable characters in it{place}")
    problem = listed.reason or "the program says so"
    return Device(
        listed.id,
        [Node(one.host_path, one.to or "", one.permissions, one.optional) for one in listed.nodes],
        {name: _value(name, value, place) for name, value in listed.attributes.items()},
        numa_nodes=listed.numa_nodes,
        problem="" if listed.health == "Healthy" else problem,
    )


def _value(name: str, value: Value, place: str) -> Attribute:
    if not isinstance(value, Typed):
        return value
    if (value.version is None) == (value.quantity is None):
        raise ValueError(f"attribute `{name}`: give either `version` or `quantity`{place}")
    try:
        if value.version is not None:
            return Version.parse(value.version)
        return Quantity.parse(value.quantity or "")
    except ValueError as error:
        raise ValueError(f"attribute `{name}`: {error}{place}") from None


def schema() -> dict[str, Any]:
    """The JSON Schema of what a program prints; docs/exec.schema.json."""
    return {"$schema": _DIALECT, "title": "device-plugin exec", **msgspec.json.schema(Listing)}
