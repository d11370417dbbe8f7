"""What a program of the kind `exec` prints: JSON, which docs/exec.md describes.

The program is the admin's, but what it prints may come from hardware: it is bounded, typed and
printable, or all of it is refused.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from device_plugin.attribute import Attribute, Quantity, Version
from device_plugin.config import names
from device_plugin.runner import Failed

_SHOWN = 200  # characters of what is wrong
_DIALECT = "https://json-schema.org/draft/2020-12/schema"

_Text = Annotated[str, Meta(max_length=256)]
_Path = Annotated[str, Meta(pattern="^/", max_length=4096)]
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
            max_length=253,
            description="What makes it this one and no other, on each run the same.",
        ),
    ]
    nodes: Annotated[
        tuple[ListedNode, ...], Meta(max_length=256, description="The primary one first.")
    ] = ()
    attributes: Annotated[
        dict[str, Value],
        Meta(
            max_length=64, description="What it says about itself, for `where` and `{attribute}`."
        ),
    ] = {}
    numa_nodes: Annotated[
        tuple[Annotated[int, Meta(ge=0, le=1023)], ...],
        Meta(max_length=64, description="None: not known."),
    ] = ()
    health: Literal["Healthy", "Unhealthy"] = "Healthy"
    reason: Annotated[_Text, Meta(description="Why it is unhealthy.")] = ""


class Listing(Struct, frozen=True, forbid_unknown_fields=True):
    """What a program of the kind `exec` prints."""

    devices: Annotated[tuple[Listed, ...], Meta(max_length=10_000)]


def values(listed: Listed) -> dict[str, Attribute]:
    """A device's attributes as what they are."""
    return {name: _value(value) for name, value in listed.attributes.items()}


def _value(value: Value) -> Attribute:
    if not isinstance(value, Typed):
        return value
    if value.version is not None:
        return Version.parse(value.version)
    return Quantity.parse(value.quantity or "")


def decode(printed: bytes) -> tuple[Listed, ...]:
    """Read what a program printed. Raises Failed, with where and what is wrong."""
    try:
        listing = msgspec.json.decode(printed, type=Listing)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise _bad(str(error)) from None
    for index, listed in enumerate(listing.devices):
        if message := next(_mistakes(listed), None):
            raise _bad(f"{message} - at `$.devices[{index}]`")
    [(id_, times)] = Counter(one.id for one in listing.devices).most_common(1) or [("", 0)]
    if times > 1:
        raise _bad(f"the id `{id_}` is there {times} times")
    return listing.devices


def _bad(message: str) -> Failed:
    text = "".join(char if char.isprintable() else "?" for char in message)
    return Failed(f"printed no list of devices: {text[:_SHOWN]}")


def _mistakes(listed: Listed) -> Iterator[str]:
    """What the types do not say of a device."""
    for key, text in (("id", listed.id), ("reason", listed.reason)):
        if message := _unprintable(text):
            yield f"`{key}`: {message}"
    places: set[str] = set()
    for node in listed.nodes:
        place = node.host_path if node.to is None else node.to
        message = _wrong_path(node.host_path) or _wrong_path(place)
        message = message or names.permissions(node.permissions)
        if message or place in places:
            yield f"node `{node.host_path}`: {message or 'another one is at its place'}"
        places.add(place)
    for name, value in listed.attributes.items():
        if message := names.attribute(name) or _wrong(value):
            yield f"attribute `{name}`: {message}"


def _unprintable(text: str) -> str | None:
    return None if text.isprintable() else "there are unprintable characters in it"


def _wrong_path(path: str) -> str | None:
    return names.path(path) or _unprintable(path)


def _wrong(value: Value) -> str | None:
    if isinstance(value, str):
        up = ".." in value.split("/")  # it may become a part of a path
        return "`..` would lead elsewhere in a path" if up else _unprintable(value)
    if not isinstance(value, Typed):
        return None
    if (value.version is None) == (value.quantity is None):
        return "give either `version` or `quantity`"
    try:
        _value(value)
    except ValueError as error:
        return str(error)
    return None


def schema() -> dict[str, Any]:
    """The JSON Schema of what a program prints; docs/exec.schema.json."""
    return {"$schema": _DIALECT, "title": "device-plugin exec", **msgspec.json.schema(Listing)}
