"""What a package needs that adds a kind of device; docs/sdk.md walks through one.

This module is all of the public API. A package publishes a `Kind` in the entry-point group
`device_plugin.discovery`; the entry point's name is the key that selectors are written with.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

import msgspec

from device_plugin.attribute import Attribute, Quantity, Version
from device_plugin.host import Host, Look, Unusable

__all__ = [
    "Attribute",
    "Device",
    "Host",
    "Kind",
    "Look",
    "Node",
    "Quantity",
    "Unusable",
    "Version",
]

GROUP = "device_plugin.discovery"

_Settings = TypeVar("_Settings", bound=msgspec.Struct)


class Node(msgspec.Struct, frozen=True):
    """A device node that a container gets; the device is unhealthy where it is missing.

    host_path: where it is on the host, links allowed. to: where the container finds it; empty: at
    the same path. permissions: some of r, w and m (mknod). optional: the device is one without it.
    """

    host_path: str
    to: str = ""
    permissions: str = "rw"
    optional: bool = False


class Device(msgspec.Struct, frozen=True):
    """A device that was found.

    id: what makes it this one and no other, at each look the same: a serial number, an address;
    not a count of what was found. nodes: the primary one first, which belongs to one device only.
    attributes: what it says about itself. sysfs: its folder in /sys, if it has one; NUMA node and
    PCIe root come from there. numa_nodes: for what has none. problem: why it is unhealthy.
    """

    id: str
    nodes: Sequence[Node] = ()
    attributes: Mapping[str, Attribute] = {}
    sysfs: str = ""
    numa_nodes: Sequence[int] = ()
    problem: str = ""


class Kind(msgspec.Struct, Generic[_Settings], frozen=True):
    """A kind of device.

    settings: what the file says below the kind's key: str, int, bool, float (a duration in
    seconds), Literal, tuple[X, ...], dict[str, X] and further Structs, or one of these and None.
    Its docstring, and strings below its fields, go into the JSON Schema. Where they do not fit
    together, its `__post_init__` raises ValueError with what to do.

    find: called at each look, on the thread that waits for events: it answers at once and never
    waits. What it looks up through its `Look` below /dev is watched. A device that is no longer
    among those found was removed. An exception makes all devices of the selector unhealthy.

    attributes: the names that its devices may have, and their types, so that `where` and
    placeholders are checked with the file; `pcie_root` and `numa` come from `Device.sysfs`.
    """

    settings: type[_Settings]
    find: Callable[[Look, _Settings], Iterable[Device]]
    attributes: Mapping[str, type[Attribute]] = {}
