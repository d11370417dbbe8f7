"""What containers get by a claim: device nodes, env and mounts for each of its requests.

The same as by the device plugin, made by the same rules; a request stands where a container stood.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from device_plugin.allocation import Grant, Refused, Share, grant
from device_plugin.attribute import Quantity
from device_plugin.cdi_file import node
from device_plugin.config import Container, Mount, Resource
from device_plugin.device import Device
from device_plugin.dra.checkpoint import Extras, Prepared
from device_plugin.dra.devices import Chosen, Index
from device_plugin.dra.offer import Unit
from device_plugin.dra.specs import EditMount, Edits
from device_plugin.health import check_mounts
from device_plugin.host import Host, Look, Unusable
from device_plugin.listing import NOT_IN_CONFIG


def extras(chosen: Iterable[Chosen], layers: Iterable[Container], host: Host) -> Extras:
    """What a request's containers get besides nodes: by the config, and by each layer over it.

    Raises Refused where some of it cannot be had.
    """
    shares = _shares(chosen)
    found = Grant()
    for container, its in shares:  # where two resources differ, the first one counts
        found = _over(found, _grant(container, its, host))
    every = [share for _, its in shares for share in its]
    for layer in layers:
        found = _over(_grant(layer, every, host), found)
    check_mounts(host, "the claim", found)
    return Extras(found.env, found.mounts)


def edits(chosen: Sequence[Chosen], given: Extras, look: Look) -> Edits:
    """All that a request's containers get. Raises Refused for a node that is not there."""
    every = [share for _, its in _shares(chosen) for share in its]
    granted = _grant(Container(), every, look.host).nodes
    nodes = tuple(node(one.to, one.permissions, _real(one.host_path, look)) for one in granted)
    env = tuple(f"{key}={value}" for key, value in given.env.items())
    mounts = tuple(_mount(mount) for mount in given.mounts)
    if not (nodes or env or mounts):  # one without any would spoil the whole spec
        env = (f"DEVICE_PLUGIN_CLAIM={','.join(share.id for share in every)}",)
    return Edits(env, nodes, mounts)


def still(
    claim: Prepared, known: Index, look: Look, before: Mapping[str, Edits]
) -> dict[str, Edits]:
    """What a claim's containers get as things are now, by request; `before`: what they got.

    Without a request of which a device is gone: a container that is restarted has to wait, because
    the node may be another device's by now. What only the config dropped stays as it was.
    """
    found: dict[str, Edits] = {}
    for request, more in claim.extras.items():
        names = [given.name for given in claim.devices if given.request == request]
        chosen = [known[name] for name in names if name in known]
        listed = [one.unit.listed for one in chosen]
        if len(chosen) < len(names) or any(one.reason == NOT_IN_CONFIG for one in listed):
            if request in before:
                found[request] = before[request]
        elif all(one.present for one in listed):
            with contextlib.suppress(Refused):  # a node is missing
                found[request] = edits(chosen, more, look)
    return found


def _shares(chosen: Iterable[Chosen]) -> list[tuple[Container, list[Share]]]:
    """Its devices in the order of the config and of their IDs, by resource."""
    by_resource: dict[str, tuple[Container, list[Share]]] = {}
    indices: dict[tuple[str, str], int] = {}
    for one in sorted(chosen, key=lambda one: one.position):
        name, device = one.resource.name, _device(one.unit)
        _, its = by_resource.setdefault(name, (one.resource.container, []))
        before = sum(resource == name for resource, _ in indices)
        its.append(Share(one.unit.name, device, indices.setdefault((name, device.id), before)))
    return list(by_resource.values())


def _device(unit: Unit) -> Device:
    """A part says what it has of its device's capacities."""
    device, part = unit.listed.device, unit.part
    if part is None:
        return device
    capacities = {name: Quantity.parse(text) for name, text in part.capacity.items()}
    attributes = {**device.attributes, **capacities, "partition": part.name}
    return msgspec.structs.replace(device, attributes=attributes)


def _grant(container: Container, shares: list[Share], host: Host) -> Grant:
    return grant(Resource("", (), container=container), shares, host.local)


def _over(upper: Grant, lower: Grant) -> Grant:
    mounts = {mount.path: mount for mount in (*lower.mounts, *upper.mounts)}
    return Grant(env={**lower.env, **upper.env}, mounts=tuple(mounts.values()))


def _real(path: str, look: Look) -> str:
    try:
        entry = look.entry(path)
    except Unusable as why:
        raise Refused(f"{path} {why}") from None
    if not entry.is_node:
        raise Refused(f"{path} is {entry.kind}, not a device node")
    return entry.real


def _mount(mount: Mount) -> EditMount:
    mode = "ro" if mount.read_only else "rw"
    return EditMount(mount.host_path, mount.path, ("rbind", "rprivate", mode))
