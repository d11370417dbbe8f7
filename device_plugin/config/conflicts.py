"""Rules between devices, and between resources: what must not meet in one container."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from device_plugin.config.decode import known
from device_plugin.config.nodes import Handed, Selected
from device_plugin.config.problem import Report, Where, show
from device_plugin.config.types import Resource
from device_plugin.template import Template, TemplateError

_REMEDY = "needs per_container: {max: 1}, or {index} in it"


class Examined(NamedTuple):
    """A resource and what its parts came to."""

    where: Where
    resource: Resource
    selected: Sequence[Selected]
    mounts: Sequence[Handed]

    def title(self, report: Report, seen_from: Where) -> str:
        name = self.resource.name
        return name if known(name) else f"the resource in {report.line(self.where, seen_from)}"


def within(one: Examined, report: Report) -> None:
    """Devices of one resource: a node is one device's, and a path of a container one node's."""
    taken: dict[str, Where] = {}
    for node in _primary(one):
        literal = _literal(node.host)
        if literal is None:
            continue
        if literal in taken:
            message = f"`{show(literal)}` is the device in {report.line(taken[literal])}"
            report.at(node.where, f"{message} already")
        taken.setdefault(literal, node.where)
    if one.resource.api == "dra":  # most claims want one device; who prepares them refuses the rest
        return
    limit = one.resource.per_container
    if not known(limit) or not known(limit.max) or limit.max == 1:
        return
    _nodes_meet(one, report)
    _mounts_meet(one, report)


def _nodes_meet(one: Examined, report: Report) -> None:
    """Report constant paths where nodes of several devices would be."""
    taken: dict[str, tuple[int, Handed]] = {}
    for index, selected in enumerate(one.selected):
        for node in selected.nodes:
            path = _literal(node.path)
            if path is None:
                continue
            if selected.several and _literal(node.host) is None:
                message = f"several devices of one container would get `{show(path)}`; {_REMEDY}"
                report.at(node.where, message)
                continue
            before, other = taken.setdefault(path, (index, node))
            if before != index and (node.host is None or other.host != node.host):
                line = report.line(other.where)
                message = f"a container with both would find the node in {line} here too"
                report.at(node.where, f"{message}; {_REMEDY}")


def _mounts_meet(one: Examined, report: Report) -> None:
    several = len(one.selected) > 1 or any(selected.several for selected in one.selected)
    replicated = any(selected.replicated for selected in one.selected)
    for mount in one.mounts:
        path = _literal(mount.path)
        if path is None or mount.host is None or mount.host.constant:
            continue
        if several or (replicated and "id" in mount.host.fields):
            message = f"several devices of one container would mount at `{show(path)}`"
            report.at(mount.where, f"{message}; {_REMEDY}")


def between(every: Sequence[Examined], report: Report) -> None:
    """Resources: a container may ask for any of them together."""
    _names(every, report)
    taken: dict[str, tuple[Examined, Where]] = {}
    for one in every:
        for node in _primary(one):
            literal = _literal(node.host)
            if literal is None:
                continue
            owner, where = taken.setdefault(literal, (one, node.where))
            if owner is not one:
                of, line = owner.title(report, node.where), report.line(where, node.where)
                message = f"`{show(literal)}` is a device of {of} already ({line})"
                report.between(node.where, message)
    _settings(every, report)


def _names(every: Sequence[Examined], report: Report) -> None:
    taken: dict[str, tuple[str, Where]] = {}
    for one in every:
        name, place = one.resource.name, (*one.where, "name")
        if not known(name):
            continue
        first, where = taken.setdefault(name.lower(), (name, place))
        if where == place:
            continue
        line = report.line(where, place)
        message = f"the name `{show(name)}` is taken by the resource in {line}"
        if first != name:
            message = f"`{show(name)}` and `{show(first)}` ({line}) differ only in case; rename one"
        report.between(place, message)


def _settings(every: Sequence[Examined], report: Report) -> None:
    seen: dict[tuple[str, str], tuple[Examined, _Setting]] = {}
    for one in every:
        for setting in _set_by(one):
            owner, first = seen.setdefault((setting.kind, setting.name), (one, setting))
            if owner is one or (first.value == setting.value and setting.value is not None):
                continue
            here = setting.where
            message = (
                f"{setting.kind} `{show(setting.name)}` comes from {one.title(report, here)} and,"
                f" differently, from {owner.title(report, here)}"
                f" ({report.line(first.where, here)}):"
                " a container with both would get either; change one"
            )
            report.between(here, message, key=setting.key)


class _Setting(NamedTuple):
    """What a container is told under a fixed name; its value is None if it varies by device."""

    kind: str
    name: str
    value: str | None
    where: Where
    key: bool  # is the name a key of the file?


def _set_by(one: Examined) -> Iterator[_Setting]:
    container = one.resource.container
    where = (*one.where, "container")
    if known(container):
        for kind in ("env", "annotations"):
            entries = getattr(container, kind)
            for key, value in entries.items() if known(entries) else ():
                if (name := _constant(key)) is not None:
                    label = kind.removesuffix("s")
                    yield _Setting(label, name, _constant(value), (*where, kind, key), key=True)
    for label, handed in _handed(one):
        if (name := _literal(handed.path)) is not None:
            yield _Setting(label, name, _literal(handed.host), handed.where, key=False)


def _handed(one: Examined) -> Iterator[tuple[str, Handed]]:
    for selected in one.selected:
        for node in selected.nodes:
            yield "the node", node
    for mount in one.mounts:
        yield "the mount", mount


def _primary(one: Examined) -> Iterator[Handed]:
    for selected in one.selected:
        yield from selected.nodes[:1]


def _literal(template: Template | None) -> str | None:
    return template.render({}) if template is not None and template.constant else None


def _constant(text: str) -> str | None:
    try:
        return _literal(Template.parse(text)) if known(text) else None
    except TemplateError:
        return None
