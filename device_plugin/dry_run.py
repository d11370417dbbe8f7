"""`discover` and `allocate`: what the daemon would do on this node now, without one."""

import json
from collections import Counter

import msgspec
import yaml
from google.protobuf.json_format import MessageToDict

from device_plugin import allocation
from device_plugin.allocation import Grant, Refused, Share
from device_plugin.attribute import plain
from device_plugin.config import Config, Resource
from device_plugin.device import Node
from device_plugin.discovery import discover
from device_plugin.health import check_mounts, check_nodes
from device_plugin.host import Host
from device_plugin.inventory import Inventory
from device_plugin.listing import Listed, Snapshot
from device_plugin.plugin import grant_message
from device_plugin.preference import reasons
from device_plugin.table import table

_NAME = 32  # characters of a name from pci.ids or usb.ids


class Allocated(msgspec.Struct, frozen=True):
    """What a container would get, and why these devices."""

    ids: list[str]
    grant: Grant
    reason: str


class Survey:
    """One look at the node: what each resource would list, and what it would not and why."""

    def __init__(self, config: Config, host_root: str) -> None:
        self._host = Host(host_root)
        self._resources = {resource.name: resource for resource in config.resources}
        self._inventory = Inventory(self._resources)
        self._notes: dict[str, list[str]] = {}
        for name, discovered in discover(self._host.look(), config).items():
            update = self._inventory.replace(name, discovered.candidates)
            self._notes[name] = discovered.notes + update.notes

    @property
    def snapshots(self) -> dict[str, Snapshot]:
        return {name: self._inventory.snapshot(name) for name in self._resources}

    def notes(self, resource: str | None = None) -> list[str]:
        """What is not offered and why, one line each."""
        return [
            f"{name}: {note}"
            for name, notes in self._notes.items()
            for note in notes
            if resource in (None, name)
        ]

    def allocate(self, name: str, count: int) -> Allocated:
        """Choose as the kubelet would be advised to. Raises Refused."""
        resource = self._resources.get(name)
        if resource is None:
            raise Refused(f"{name} is not in the config; it has {', '.join(self._resources)}")
        snapshot = self._inventory.snapshot(name)
        if count > len(snapshot.by_id):
            raise Refused(f"{name}: {count} asked for, {len(snapshot.by_id)} on this node")
        ids = allocation.prefer(resource, snapshot, snapshot.by_id, (), count)
        shares = allocation.shares(resource, snapshot, ids or list(snapshot.by_id)[:count])
        check_nodes(self._host, name, shares)
        grant = allocation.grant(resource, shares, self._host.local)
        check_mounts(self._host, name, grant)
        return Allocated([share.id for share in shares], grant, _reason(resource, shares))


def _reason(resource: Resource, shares: list[Share]) -> str:
    rules: list[str] = [resource.allocation.prefer]
    if resource.per_container.max is not None:
        rules.append(f"at most {resource.per_container.max} a container")
    if resource.per_container.distinct:
        rules.append("never two of one device")
    taken = Counter(share.device.id for share in shares)
    replicas = {share.device.id: share.device.replicas for share in shares}
    parts = [f"{count} of {replicas[device]} of {device}" for device, count in taken.items()]
    where = reasons(resource.allocation.prefer, [share.device for share in shares])
    return f"{'; '.join(rules)}: {', '.join([*where, *parts])}"


def discovered_json(survey: Survey) -> str:
    resources = [
        {"name": name, "devices": [_device(listed) for listed in snapshot.devices]}
        for name, snapshot in survey.snapshots.items()
    ]
    return json.dumps({"resources": resources}, indent=2)


def _device(listed: Listed) -> dict[str, object]:
    device = listed.device
    return {
        "id": device.id,
        "health": listed.health,
        "reason": listed.reason,
        "numa_nodes": list(device.numa_nodes),
        "nodes": [
            {"host_path": node.host_path, "path": path, "permissions": node.permissions}
            for node, path in allocation.inside(device)
        ],
        "attributes": {name: plain(value) for name, value in device.attributes.items()},
        "replicas": device.replicas,
    }


def _node(node: Node, path: str) -> str:
    return node.host_path if path == node.host_path else f"{node.host_path} -> {path}"


def discovered_table(survey: Survey) -> str:
    from device_plugin.discovery import ids  # noqa: PLC0415 - only this table has names

    devices = [one.device for snapshot in survey.snapshots.values() for one in snapshot.devices]
    what = {id_: name[:_NAME] for id_, name in ids.lookup(devices).items()}
    rows: list[tuple[str, ...]] = [("RESOURCE", "DEVICE", "WHAT", "REPLICAS", "NODES")]
    for name, snapshot in survey.snapshots.items():
        if not snapshot.devices:
            rows.append((name, "-", "", "0", "-"))
        for device in (listed.device for listed in snapshot.devices):
            first, *more = [_node(*node) for node in allocation.inside(device)] or ["-"]
            rows.append((name, device.id, what.get(device.id, ""), str(device.replicas), first))
            rows += [("", "", "", "", node) for node in more]
    if not what:
        rows = [(*row[:2], *row[3:]) for row in rows]
    return table(rows, wrap=True)


def allocated_table(allocated: Allocated) -> str:
    grant = allocated.grant
    groups = {
        "DEVICES": allocated.ids,
        "NODES": [f"{node.host_path} -> {node.to} ({node.permissions})" for node in grant.nodes],
        "BY CDI": grant.cdi,
        "MOUNTS": [
            f"{m.host_path} -> {m.path} ({'read only' if m.read_only else 'read and write'})"
            for m in grant.mounts
        ],
        "ENV": [f"{key}={value}" for key, value in grant.env.items()],
        "ANNOTATIONS": [f"{key}={value}" for key, value in grant.annotations.items()],
    }
    rows = [
        (title if first else "", line)
        for title, lines in groups.items()
        for first, line in zip([True] + [False] * len(lines), lines, strict=False)
    ]
    return table(rows, wrap=True)


def allocated_json(allocated: Allocated) -> str:
    """The protobuf JSON form of the ContainerAllocateResponse."""
    return json.dumps(MessageToDict(grant_message(allocated.grant)), indent=2)


def allocated_yaml(allocated: Allocated) -> str:
    text: str = yaml.safe_dump(MessageToDict(grant_message(allocated.grant)), sort_keys=False)
    return text.rstrip("\n")


DISCOVERED = {"table": discovered_table, "json": discovered_json}
ALLOCATED = {"table": allocated_table, "json": allocated_json, "yaml": allocated_yaml}
