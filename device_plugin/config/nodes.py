"""Rules of the nodes that a device hands over: where they are, where a container finds them."""

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from device_plugin.config import names
from device_plugin.config.decode import known
from device_plugin.config.placeholders import Offer, Offers, shape, template
from device_plugin.config.problem import PLACEHOLDER, Report, Where, listed, show
from device_plugin.config.types import Companion, Selector
from device_plugin.pattern import PathPattern, PatternError
from device_plugin.template import ATTRIBUTE, Template

PLAIN = frozenset(("id", "index"))
NODE = PLAIN | {"host_path", "local_path"}  # and `path`, which is not known before `to` is
_GLOB = frozenset("*?[")
_WHOLE = ("/", "/dev", "/sys", "/proc")


class Handed(NamedTuple):
    """A node, or a mount, that a container gets with a device."""

    where: Where  # what says `path`
    host: Template | None  # None: what is found decides
    path: Template | None  # in the container; None: nobody knows yet


class Selected(NamedTuple):
    """What a selector without mistakes of its own comes to."""

    where: Where
    several: bool  # may there be more than one such device?
    replicated: bool
    offer: Offer
    nodes: tuple[Handed, ...] = ()  # the primary node first


def attributes(names: Iterable[str]) -> Iterator[str]:
    """The placeholders of attributes."""
    return (f"{ATTRIBUTE}.{name}" for name in names)


def pattern(text: str, where: Where, report: Report) -> PathPattern | None:
    """Read a path of the host."""
    try:
        parsed = PathPattern.parse(text)
    except PatternError as error:
        report.at(where, str(error))
        return None
    if parsed.literal in _WHOLE:
        report.at(where, f"`{text}` is every node of the host; name one, or a folder below")
        return None
    return parsed


def permissions(value: str, where: Where, report: Report) -> None:
    if known(value) and (message := names.permissions(value)):
        report.at(where, message)


def companions(
    selector: Selector,
    captures: Collection[str] | None,
    where: Where,
    report: Report,
    offer: Offer | None,
) -> Iterator[Handed]:
    """Report everything in `with`; no captures: nobody knows which there are."""
    for index, item in enumerate(selector.with_ if known(selector.with_) else ()):
        if not known(item):
            continue
        companion = Companion(item) if isinstance(item, str) else item
        place: Where = (*where, "with", index)
        by_path = selector.path is not None
        host = _companion_path(companion.path, place, captures, report, by_path=by_path)
        permissions(companion.permissions, (*place, "permissions"), report)
        by = (*place, "path") if report.has((*place, "path")) else place
        node = moved(companion.to, Handed(by, host, host), (*place, "to"), report, offer)
        if host is not None:
            yield node


def _companion_path(
    text: str, where: Where, captures: Collection[str] | None, report: Report, *, by_path: bool
) -> Template | None:
    if not known(text):
        return None
    if report.has(inside := (*where, "path")):
        where = inside
    if not _GLOB.isdisjoint(text):
        how = ", with captures of `path`" if by_path else ""
        report.at(where, f"`with` takes no globs; name each file{how}")
        return None
    parsed = pattern(text, where, report)
    if parsed is None or captures is None:
        return None
    for name in parsed.captures:
        if not by_path:
            report.at(where, f"`{{{show(name)}}}` would be a capture, which only `path` has")
        elif name not in captures:
            report.at(where, _no_capture(name, captures, report))
    return parsed.template


def _no_capture(name: str, captures: Collection[str], report: Report) -> str:
    message = f"`{{{show(name)}}}` is not captured by `path`"
    if meant := report.near(name, captures):
        return f"{message}; did you mean `{{{meant}}}`?"
    there = listed([*captures], "and", PLACEHOLDER) if captures else "nothing"
    return f"{message}, which captures {there}"


def moved(
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


def once(nodes: Iterable[Handed], report: Report) -> None:
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
