"""`device-plugin explain`: why a path, or a resource, is what it is on this node now.

A look without the daemon: what that knows besides (who holds a device, what was handed out, what is
disabled) is in `device-plugin status`.
"""

import grp
import os
import pwd
import stat
import textwrap
from collections.abc import Callable, Iterator, Sequence, Sized
from contextlib import suppress

from device_plugin.config import Config
from device_plugin.device import Candidate, Device
from device_plugin.discovery import Discovered, discover
from device_plugin.discovery.explain import explain, title
from device_plugin.host import Entry, Host, Look, Unusable, shown
from device_plugin.table import WIDTH, table

_MOST = 20  # lines of one kind; whoever has more devices asks for one of them
_OWNERSHIP = (
    "Or, once device_ownership_from_security_context is true in the config of containerd or CRI-O,"
    " the node is the container's runAsUser's and runAsGroup's, where it sets them."
)


class NothingToExplain(Exception):  # noqa: N818 - an answer for people
    """What was asked for is neither a path nor a resource."""


def of(what: str, config: Config, host_root: str) -> str:
    """Explain a path of the host, or a resource of the config. Raises NothingToExplain."""
    look = Host(host_root).look()
    if what.startswith("/"):
        path = "/" + os.path.normpath(what).lstrip("/")
        return "\n".join(_path(look, config, path, names=host_root == "/"))
    names = [resource.name for resource in config.resources]
    if what not in names:
        raise NothingToExplain(
            f"{what} is no path (begin it with /) and no resource of the config, which has"
            f" {', '.join(names)}"
        )
    return "\n".join(_resource(look, config, what))


def _path(look: Look, config: Config, path: str, *, names: bool) -> Iterator[str]:
    verdicts = explain(look, config, path)
    yield shown(path)
    try:
        entry = look.entry(path)
        nodes = _nodes(look, entry)
    except Unusable as why:
        yield f"  {why}"
        nodes = []
    else:
        yield from _facts(look, entry, names=names)
    yield ""
    yield table(
        [
            ("RESOURCE", "SELECTOR", "VERDICT"),
            *((v.resource, f"{v.selector + 1} ({v.kind})", v.text) for v in verdicts),
        ],
        wrap=True,
    )
    yield ""
    yield from _owners(look, config, nodes)
    yield from _needs(look, nodes[:_MOST])


def _facts(look: Look, entry: Entry, *, names: bool) -> Iterator[str]:
    if entry.by_link:
        yield f"  leads to {shown(entry.real)}"
    yield f"  is {entry.kind}{f', {entry.number}' if entry.is_node else ''}"
    status = _status(look, entry)
    user, group = str(status.st_uid), str(status.st_gid)
    if names:  # another root may have other names
        user, group = _named(pwd.getpwuid, user), _named(grp.getgrgid, group)
    yield f"  owner {user}, group {group}, mode {stat.filemode(status.st_mode)}"


def _named(find: Callable[[int], Sequence[object]], number: str) -> str:
    try:
        return f"{find(int(number))[0]} ({number})"
    except KeyError:
        return number


def _status(look: Look, entry: Entry) -> os.stat_result:
    return os.lstat(look.host.local(entry.real))


def _nodes(look: Look, entry: Entry) -> list[Entry]:
    """The node itself, or those in the folder."""
    if not entry.is_folder:
        return [entry] if entry.is_node else []
    inside = (look.entry(os.path.join(entry.real, name)) for name in look.names(entry.real))
    return sorted((one for one in inside if one.is_node), key=lambda one: one.real)


def _owners(look: Look, config: Config, nodes: Sequence[Entry]) -> Iterator[str]:
    """Which resource has it, by the nodes that its devices hand out."""
    wanted = {node.real for node in nodes}
    found = False
    for name, discovered in discover(look, config).items():
        for candidate in discovered.candidates:
            if not wanted.isdisjoint(_handed(look, candidate.device)):
                found = True
                id_, problem = candidate.device.id, candidate.problem
                yield (
                    f"{name} would have it, as the device {id_}, but {problem}."
                    if problem
                    else f"{name} has it, as the device {id_}."
                )
    if not found:
        yield "No resource has it."


def _handed(look: Look, device: Device) -> Iterator[str]:
    for node in device.nodes:
        with suppress(Unusable):
            yield look.entry(node.host_path).real


def _needs(look: Look, nodes: Sequence[Entry]) -> Iterator[str]:
    """What a container that does not run as root needs, to read and write."""
    statuses = {shown(node.real): _status(look, node) for node in nodes}
    needs = [_need(path, status) for path, status in statuses.items()]
    if not all(_is_open(status) for status in statuses.values()):
        needs.append(_OWNERSHIP)
    for need in needs:
        yield ""
        yield textwrap.fill(need, WIDTH, break_long_words=False, break_on_hyphens=False)


def _is_open(status: os.stat_result) -> bool:
    return status.st_mode & 0o006 == 0o006  # noqa: PLR2004


def _need(path: str, status: os.stat_result) -> str:
    if _is_open(status):
        return f"{path}: every user may read and write it, also a container that is not root."
    if status.st_mode & 0o060 == 0o060:  # noqa: PLR2004
        return (
            f"{path}: a container that is not root needs its group:"
            f" securityContext: {{supplementalGroups: [{status.st_gid}]}}."
        )
    return (
        f"{path}: its mode lets no group read and write it: let a udev rule change that, or the"
        f" container run as its owner: securityContext: {{runAsUser: {status.st_uid}}}."
    )


def _resource(look: Look, config: Config, name: str) -> Iterator[str]:
    [resource] = [one for one in config.resources if one.name == name]
    discovered = discover(look, config)[name]
    yield _summary(name, discovered)
    if discovered.candidates:
        yield ""
        yield table(
            [
                ("DEVICE", "REPLICAS", "OFFERED", "NODES"),
                *(_row(candidate) for candidate in discovered.candidates[:_MOST]),
            ],
            wrap=True,
        )
        yield from _more(discovered.candidates)
    for index, (selector, found) in enumerate(
        zip(resource.devices, discovered.selectors, strict=True), 1
    ):
        count = len(found.candidates)
        yield ""
        yield f"{index}. {title(selector)}: {count} device{'s' if count != 1 else ''}"
        if not count and not found.lost:
            yield f"   {found.note}"
        listed = {candidate.device.id for candidate in found.candidates}
        lost = [one for one in found.lost if one.what not in listed]
        yield from (f"   {one.what}: {one.reason}" for one in lost[:_MOST])
        yield from _more(lost)


def _summary(name: str, discovered: Discovered) -> str:
    found = len(discovered.candidates)
    offered = sum(not candidate.problem for candidate in discovered.candidates)
    return f"{name}: {found} device{'s' if found != 1 else ''} found, {offered} offered"


def _row(candidate: Candidate) -> tuple[str, ...]:
    device, problem = candidate.device, candidate.problem
    nodes = ", ".join(shown(node.host_path) for node in device.nodes) or "-"
    offered = f"no, {problem}" if problem else "yes"
    return device.id, str(device.replicas), offered, nodes


def _more(items: Sized) -> Iterator[str]:
    if len(items) > _MOST:
        yield f"   and {len(items) - _MOST} more"
