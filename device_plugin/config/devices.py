"""Rules of a selector: its kind, what fits it, and which nodes its devices hand over."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from device_plugin.config import names, requirements
from device_plugin.config.decode import known
from device_plugin.config.placeholders import Offer, Offers, shape, template
from device_plugin.config.problem import PLACEHOLDER, Report, Where, listed, show
from device_plugin.config.types import KINDS, Companion, Selector, Virtual
from device_plugin.config.virtual import attributes
from device_plugin.pattern import PathPattern, PatternError
from device_plugin.template import ATTRIBUTE, Template

_GLOB = frozenset("*?[")
_PLAIN = frozenset(("id", "index"))
_NODE = _PLAIN | {"host_path", "local_path"}
_WHOLE = ("/", "/dev", "/sys", "/proc")


class Handed(NamedTuple):
    """A node, or a mount, that a container gets with a device."""

    where: Where  # what says `path`
    host: Template | None  # None: a glob decides
    path: Template | None  # in the container; None: nobody knows yet


class Selected(NamedTuple):
    """What a selector without mistakes of its own comes to."""

    where: Where
    several: bool  # may there be more than one such device?
    replicated: bool
    offer: Offer
    nodes: tuple[Handed, ...] = ()  # the primary node first


def check(selector: Selector, where: Where, report: Report) -> Selected | None:
    """Report everything; None if the selector is so wrong that nothing follows from it."""
    kinds = [kind for kind in KINDS if getattr(selector, kind) is not None]
    if len(kinds) > 1:
        message = f"a selector has one kind, not both {listed(kinds, 'and')}; split it in two"
        report.at((*where, kinds[1]), message, key=True)
        return None
    if selector.virtual is not None:
        for option in KINDS["path"]:
            if report.has(inside := (*where, option)):
                message = f"`{option}` does not fit `virtual`: there is no node"
                report.at(inside, message, key=True)
        return _virtual(selector, selector.virtual, where, report)
    if selector.path is not None:
        return _path(selector, selector.path, where, report)
    if not report.inside(where):  # else the kind may well be what is misspelt
        report.at(where, f"a selector needs a kind: {listed([*KINDS])}")
    return None


def _virtual(selector: Selector, virtual: Virtual, where: Where, report: Report) -> Selected | None:
    there = attributes(virtual, (*where, "virtual"), report) if known(virtual) else None
    requirements.check(selector, where, report, there)
    if there is None:
        return None
    offer = Offer(where, _PLAIN.union(_attributes(there)))
    return Selected(where, virtual.count != 1, selector.replicas != 1, offer)


def _attributes(names: Iterable[str]) -> Iterator[str]:
    return (f"{ATTRIBUTE}.{name}" for name in names)


def _path(selector: Selector, text: str, where: Where, report: Report) -> Selected | None:
    pattern = _pattern(text, (*where, "path"), report) if known(text) else None
    _permissions(selector.permissions, (*where, "permissions"), report)
    captures = pattern.captures if pattern else ()
    # As an attribute a capture is text; as a number it compares where it is one.
    requirements.check(selector, where, report, dict.fromkeys(captures, "0") if pattern else None)
    offer = Offer(where, _NODE.union(captures, _attributes(captures))) if pattern else None
    host = pattern.template if pattern else None
    primary = Handed((*where, "path"), host, host)
    nodes = [_node(selector.to, primary, (*where, "to"), report, offer)]
    for place, companion in _companions(selector, where):
        host = _companion_path(companion.path, place, pattern, report)
        _permissions(companion.permissions, (*place, "permissions"), report)
        by = (*place, "path") if report.has((*place, "path")) else place
        node = _node(companion.to, Handed(by, host, host), (*place, "to"), report, offer)
        if host is not None:
            nodes.append(node)
    _once(nodes, report)
    if pattern is None or offer is None:
        return None
    offer = Offer(where, offer.names | {"path"})
    return Selected(where, pattern.literal is None, selector.replicas != 1, offer, tuple(nodes))


def _pattern(text: str, where: Where, report: Report) -> PathPattern | None:
    try:
        pattern = PathPattern.parse(text)
    except PatternError as error:
        report.at(where, str(error))
        return None
    if pattern.literal in _WHOLE:
        report.at(where, f"`{text}` is every node of the host; name one, or a folder below")
        return None
    return pattern


def _permissions(value: str, where: Where, report: Report) -> None:
    if known(value) and (message := names.permissions(value)):
        report.at(where, message)


def _companions(selector: Selector, where: Where) -> Iterator[tuple[Where, Companion]]:
    for index, item in enumerate(selector.with_ if known(selector.with_) else ()):
        if known(item):
            companion = Companion(item) if isinstance(item, str) else item
            yield (*where, "with", index), companion


def _companion_path(
    text: str, where: Where, primary: PathPattern | None, report: Report
) -> Template | None:
    if not known(text):
        return None
    if report.has(inside := (*where, "path")):
        where = inside
    if not _GLOB.isdisjoint(text):
        report.at(where, "`with` takes no globs; name each file, with captures of `path`")
        return None
    pattern = _pattern(text, where, report)
    if pattern is None or primary is None:
        return None
    for name in pattern.captures:
        if name not in primary.captures:
            report.at(where, _no_capture(name, primary.captures, report))
    return pattern.template


def _no_capture(name: str, captures: tuple[str, ...], report: Report) -> str:
    message = f"`{{{show(name)}}}` is not captured by `path`"
    if meant := report.near(name, captures):
        return f"{message}; did you mean `{{{meant}}}`?"
    there = listed(captures, "and", PLACEHOLDER) if captures else "nothing"
    return f"{message}, which captures {there}"


def _node(
    to: str | None, as_on_host: Handed, where: Where, report: Report, offer: Offer | None
) -> Handed:
    """Read `to`, which may move the node to another path."""
    if to is None:
        return as_on_host
    if not known(to):
        return as_on_host._replace(where=where, path=None)
    itself = {"path": "`{path}` is what `to` says; it cannot stand in it"}
    parsed = template(to, where, report, Offers([offer], itself) if offer else None)
    shape(parsed, names.path, where, report)
    return as_on_host._replace(where=where, path=parsed)


def _once(nodes: list[Handed], report: Report) -> None:
    """Two nodes of one device need two places in the container."""
    seen: dict[Template, Handed] = {}
    for node in nodes:
        if node.path is None:
            continue
        first = seen.setdefault(node.path, node)
        if first is node:
            continue
        line = report.line(first.where)
        message = f"the container finds the node in {line} at this path already"
        report.at(node.where, message)
