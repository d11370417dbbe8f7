"""`device-plugin explain`: why a path, a resource or a device is what it is on this node now.

A look without the daemon: what that knows besides (who holds a device, what was handed out, what is
disabled) is in `device-plugin status`.
"""

import grp
import os
import pwd
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import suppress

from device_plugin.allocation import Refused, inside
from device_plugin.config import Checked, Config, Resource, runtimes
from device_plugin.device import Candidate, Device, split_replica
from device_plugin.discovery import Discovered, discover
from device_plugin.discovery.explain import explain, title
from device_plugin.host import Entry, Host, Look, Unusable, shown
from device_plugin.table import fill, glued, table

_MOST = 20  # lines of one kind; whoever has more devices asks for one of them
_NAMED = 3  # paths in a sentence
_OWNERSHIP = (
    "None of that is needed where containerd or CRI-O has device_ownership_from_security_context ="
    " true in its config: there a container's device nodes belong to its runAsUser and runAsGroup."
)


class NothingToExplain(Exception):  # noqa: N818 - an answer for people
    """What was asked for is no path, and neither a resource nor a device that is known."""


def of(what: str, checked: Checked, host_root: str) -> str:
    """Explain a path of the host, a resource, or the ID of a device. Raises NothingToExplain."""
    config = checked.config
    assert config is not None  # noqa: S101 - whoever asks has looked
    look, by_name = Host(host_root).look(), host_root == "/"
    names = [resource.name for resource in config.resources]
    refused = sorted(checked.refused.difference(names))
    if what.startswith("/"):
        path = "/" + os.path.normpath(what).lstrip("/")
        return "\n".join(_path(look, config, path, refused, names=by_name))
    if what in names:
        return "\n".join(_resource(look, config, what))
    if what in refused:
        raise NothingToExplain(f"{what} is refused, for what is said above: mend that first")
    lines = list(_device(look, config, split_replica(what)[0], names=by_name))
    if not lines:
        raise NothingToExplain(
            f"{what} is no path (begin it with /), no device that is found now, and no resource of"
            f" the config, which has {', '.join(names)}"
        )
    return "\n".join(lines)


def _path(
    look: Look, config: Config, path: str, refused: Sequence[str], *, names: bool
) -> Iterator[str]:
    verdicts = explain(look, config, path)
    yield shown(path)
    nodes: list[Entry] = []
    is_folder = False
    try:
        entry = look.entry(path)
        is_folder = entry.is_folder
        nodes = _nodes(look, entry)
    except Unusable as why:
        yield f"  {why}"
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
    whole = {(verdict.resource, verdict.device) for verdict in verdicts}
    by_resource: dict[str, dict[str, Entry]] = {}
    insides: dict[str, str] = {}
    for resource, candidate, its in _having(look, config, nodes):
        insides |= _insides(look, candidate.device)
        by_resource.setdefault(resource, {}).update((node.real, node) for node in its)
        is_whole = not is_folder or (resource, candidate.device.id) in whole
        what = "it" if is_whole else _several([shown(node.path) for node in its])
        yield fill(f"{resource} {_has(candidate, what)}")
    if not by_resource:
        yield "No resource has it."
    if refused:
        yield fill(f"Not asked, because the config has a mistake in it: {', '.join(refused)}.")
    handed = {name: list(its.values()) for name, its in by_resource.items()}
    yield from _access(look, config, handed, insides)


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
    inside = _entries(look, (os.path.join(entry.path, name) for name in look.names(entry.path)))
    links_first = sorted(inside, key=lambda one: not one.by_link)  # of two names a link gives way
    nodes = {one.real: one for one in links_first if one.is_node}
    return [nodes[real] for real in sorted(nodes)]


def _entries(look: Look, paths: Iterator[str]) -> Iterator[Entry]:
    """What the paths lead to, without those that lead nowhere."""
    for path in paths:
        with suppress(Unusable):
            yield look.entry(path)


def _handed(look: Look, device: Device) -> Iterator[Entry]:
    return _entries(look, (node.host_path for node in device.nodes))


def _having(
    look: Look, config: Config, nodes: Sequence[Entry]
) -> Iterator[tuple[str, Candidate, list[Entry]]]:
    """Which devices of which resources hand out some of the nodes, and which."""
    for name, discovered in discover(look, config).items():
        for candidate in discovered.candidates:
            handed = {node.real for node in _handed(look, candidate.device)}
            its = [node for node in nodes if node.real in handed]
            if its:
                yield name, candidate, its


def _has(candidate: Candidate, what: str) -> str:
    device, problem = candidate.device.id, candidate.problem
    if problem:
        return f"would have {what}, as the device {device}, but {problem}."
    return f"has {what}, as the device {device}."


def _several(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return f"{', '.join(paths[:_NAMED])}{more}"


def _insides(look: Look, device: Device) -> dict[str, str]:
    """Where containers find the device's nodes, by their real paths."""
    found = {}
    with suppress(Refused):  # it lacks what `to` asks for
        for node, path in inside(device):
            with suppress(Unusable):
                found[look.entry(node.host_path).real] = path
    return found


def _access(
    look: Look,
    config: Config,
    handed: Mapping[str, Sequence[Entry]],
    insides: Mapping[str, str],
) -> Iterator[str]:
    """What containers can do with the device nodes that they are handed, by resource."""
    as_on_the_host: dict[str, Entry] = {}
    for resource in config.resources:
        nodes = handed.get(resource.name, ())
        yield from _unfit(resource, nodes, insides)
        if not nodes or not runtimes.sharing(resource.runtimes):
            continue
        if resource.container.cdi or resource.api == "dra":
            yield ""
            yield fill(
                f"{resource.name} goes by CDI names: in a container, {_several(_paths(nodes))}"
                " will belong to its user."
            )
        else:
            as_on_the_host |= {node.real: node for node in nodes}
    yield from _needs(look, list(as_on_the_host.values()))


def _paths(nodes: Iterable[Entry]) -> list[str]:
    return [shown(node.real) for node in nodes]


def _unfit(resource: Resource, nodes: Iterable[Entry], insides: Mapping[str, str]) -> Iterator[str]:
    """Which device nodes cannot be used under the runtimes that their resource names."""
    for runtime in dict.fromkeys(resource.runtimes):
        unfit: dict[str, list[str]] = {}
        for node in nodes:
            why = runtimes.refusal(
                runtime,
                node.real,
                block=stat.S_ISBLK(node.mode),
                inside=insides.get(node.real, ""),
                tpu=runtimes.takes_tpus(resource),
            )
            if why is not None:
                unfit.setdefault(why, []).append(shown(node.real))
        for why, paths in unfit.items():
            do = "does" if len(paths) == 1 else "do"
            yield ""
            yield fill(
                f"{_several(paths)} {do} not work with {runtime}, which {resource.name} names in"
                f" `runtimes`: {why}."
            )


def _needs(look: Look, nodes: Sequence[Entry]) -> Iterator[str]:
    """What a container that does not run as root needs, to read and write."""
    needs: dict[str, list[str]] = {}
    for node in nodes:
        needs.setdefault(_need(_status(look, node)), []).append(shown(node.real))
    for need, paths in needs.items():
        yield ""
        yield fill(f"{_several(paths)}: {need}")
    if needs.keys() - {_OPEN}:
        yield ""
        yield fill(_OWNERSHIP)


_OPEN = "every user may read and write it, also a container that is not root."


def _need(status: os.stat_result) -> str:
    if status.st_mode & 0o006 == 0o006:  # noqa: PLR2004
        return _OPEN
    if status.st_mode & 0o060 == 0o060:  # noqa: PLR2004
        groups = glued(f"securityContext: {{supplementalGroups: [{status.st_gid}]}}")
        return f"a container that is not root needs its group: {groups}."
    user = glued(f"securityContext: {{runAsUser: {status.st_uid}}}")
    return (
        "its mode lets no group read and write it: let a udev rule change that, or the container"
        f" run as its owner: {user}."
    )


def _device(look: Look, config: Config, id_: str, *, names: bool) -> Iterator[str]:
    """The device of that ID, its device nodes, and what a container needs to open them."""
    for resource, discovered in discover(look, config).items():
        for candidate in discovered.candidates:
            if candidate.device.id != id_:
                continue
            offered = f"not offered: {candidate.problem}" if candidate.problem else "offered"
            yield fill(f"{id_} is a device of {resource}, {offered}.")
            nodes = list(_handed(look, candidate.device))
            for node in nodes[:_MOST]:
                yield shown(node.path)
                yield from _facts(look, node, names=names)
            yield from _more(nodes)
            insides = _insides(look, candidate.device)
            yield from _access(look, config, {resource: nodes}, insides)


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
            yield fill(found.note, "   ")
        yield from (fill(f"{one.what}: {one.reason}", "   ") for one in found.lost[:_MOST])
        yield from _more(found.lost)
    nodes = {node.real: node for one in discovered.candidates for node in _handed(look, one.device)}
    insides: dict[str, str] = {}
    for one in discovered.candidates:
        insides |= _insides(look, one.device)
    yield from _unfit(resource, nodes.values(), insides)


def _summary(name: str, discovered: Discovered) -> str:
    found = len(discovered.candidates)
    offered = sum(not candidate.problem for candidate in discovered.candidates)
    return f"{name}: {found} device{'s' if found != 1 else ''} found, {offered} offered"


def _row(candidate: Candidate) -> tuple[str, ...]:
    device = candidate.device
    nodes = ", ".join(shown(node.host_path) for node in device.nodes) or "-"
    return device.id, str(device.replicas), "no" if candidate.problem else "yes", nodes


def _more(items: Sized) -> Iterator[str]:
    if len(items) > _MOST:
        yield f"   and {len(items) - _MOST} more"
