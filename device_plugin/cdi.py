"""CDI specs: a file for the container runtime that says what each device of a resource is.

A container is given names of devices, and the runtime looks them up whenever it makes one: so a
restarted container gets the node that its device has by then. One file a resource, written before
the list is sent, and only when it differs (docs/cdi.md).
"""

import contextlib
import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from device_plugin.allocation import Refused, inside
from device_plugin.cdi_file import Node, Part, node, put
from device_plugin.device import Device, split_replica
from device_plugin.host import Look, Unusable
from device_plugin.listing import NOT_IN_CONFIG, Listed, Snapshot
from device_plugin.state import replace

_RECORD = "cdi.json"  # in the state folder
_PREFIX, _SUFFIX = "device-plugin-", ".json"
_LONGEST = 200  # characters of a resource in a file's name, which has 255 bytes


class _Edits(Part, frozen=True):
    device_nodes: tuple[Node, ...] = ()
    env: tuple[str, ...] = ()


class _Entry(Part, frozen=True):
    name: str
    container_edits: _Edits


class _Spec(Part, frozen=True):
    cdi_version: str
    kind: str
    devices: tuple[_Entry, ...]


class Specs:
    """The specs of one daemon, in a folder where others have theirs.

    Which of the files are ours is noted in the state folder: so two daemons of one node leave one
    another's alone.
    """

    def __init__(self, folder: Path, state: Path) -> None:
        self._folder, self._record = folder, state / _RECORD
        self._seen: dict[str, tuple[tuple[int, ...], _Spec | None]] = {}  # what was read, of what
        self.resources = _recorded(self._record)  # that have a spec of ours, or had one

    def write(self, resource: str, snapshot: Snapshot, look: Look) -> str:
        """Make the spec what the list will be. Returns why it cannot be, or nothing."""
        path = self._path(resource)
        try:
            before = self._on_disk(resource, path)
            known = {entry.name: entry for entry in before.devices} if before is not None else {}
            spec = _spec(resource, _entries(snapshot, look, known))
            if spec != before:
                self._add(resource)
                if spec is None:
                    path.unlink(missing_ok=True)
                else:
                    put(path, spec)
        except OSError as error:
            return f"cannot write {path}: {error.strerror}: mount its folder, or drop container.cdi"
        return ""

    def remove(self, resource: str) -> None:
        """Take away a spec that nobody needs any more; what fails is tried at the next start."""
        left = self.resources - {resource}
        if left != self.resources:
            with contextlib.suppress(OSError):
                self._note(left)
                self.resources = left
                self._path(resource).unlink(missing_ok=True)

    def remove_leftovers(self, needed: Collection[str]) -> list[str]:
        """Take away what earlier processes left, but not of these; returns of which resources."""
        leftovers = sorted(self.resources.difference(needed))
        for resource in leftovers:
            self.remove(resource)
        return [resource for resource in leftovers if resource not in self.resources]

    def _path(self, resource: str) -> Path:
        return self._folder / f"{_PREFIX}{_file_name(resource)}{_SUFFIX}"

    def _on_disk(self, resource: str, path: Path) -> _Spec | None:
        """What the file says, if it is there and one of ours; read again if it is another one."""
        try:
            status = path.stat()
        except FileNotFoundError:
            return None
        identity = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
        seen, spec = self._seen.get(resource, ((), None))
        if seen != identity:
            spec = _parsed(path.read_bytes())
            self._seen[resource] = identity, spec
        return spec

    def _add(self, resource: str) -> None:
        if resource not in self.resources:
            self.resources |= {resource}
            # A full disk must not cost the node its devices: at worst the spec outlives us.
            with contextlib.suppress(OSError):
                self._note(self.resources)

    def _note(self, resources: Collection[str]) -> None:
        replace(self._record, msgspec.json.encode(sorted(resources)))


def _recorded(path: Path) -> frozenset[str]:
    try:
        return frozenset(msgspec.json.decode(path.read_bytes(), type=list[str]))
    except (OSError, msgspec.MsgspecError):  # at worst a spec stays until the next reboot
        return frozenset()


def _file_name(resource: str) -> str:
    """A domain has no "_", so that no two are alike; the longest are cut, and told by a hash."""
    name = resource.replace("/", "_", 1)
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _entries(snapshot: Snapshot, look: Look, before: Mapping[str, _Entry]) -> Iterator[_Entry]:
    """What a container gets by each name: all that one may be given, or may hold."""
    by_name: dict[str, Listed] = {}
    for listed in snapshot.devices:  # replicas that are too many come after their device
        by_name.setdefault(split_replica(listed.device.id)[0], listed)
    for name, listed in by_name.items():
        entry = _entry(listed, look, before.get(name))
        if entry is not None:
            yield entry


def _entry(listed: Listed, look: Look, before: _Entry | None) -> _Entry | None:
    """None: a container that is restarted has to wait.

    It waits for a device that is gone, because the node may be another one's by now, and for one
    that is not whole. What only the config dropped stays as it was.
    """
    if listed.healthy:
        return _found(listed.device, look)
    if before is None or not (listed.present or listed.reason == NOT_IN_CONFIG):
        return None
    if not listed.present and not listed.device.nodes:  # dropped, and before our time
        return before
    entry = _found(listed.device, look)
    return entry if entry is not None and _count(entry) == _count(before) else None


def _count(entry: _Entry) -> int:
    return len(entry.container_edits.device_nodes)


def _found(device: Device, look: Look) -> _Entry | None:
    if not device.nodes:  # an entry without any edit would spoil the whole spec
        label = re.sub("[^A-Z0-9]", "_", device.id.upper())
        return _Entry(device.id, _Edits(env=(f"DEVICE_PLUGIN_CDI_{label}={device.id}",)))
    try:
        nodes = [
            node(path, its.permissions, look.entry(its.host_path).real)
            for its, path in inside(device, look.host.local, by_name=True)
        ]
    except (Unusable, Refused):  # Allocate says what is wrong
        return None
    return _Entry(device.id, _Edits(tuple(nodes)))


def _spec(resource: str, entries: Iterable[_Entry]) -> _Spec | None:
    """None for no entries: a spec has at least one."""
    devices = tuple(entries)
    return _Spec(_version(resource, devices), resource, devices) if devices else None


def _version(resource: str, entries: Iterable[_Entry]) -> str:
    """The lowest that has all of it: a runtime refuses versions that it does not know."""
    if "." in resource.partition("/")[2]:
        return "0.6.0"
    for entry in entries:
        if entry.name[0].isdigit() or any(n.host_path for n in entry.container_edits.device_nodes):
            return "0.5.0"
    return "0.3.0"


def _parsed(data: bytes) -> _Spec | None:
    try:
        return msgspec.json.decode(data, type=_Spec)
    except msgspec.MsgspecError:
        return None
