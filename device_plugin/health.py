"""Checks of devices beyond their being there, before and after they are handed out.

The kubelet replays the first Allocate response at every restart of a container, so a device that
was handed out must stay what it was: a plain path that means another device by now would reach a
container that never asked for it.
"""

from collections.abc import Iterable

import msgspec

from device_plugin.allocation import Grant, Refused, Share
from device_plugin.device import Candidate, Device
from device_plugin.host import Host, Look, Unusable
from device_plugin.state import HandedOut, Observed, Owners


def check_nodes(host: Host, resource: str, shares: Iterable[Share]) -> list[Observed]:
    """See that a runtime would find every node of a container's devices.

    Returns their numbers as they are now, without those of links: a link is followed anew whenever
    a container is created, so it may lead elsewhere by then. Raises Refused for the first node
    that is none.
    """
    found = []
    for device in {share.device.id: share.device for share in shares}.values():
        try:
            found.append(_observed(host, device))
        except Unusable as why:
            raise Refused(f"device {device.id} of {resource}: {why}") from None
    return found


def _observed(host: Host, device: Device) -> Observed:
    numbers, own = {}, ("", 0)
    for path in (node.host_path for node in device.nodes):
        real = path
        number, inode = host.node(path)  # nearly always enough, and Allocate is in a hurry
        if number:
            numbers[path] = number
        else:
            real = _real(host, path)
            number, inode = host.node(real)
        own = own if own[0] else (real, inode)
    return Observed(device, numbers, own)


def _real(host: Host, path: str) -> str:
    """Where a node is to which links lead. Raises Unusable."""
    try:
        entry = host.look().entry(path)
    except Unusable as why:
        raise Unusable(f"{path} {why}") from None
    if not entry.is_node:
        raise Unusable(f"{path} is {entry.kind}, not a device node")
    return entry.real


def check_mounts(host: Host, resource: str, grant: Grant) -> None:
    """Raise Refused for a mount whose source is seen to be missing.

    A runtime would make an empty folder of it, and the container would start without.
    """
    look = host.look()
    for mount in grant.mounts:
        if host.sees(mount.host_path):
            try:
                look.entry(mount.host_path)
            except Unusable as why:
                raise Refused(f"mount {mount.host_path} of {resource} {why}") from None


def check_held(look: Look, candidate: Candidate, owners: Owners) -> Candidate:
    """Fail a device that a container has under another ID, by an earlier config for instance.

    owners: the device that each node was when a container got it. Only a node that was there all
    the time is meant: one that went and came back may be another device's.
    """
    for path in (one for one in candidate.owned if one in owners):  # the others nobody holds
        owner = owners[path].get(look.host.node(path)[1], candidate.device.id)
        if owner != candidate.device.id:
            problem = candidate.problem or f"a container holds it as {owner}"
            return msgspec.structs.replace(candidate, problem=problem)
    return candidate


def check_moved(look: Look, candidate: Candidate, handed_out: HandedOut) -> Candidate:
    """Fail a device of which a container was given a node that is another one now."""
    numbers = handed_out.numbers(candidate.device.id)
    if numbers is None:
        return candidate
    problems = (_moved(look, path, number) for path, number in numbers.items())
    problem = candidate.problem or next(filter(None, problems), "")
    return msgspec.structs.replace(candidate, problem=problem)


def _moved(look: Look, path: str, number: str) -> str:
    try:
        entry = look.entry(path)
    except Unusable as why:
        return f"moved: {path}, handed to a container, {why}"
    if entry.number == number or entry.by_link:
        return ""
    now = entry.number or entry.kind
    return f"moved: {path} was {number} when a container got it and is {now} now"
