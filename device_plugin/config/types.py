"""The config file's types: what a key is called, what it may hold, what it means when left out.

Field names are the keys of the file (`with` is `with_` here). `decode` reads the file by these
types, `rules` checks what they cannot say; code that holds a `Config` may rely on every rule. What
stands below a field is what the JSON Schema and the reference in docs/config.md say about the key.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from device_plugin.device import MAX_REPLICAS

HOUR = 3600.0
MAX_PARTS = 64  # of one device and name: far more than hardware has
# Every float of the config is a duration: seconds here, text as in Go in the file.
AuditInterval = Annotated[float, Meta(ge=0.1, le=24 * HOUR)]
Grace = Annotated[float, Meta(ge=60, le=10 * 365 * 24 * HOUR)]
ExecInterval = Annotated[float, Meta(ge=1, le=24 * HOUR)]
ExecTimeout = Annotated[float, Meta(ge=0.1, le=600)]


class Requirement(Struct, frozen=True, forbid_unknown_fields=True):
    """What an attribute must be for the selector to take a device."""

    key: str
    """The attribute's name; a capture of `path` is one."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "AtLeast", "AtMost"]
    """`In`: one of `values`, `NotIn`: none of them; both take globs. `Exists`, `DoesNotExist`:
    without values. `AtLeast`, `AtMost`: one value, compared as what the attribute is, a whole
    number, quantity or version."""
    values: tuple[str, ...] = ()
    """Text; numbers are quoted."""


class Companion(Struct, frozen=True, forbid_unknown_fields=True):
    """A further node that belongs to a device, and maybe to others as well."""

    path: str
    """Its path, without globs; it takes the captures of the device's `path`."""
    to: str | None = None
    """Where the container finds it; else at the same path."""
    permissions: str = "rw"
    """What the container may do with it: some of `r`, `w` and `m` (mknod)."""
    optional: bool = False
    """The device is one without this node, too."""


class VersionValue(Struct, frozen=True, forbid_unknown_fields=True):
    """An attribute that is a version."""

    version: str
    """As semver.org has it: `1.2.3` or `1.2.3-rc.1`."""


class Virtual(Struct, frozen=True, forbid_unknown_fields=True):
    """Devices that consist of nothing but their number: licences, or a trial without hardware."""

    count: Annotated[int, Meta(ge=0, le=10_000)]
    """How many there are."""
    attributes: dict[str, str | int | bool | VersionValue] = {}
    """What each is, by name: text, a whole number, true or false, or `{version: 1.2.3}`."""
    capacity: dict[str, str] = {}
    """What each has, by name, in Kubernetes quantities: `80Gi`."""


class Usb(Struct, frozen=True, forbid_unknown_fields=True):
    """USB devices that are all of this, at least one key; values take globs.

    Hubs are devices only where their `product` or `class` is given.
    Hexadecimal numbers are text in lower case, without `0x`, as `lsusb` prints them.
    """

    vendor: str | None = None
    """The vendor's ID, four hexadecimal digits."""
    product: str | None = None
    """The product's ID, four hexadecimal digits."""
    serial: str | None = None
    """The serial number, as `discover` shows it."""
    port: str | None = None
    """Where it is plugged in, as the kernel names it: `1-1.4` is port 4 of the hub at port 1 of
    bus 1."""
    class_: str | None = field(default=None, name="class")
    """The class of one of its interfaces, with or without subclass and protocol: `08`, `0806` or
    `080650`."""


class Pci(Struct, frozen=True, forbid_unknown_fields=True):
    """PCI functions that are all of this, at least one key; values take globs.

    Hexadecimal numbers are text in lower case, without `0x`, as `lspci -nn` prints them.
    """

    vendor: str | None = None
    """The vendor's ID, four hexadecimal digits."""
    device: str | None = None
    """The device's ID, four hexadecimal digits."""
    class_: str | None = field(default=None, name="class")
    """The class, with or without subclass and programming interface: `03`, `0300` or `030000`."""
    subsystem_vendor: str | None = None
    """The ID of who made the card, four hexadecimal digits."""
    subsystem_device: str | None = None
    """That maker's ID of the card, four hexadecimal digits."""
    driver: str | None = None
    """The driver that it is bound to."""
    address: str | None = None
    """Its address, with the domain: `0000:3b:00.0`."""


class Gpu(Struct, frozen=True, forbid_unknown_fields=True):
    """GPUs with what containers need to use them; docs/config.md says what it stands for."""

    vendor: Literal["amd", "intel", "nvidia"]
    """Who made them."""


class Exec(Struct, frozen=True, forbid_unknown_fields=True):
    """Devices that a program lists as JSON on its standard output; docs/exec.md has the format."""

    command: tuple[str, ...]
    """The program and its arguments; no shell reads them."""
    interval: ExecInterval = 60.0
    """How long it rests between two runs; selectors with the same `command` share them."""
    timeout: ExecTimeout = 10.0
    """How long it may take; then it is killed, with all that it started."""


class NodeOf(Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes of a device that a container gets: those that belong to one subsystem of the kernel."""

    subsystem: str
    """`tty`, `video4linux`, `hidraw`, `input`, `sound`, `block`, `drm`, `nvme`, ...; `usb` is the
    device's own node in /dev/bus/usb."""
    name: str | None = None
    """Only those that the kernel calls so: a glob such as `renderD*`. Numbers may change."""
    to: str | None = None
    """Where the container finds the node, the first one that no earlier item takes. Without it:
    all that are left, each at the path that it has on the host."""
    permissions: str = "rw"
    """What the container may do with them: some of `r`, `w` and `m` (mknod)."""
    optional: bool = False
    """The device is one without such a node, too."""


class Selector(Struct, frozen=True, forbid_unknown_fields=True):
    """Which devices of the node belong to the resource; exactly one kind.

    The kinds are `path`, `usb`, `pci`, `vfio`, `gpu`, `virtual` and `exec`.
    """

    path: str | None = None
    """Kind: a device node, a link to one, a folder (all nodes in it are one device), or a pattern
    for many, with `*`, `?`, `[0-9]`, `[!0-9]`, and `{name}`, which captures a piece."""
    usb: Usb | None = None
    """Kind: USB devices, by what they say about themselves."""
    pci: Pci | None = None
    """Kind: functions of PCI devices, by what they say about themselves."""
    vfio: Pci | None = None
    """Kind: IOMMU groups that hold such a function, to pass through to virtual machines."""
    gpu: Gpu | None = None
    """Kind: GPUs, each with all of its nodes."""
    virtual: Virtual | None = None
    """Kind: devices that are only counted; there is nothing to mount."""
    exec: Exec | None = None
    """Kind: devices that a program lists."""
    to: str | None = None
    """Where the container finds the node; else at the same path."""
    permissions: str = "rw"
    """What the container may do with the node: some of `r`, `w` and `m` (mknod)."""
    with_: tuple[str | Companion, ...] = field(default=(), name="with")
    """Companions: further nodes that belong to the device."""
    nodes: tuple[NodeOf, ...] = ()
    """Which of its nodes a container gets; the first is the primary one. Else all of them."""
    where: tuple[Requirement, ...] = ()
    """Takes only devices of which all of this holds; for "or" write another selector."""
    replicas: Annotated[int, Meta(ge=1, le=MAX_REPLICAS)] = 1
    """How often each device may be held."""

    @property
    def companions(self) -> tuple[Companion, ...]:
        """What is in `with`, also where only a path is written."""
        return tuple(Companion(one) if isinstance(one, str) else one for one in self.with_)

    @property
    def kinds(self) -> list[str]:
        """The kinds that it names: one, if it is right."""
        return [kind for kind in KINDS if getattr(self, kind) is not None]


class PerContainer(Struct, frozen=True, forbid_unknown_fields=True):
    """What one container may have of the resource."""

    max: Annotated[int, Meta(ge=1)] | None = None
    """How many; a container that asks for more is refused, and told why."""
    distinct: bool = False
    """Never two replicas of one device."""


class Allocation(Struct, frozen=True, forbid_unknown_fields=True):
    """Which of several free devices a container gets."""

    prefer: Literal["numa", "pack", "spread"] = "numa"
    """`numa`: on as few NUMA nodes as can be, then below as few PCIe roots, then as `pack`;
    `pack`: as few devices as can be, those that leave least behind; `spread`: even shares."""


class Mount(Struct, frozen=True, forbid_unknown_fields=True):
    """A file or folder of the host."""

    host_path: str
    """What is mounted; where it is seen to be missing, the container is refused, and told why."""
    path: str
    """Where the container finds it."""
    read_only: bool = False
    """The container may only read."""


class Container(Struct, frozen=True, forbid_unknown_fields=True):
    """What a container gets besides the device nodes; all values take placeholders."""

    env: dict[str, str] = {}
    """Variables by name; names take placeholders too, but no paths."""
    mounts: tuple[Mount, ...] = ()
    """Files and folders of the host."""
    annotations: dict[str, str] = {}
    """Annotations for the container runtime, by key."""
    cdi: bool = False
    """Device nodes reach the container by CDI: the runtime is given names and reads the rest in
    /var/run/cdi."""


class Partition(Struct, frozen=True, forbid_unknown_fields=True):
    """Equal parts that each device may be divided into, where a claim does not take it whole.

    Their attribute `partition` is `name`; whole devices have no such attribute.
    """

    name: str
    """What they are called, in lower case: `half`."""
    count: Annotated[int, Meta(ge=1, le=MAX_PARTS)]
    """How many of them a device has, as long as nothing else is taken of it."""
    capacity: dict[str, str]
    """What each takes of the device's capacities, by name, in Kubernetes quantities: `40Gi`."""


class Resource(Struct, frozen=True, forbid_unknown_fields=True):
    """Something that Pods can ask for."""

    name: str
    """The full name that they ask for, with a domain: `example.com/fuse`."""
    devices: tuple[Selector, ...]
    """Its devices. Where two selectors meet on one, the first in the file has it."""
    api: Literal["device-plugin", "dra"] = "device-plugin"
    """How Pods get them: by a number in their `limits`, or also by claims that say which (`dra`,
    Dynamic Resource Allocation); docs/dra.md tells them apart."""
    allocation: Allocation = Allocation()
    """Which of several free devices a container gets."""
    per_container: PerContainer = PerContainer()
    """What one container may have of the resource."""
    container: Container = Container()
    """What a container gets besides the device nodes."""
    runtimes: tuple[Literal["runc", "crun", "runsc", "kata"], ...] = ()
    """The container runtimes that it is meant for: a hint. `check` and `explain` warn of what does
    not work with them; nothing is refused, and Pods choose theirs by `runtimeClassName`."""
    partitions: tuple[Partition, ...] = ()
    """Parts of a device that claims may take instead of the whole. Only with `api: dra`."""


class Dra(Struct, frozen=True, forbid_unknown_fields=True):
    """Dynamic Resource Allocation, for resources with `api: dra`."""

    driver: str
    """This plugin's name in the cluster, a domain in lower case: `gpu.example.com`. Claims,
    DeviceClasses and ResourceSlices name it."""
    unhealthy: Literal["NoSchedule", "NoExecute"] = "NoSchedule"
    """What happens to Pods when a device turns unhealthy. `NoSchedule`: new ones do not get it.
    `NoExecute`: those that have it are evicted, too."""


class Config(Struct, frozen=True, forbid_unknown_fields=True):
    """The config of the device plugin."""

    version: Literal[1]
    """Of this format: 1."""
    resources: tuple[Resource, ...]
    """What this node offers."""
    audit_interval: AuditInterval = 10.0
    """How often everything is looked at again, even without an event."""
    removed_grace: Grace = HOUR
    """How long a vanished device that nobody holds stays listed, as unhealthy."""
    dra: Dra | None = None
    """Needed by resources with `api: dra`."""


class Part(Config, frozen=True, forbid_unknown_fields=True):
    """One of several files that make a config: it need not have resources."""

    resources: tuple[Resource, ...] = ()


# The kinds of selectors, and the options that fit not all of them.
KINDS: Mapping[str, frozenset[str]] = {
    "path": frozenset(("to", "permissions", "with")),
    "usb": frozenset(("nodes", "with")),
    "pci": frozenset(("nodes", "with")),
    "vfio": frozenset(("nodes", "with")),
    "gpu": frozenset(("nodes", "with")),
    "virtual": frozenset(),
    "exec": frozenset(),
}

# Keys that the design has and this version has not: refused like any other, but nobody is told that
# they are misspelt.
LATER: Mapping[type, frozenset[str]] = {
    Resource: frozenset(("health",)),
    Selector: frozenset(("health",)),
}
