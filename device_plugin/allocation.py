"""What a container gets: preferred IDs, and the nodes, env, mounts and annotations for given IDs.

Pure functions: protobuf, sockets and the file system are elsewhere.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

import msgspec

from device_plugin.attribute import text as attribute_text
from device_plugin.config import Mount, Resource
from device_plugin.device import ID_LIMIT, Device, Node
from device_plugin.listing import Snapshot
from device_plugin.preference import ORDERS, Free
from device_plugin.template import Template

# `check` sees to it where it can: not for claims, nor for what programs and packages list.
_TOGETHER = (
    "{} and {} are both to be {} in the container: ask for one device, or put {{index}} into the"
    " {} of the config"
)


class Refused(Exception):  # noqa: N818 - an answer: users read it in `kubectl describe pod`
    """Why these IDs cannot be given to a container, in one sentence."""


class Unknown(Refused):
    """The ID was never listed here."""

    def __init__(self, resource: str, id_: str) -> None:
        shown = id_[:ID_LIMIT]
        super().__init__(f"{resource} has no device {shown!r}: did another plugin list it?")
        self.id = id_


class Share(msgspec.Struct, frozen=True):
    """One schedulable ID of a container and the device behind it."""

    id: str
    device: Device
    index: int  # of the device among the container's devices: replicas of one device share it


class Grant(msgspec.Struct, frozen=True):
    """What one container gets; paths in `nodes[].to` are final."""

    nodes: tuple[Node, ...] = ()
    mounts: tuple[Mount, ...] = ()
    env: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    cdi: tuple[str, ...] = ()  # names that stand for the nodes


def prefer(
    resource: Resource, snapshot: Snapshot, available: Iterable[str], must: Iterable[str], size: int
) -> list[str]:
    """Choose `size` of the `available` IDs, the `must` ones among them.

    The same for any order of IDs. Empty where the IDs do not suffice or `per_container` forbids
    it: the kubelet then chooses itself, and Allocate says what is wrong.
    """
    fixed = set(must)
    by_id = snapshot.by_id
    chosen = [id_ for id_ in by_id if id_ in fixed]
    held = [by_id[id_].device for id_ in chosen]
    offered = set(available)
    offered -= fixed
    free = _free(resource, snapshot, offered, held)
    need = max(0, size - len(chosen))
    chosen += ORDERS[resource.allocation.prefer](free, held, need)[:need]
    suffices = len(chosen) == size and fixed <= set(chosen)
    devices_chosen = {by_id[id_].device.id for id_ in chosen}
    return chosen if suffices and not _broken(resource, size, len(devices_chosen)) else []


def _free(resource: Resource, snapshot: Snapshot, ids: set[str], held: list[Device]) -> list[Free]:
    """The devices that have some of these IDs free, and what one container may have of them."""
    by_id, distinct = snapshot.by_id, resource.per_container.distinct
    free: dict[str, list[str]] = {}
    for id_, listed in by_id.items():
        if id_ in ids and not listed.reason:
            free.setdefault(listed.device.id, []).append(id_)
    if distinct:
        for device in held:
            free.pop(device.id, None)
    return [Free(by_id[its[0]].device, its, 1 if distinct else len(its)) for its in free.values()]


def shares(resource: Resource, snapshot: Snapshot, ids: Iterable[str]) -> list[Share]:
    """The devices behind a container's IDs, in natural ID order; an ID counts once.

    Raises Refused for IDs that are unknown or unhealthy, or too many by `per_container`.
    """
    by_id, wanted = snapshot.by_id, set(ids)
    unknown = wanted - by_id.keys()
    if unknown:
        raise Unknown(resource.name, min(unknown))
    given: list[Share] = []
    indices: dict[str, int] = {}
    for id_ in sorted(wanted, key=snapshot.positions.__getitem__):
        listed = by_id[id_]
        if listed.reason:
            raise Refused(f"device {id_} of {resource.name} is unhealthy: {listed.reason}")
        index = indices.setdefault(listed.device.id, len(indices))
        given.append(Share(id_, listed.device, index))
    if broken := _broken(resource, len(given), len(indices)):
        raise Refused(broken)
    return given


def _broken(resource: Resource, count: int, devices: int) -> str:
    """The rule that `count` IDs of so many devices break in one container, if they break any."""
    rules = resource.per_container
    if rules.max is not None and count > rules.max:
        return (
            f"a container may have at most {rules.max} of {resource.name} and asks for {count}: "
            "lower its limit, or raise per_container.max"
        )
    if rules.distinct and devices < count:
        return (
            f"a container may not have two replicas of one device of {resource.name}, and"
            f" {count} come from {devices}: lower its limit, or drop per_container.distinct"
        )
    return ""


def grant(resource: Resource, given: list[Share], local: Callable[[str], str]) -> Grant:
    """Everything the container of these shares gets; `local` says how we see a host path."""
    container = resource.container
    nodes = _handed(given, local, by_name=container.cdi)
    if container.cdi:
        names = dict.fromkeys(f"{resource.name}={share.device.id}" for share in given)
        handed = Grant(cdi=tuple(names))
    else:
        handed = Grant(tuple(nodes.values()))
    if not (container.env or container.mounts or container.annotations):
        return handed
    values = [_values(share, local) for share in given]
    for share, known in zip(given, values, strict=True):
        if share.device.nodes:
            known["path"] = nodes[share.device.nodes[0].host_path].to
    mounts: dict[str, Mount] = {}
    for known in values:
        for mount in container.mounts:
            host_path, path = _render(mount.host_path, known), _render(mount.path, known)
            first = mounts.setdefault(path, Mount(host_path, path, mount.read_only))
            if first.host_path != host_path:
                raise Refused(_TOGETHER.format(first.host_path, host_path, path, "`path`"))
    return msgspec.structs.replace(
        handed,
        mounts=tuple(mounts.values()),
        env=_joined(container.env, given, values),
        annotations=_joined(container.annotations, given, values),
    )


def _handed(given: list[Share], local: Callable[[str], str], *, by_name: bool) -> dict[str, Node]:
    """Each node once, by host path, where the first share has it, with the permissions of all."""
    nodes: dict[str, Node] = {}
    places: dict[str, str] = {}  # in the container: the host's paths
    for share in given:
        known: Mapping[str, str] = {}
        if any(node.to for node in share.device.nodes):
            known = _fixed(share.device, local) if by_name else _values(share, local)
        for node in share.device.nodes:
            earlier = nodes.get(node.host_path)
            if earlier is None:
                to, permissions = _inside(node, known), node.permissions
            else:
                to, permissions = earlier.to, _both(earlier.permissions, node.permissions)
            first = places.setdefault(to, node.host_path)
            if first != node.host_path:
                raise Refused(_TOGETHER.format(first, node.host_path, to, "`to`"))
            nodes[node.host_path] = Node(node.host_path, to, permissions)
    return nodes


def _both(one: str, other: str) -> str:
    return one if one == other else "".join(c for c in "rwm" if c in one + other)


def inside(
    device: Device, local: Callable[[str], str] = str, *, by_name: bool = False
) -> list[tuple[Node, str]]:
    """Where a container would find each node; `{index}` is known only with the container.

    by_name: it will only be given the device's name, so nothing stands for `{index}`: Refused.
    """
    if not any(node.to for node in device.nodes):
        return [(node, node.host_path) for node in device.nodes]
    values = _fixed(device, local) | ({} if by_name else {"index": "{index}"})
    return [(node, _inside(node, values)) for node in device.nodes]


def _fixed(device: Device, local: Callable[[str], str]) -> dict[str, str]:
    """What the placeholders stand for in every container alike."""
    values = _values(Share(device.id, device, 0), local)
    del values["index"]
    return values


def _values(share: Share, local: Callable[[str], str]) -> dict[str, str]:
    """What the placeholders stand for, but for `{path}`; paths are those of the primary node."""
    device = share.device
    values = {"id": share.id, "index": str(share.index), **device.values}
    values |= {
        f"attribute.{name}": attribute_text(value) for name, value in device.attributes.items()
    }
    if device.nodes:
        primary = device.nodes[0]
        values["host_path"] = primary.host_path
        values["local_path"] = local(primary.host_path)
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
    try:
        return _template(text).render(values)
    except KeyError as missing:
        raise Refused(
            f"device {values['id']} has no {{{missing.args[0]}}}, which {text!r} asks for"
        ) from None


@lru_cache(maxsize=1024)
def _template(text: str) -> Template:
    return Template.parse(text)
