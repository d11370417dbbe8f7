"""What a container gets: preferred IDs, and the nodes, env, mounts and annotations for given IDs.

Pure functions: protobuf, sockets and the file system are elsewhere.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from device_plugin.config import Resource
from device_plugin.device import Device, Node
from device_plugin.inventory import Snapshot
from device_plugin.template import Template


class Refused(Exception):  # noqa: N818 - an answer: users read it in `kubectl describe pod`
    """Why these IDs cannot be given to a container, in one sentence."""


@dataclass(frozen=True, slots=True)
class Share:
    """One schedulable ID of a container and the device behind it."""

    id: str
    device: Device
    index: int  # of the device among the container's devices: replicas of one device share it


@dataclass(frozen=True, slots=True)
class Grant:
    """What one container gets; paths in `nodes[].to` are final."""

    nodes: tuple[Node, ...] = ()
    mounts: tuple[tuple[str, str, bool], ...] = ()  # host path, container path, read only
    env: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


def prefer(
    resource: Resource, snapshot: Snapshot, available: Iterable[str], must: Iterable[str], size: int
) -> list[str]:
    """Choose `size` of the `available` IDs, the `must` ones among them.

    The same for any order of IDs. Empty where the IDs do not suffice or `per_container` forbids
    it: the kubelet then chooses itself, and Allocate says what is wrong.
    """
    fixed, offered = set(must), set(available)
    by_id = snapshot.by_id
    chosen = [id_ for id_ in by_id if id_ in fixed]
    free: dict[str, list[str]] = {}  # by device, both in list order
    for id_, listed in by_id.items():
        if id_ in offered and id_ not in fixed and listed.healthy:
            free.setdefault(listed.device.id, []).append(id_)
    held = [by_id[id_].device.id for id_ in chosen]
    order = _pack if resource.allocation.prefer == "pack" else _spread
    if resource.per_container.distinct:
        fewest = order is _pack
        devices = sorted(free, key=lambda device: len(free[device]) * (1 if fewest else -1))
        picked = [free[device][0] for device in devices if device not in set(held)]
    else:
        picked = order(free, held, size - len(chosen))
    chosen += picked[: max(0, size - len(chosen))]
    return chosen if len(chosen) == size and fixed <= set(chosen) else []


def _pack(free: dict[str, list[str]], held: list[str], need: int) -> list[str]:
    """As few devices as can be, and of these the ones that leave the least behind."""
    picked: list[str] = []
    for device in dict.fromkeys(held):
        picked += free.pop(device, [])
    by_room = sorted(free.values(), key=len, reverse=True)
    for position, ids in enumerate(by_room):
        rest = need - len(picked)
        if rest <= len(ids):
            return picked + min((i for i in by_room[position:] if len(i) >= rest), key=len)
        picked += ids
    return picked


def _spread(free: dict[str, list[str]], held: list[str], need: int) -> list[str]:
    """Even shares: next comes the device of which this container has least and most is left."""
    taken = Counter(held)
    devices = list(free)
    queue = [(taken[device], -len(free[device]), i) for i, device in enumerate(devices)]
    heapq.heapify(queue)
    picked: list[str] = []
    while queue and len(picked) < need:
        count, left, i = heapq.heappop(queue)
        picked.append(free[devices[i]][left])  # the first of those left
        if left + 1:
            heapq.heappush(queue, (count + 1, left + 1, i))
    return picked


def shares(resource: Resource, snapshot: Snapshot, ids: Iterable[str]) -> list[Share]:
    """The devices behind a container's IDs, in natural ID order; an ID counts once.

    Raises Refused for IDs that are unknown or unhealthy, or too many by `per_container`.
    """
    by_id, wanted = snapshot.by_id, set(ids)
    unknown = wanted - by_id.keys()
    if unknown:
        raise Refused(
            f"{resource.name} has no device {min(unknown)}: was it listed by another plugin?"
        )
    given: list[Share] = []
    indices: dict[str, int] = {}
    for id_ in sorted(wanted, key=snapshot.positions.__getitem__):
        listed = by_id[id_]
        if listed.reason:
            raise Refused(f"device {id_} of {resource.name} is unhealthy: {listed.reason}")
        index = indices.setdefault(listed.device.id, len(indices))
        given.append(Share(id_, listed.device, index))
    _keep_rules(resource, len(given), len(indices))
    return given


def _keep_rules(resource: Resource, count: int, devices: int) -> None:
    rules = resource.per_container
    if rules.max is not None and count > rules.max:
        raise Refused(
            f"a container may have at most {rules.max} of {resource.name} and asks for {count}: "
            "lower its limit, or raise per_container.max"
        )
    if rules.distinct and devices < count:
        raise Refused(
            f"a container may not have two replicas of one device of {resource.name}, and"
            f" {count} come from {devices}: lower its limit, or drop per_container.distinct"
        )


def grant(resource: Resource, given: list[Share], local: Callable[[str], str]) -> Grant:
    """Everything the container of these shares gets; `local` says how we see a host path."""
    nodes: dict[str, Node] = {}
    for share in given:
        for node in share.device.nodes:
            if node.host_path not in nodes:
                to = _inside(node, _values(share, local)) if node.to else node.host_path
                nodes[node.host_path] = Node(node.host_path, to, node.permissions)
    container = resource.container
    if not (container.env or container.mounts or container.annotations):
        return Grant(tuple(nodes.values()))
    values = [_values(share, local) for share in given]
    mounts: dict[str, tuple[str, str, bool]] = {}
    for known in values:
        for mount in container.mounts:
            host_path, path = _render(mount.host_path, known), _render(mount.path, known)
            mounts.setdefault(path, (host_path, path, mount.read_only))
    return Grant(
        nodes=tuple(nodes.values()),
        mounts=tuple(mounts.values()),
        env=_joined(container.env, given, values),
        annotations=_joined(container.annotations, given, values),
    )


def inside(device: Device) -> list[tuple[Node, str]]:
    """Where a container would find each node; `{index}` is known only with the container."""
    values = _values(Share(device.id, device, 0), str) | {"index": "{index}"}
    return [(node, _inside(node, values)) for node in device.nodes]


def _values(share: Share, local: Callable[[str], str]) -> dict[str, str]:
    """What the placeholders stand for; paths are those of the primary node."""
    device = share.device
    values = {"id": share.id, "index": str(share.index), **device.values}
    values |= {f"attribute.{name}": _text(value) for name, value in device.attributes.items()}
    if device.nodes:
        primary = device.nodes[0]
        values["host_path"] = primary.host_path
        values["local_path"] = local(primary.host_path)
        values["path"] = _inside(primary, values)
    return values


def _inside(node: Node, values: Mapping[str, str]) -> str:
    return _render(node.to, values) if node.to else node.host_path


def _joined(
    templates: Mapping[str, str], given: list[Share], values: list[dict[str, str]]
) -> dict[str, str]:
    """Each key with its devices' values joined by ","; what two replicas agree on counts once."""
    pieces: dict[str, dict[tuple[str, str], None]] = {}
    for key, text in templates.items():
        constant = _template(text).constant
        for share, known in zip(given, values, strict=True):
            owner = "" if constant else share.device.id
            pieces.setdefault(_render(key, known), {})[owner, _render(text, known)] = None
    return {key: ",".join(value for _, value in found) for key, found in pieces.items()}


def _render(text: str, values: Mapping[str, str]) -> str:
    return _template(text).render(values)


@lru_cache(maxsize=1024)
def _template(text: str) -> Template:
    return Template.parse(text)


def _text(value: str | int | bool) -> str:  # noqa: FBT001
    return str(value).lower() if isinstance(value, bool) else str(value)
