"""Rules of a selector: its kind, what fits it, and which nodes its devices hand over."""

from device_plugin.config import hardware, names, nodes, requirements
from device_plugin.config.added import AddedSelector, Chosen, kind_names, samples
from device_plugin.config.decode import known
from device_plugin.config.nodes import NODE, PLAIN, Handed, Selected
from device_plugin.config.placeholders import Offer
from device_plugin.config.problem import Report, Where, listed
from device_plugin.config.types import KINDS, Exec, Selector, Virtual
from device_plugin.config.virtual import attributes

_WITHOUT_NODES = {
    "virtual": "there is no node",
    "exec": "the program says which nodes there are",
}

_OPTIONS = tuple(dict.fromkeys(option for options in KINDS.values() for option in options))


def check(selector: Selector, where: Where, report: Report) -> Selected | None:
    """Report everything; None if the selector is so wrong that nothing follows from it."""
    kinds = selector.kinds
    if len(kinds) > 1:
        both = "both " if len(kinds) == 2 else ""  # noqa: PLR2004
        message = f"a selector has one kind, not {both}{listed(kinds, 'and')}; split it"
        report.at((*where, kinds[1]), f"{message} in two" if both else message, key=True)
        return None
    if not kinds:
        if not report.inside(where):  # else the kind may well be what is misspelt
            report.at(where, f"a selector needs a kind: {listed([*KINDS, *kind_names()])}")
        return None
    if isinstance(selector, AddedSelector):
        return _added(selector, selector.added[0], where, report)
    _options(kinds[0], where, report)
    return _by_kind(selector, kinds[0], where, report)


def _by_kind(selector: Selector, kind: str, where: Where, report: Report) -> Selected | None:
    if selector.path is not None:
        return _path(selector, selector.path, where, report)
    if selector.virtual is not None:
        return _virtual(selector, selector.virtual, where, report)
    if selector.exec is not None:
        return _exec(selector, selector.exec, where, report)
    return hardware.check(selector, kind, where, report)


def _added(
    selector: AddedSelector, chosen: Chosen, where: Where, report: Report
) -> Selected | None:
    for option in _OPTIONS:
        if report.has(inside := (*where, option)):
            why = f"the kind `{chosen.name}` says which nodes there are"
            report.at(inside, f"`{option}` does not fit `{chosen.name}`: {why}", key=True)
    there = samples(chosen.kind)
    requirements.check(selector, where, report, there)
    if not known(chosen.settings):
        return None
    offer = Offer(where, (NODE | {"path"}).union(nodes.attributes(there)))
    return Selected(where, several=True, replicated=selector.replicas != 1, offer=offer)


def _options(kind: str, where: Where, report: Report) -> None:
    for option in _OPTIONS:
        if option in KINDS[kind] or not report.has(inside := (*where, option)):
            continue
        instead = "; write it in an item of `nodes`" if "nodes" in KINDS[kind] else ""
        if option == "nodes" and kind == "path":
            instead = "; name further nodes in `with`"
        why = f": {_WITHOUT_NODES[kind]}" if kind in _WITHOUT_NODES else instead
        report.at(inside, f"`{option}` does not fit `{kind}`{why}", key=True)


def _virtual(selector: Selector, virtual: Virtual, where: Where, report: Report) -> Selected | None:
    there = attributes(virtual, (*where, "virtual"), report) if known(virtual) else None
    requirements.check(selector, where, report, there)
    if there is None:
        return None
    offer = Offer(where, PLAIN.union(nodes.attributes(there)))
    return Selected(where, virtual.count != 1, selector.replicas != 1, offer)


def _exec(selector: Selector, command: Exec, where: Where, report: Report) -> Selected:
    requirements.check(selector, where, report, None)
    if known(command) and known(command.command):
        place = (*where, "exec", "command")
        program = command.command[0] if command.command else None
        if program is None:
            report.at(place, "`command` is empty; name a program")
        elif known(program) and (message := names.host_path(program)):
            report.at((*place, 0), message)
    offer = Offer(where, NODE | {"path"}, others=True)
    return Selected(where, several=True, replicated=selector.replicas != 1, offer=offer)


def _path(selector: Selector, text: str, where: Where, report: Report) -> Selected | None:
    pattern = nodes.pattern(text, (*where, "path"), report) if known(text) else None
    nodes.permissions(selector.permissions, (*where, "permissions"), report)
    captures = pattern.captures if pattern else ()
    # As an attribute a capture is text; as a number it compares where it is one.
    requirements.check(selector, where, report, dict.fromkeys(captures, "0") if pattern else None)
    offer = Offer(where, NODE.union(captures, nodes.attributes(captures))) if pattern else None
    host = pattern.template if pattern else None
    primary = Handed((*where, "path"), host, host)
    handed = [nodes.moved(selector.to, primary, (*where, "to"), report, offer)]
    handed += nodes.companions(selector, captures if pattern else None, where, report, offer)
    nodes.once(handed, report)
    if pattern is None or offer is None:
        return None
    offer = offer._replace(names=offer.names | {"path"})
    return Selected(where, pattern.literal is None, selector.replicas != 1, offer, tuple(handed))
