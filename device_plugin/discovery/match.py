"""Is a piece of hardware what a selector asks for; and what it says about itself, made harmless."""

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import msgspec

from device_plugin.attribute import Attribute
from device_plugin.config import AddedSelector, Selector
from device_plugin.config.scalars import duration
from device_plugin.device import Candidate, Found, Lost
from device_plugin.discovery import sysfs
from device_plugin.discovery.where import mismatch, said
from device_plugin.host import Unusable

_LONGEST = 64  # characters of a text that hardware says: DRA takes no longer ones
_IN_WORDS = "#+-.:=@_"  # besides letters and digits: what udev leaves in the names of its links
_IN_NAMES = f"{_IN_WORDS} (),&"


class Match(NamedTuple):
    """A device that is what a selector asks for, but for its `where`."""

    id: str
    attributes: Mapping[str, Attribute]
    candidate: Callable[[], Candidate]


def sift(matches: Iterable[Match | Lost], selector: Selector) -> Found:
    """Take those that are what `where` requires, in their order."""
    candidates: dict[str, Candidate] = {}
    lost, odd = [], []
    for match in matches:
        if isinstance(match, Lost):
            lost.append(match)
            continue
        why = mismatch(selector.where, match.attributes)
        if why is None:
            try:
                candidates[match.id] = match.candidate()
            except Unusable as problem:
                lost.append(Lost(match.id, str(problem)))
            continue
        lost.append(Lost(match.id, why.reason))
        if why.odd:
            odd.append(f"{match.id}: {why.reason}")
    notes = [odd[0] + (f" and {len(odd) - 1} more" if len(odd) > 1 else "")] if odd else []
    if not candidates and not lost:
        notes.append(f"{title(selector)} matches nothing")
    elif not candidates:
        notes.append(f"{title(selector)}: nothing that matches can be taken: {lost[0].reason}")
    return Found(tuple(candidates.values()), "; ".join(notes), tuple(lost))


def title(selector: Selector) -> str:
    """Name a selector as the file does."""
    for kind in ("usb", "pci", "vfio"):
        wanted = getattr(selector, kind)
        if wanted is not None:
            return _written(kind, asked(wanted))
    if isinstance(selector, AddedSelector):
        chosen = selector.added[0]
        return _written(chosen.name, asked(chosen.settings))
    if selector.gpu is not None:
        return f"gpu: {{vendor: {selector.gpu.vendor}}}"
    if selector.exec is not None:
        return f"exec: {' '.join(selector.exec.command)}"
    return ""


def _written(kind: str, keys: Mapping[str, object]) -> str:
    return f"{kind}: {_value(dict(keys))}"


def _value(value: object) -> str:
    """Write a value as the file has it."""
    match value:
        case dict():
            return f"{{{', '.join(f'{key}: {_value(one)}' for key, one in value.items())}}}"
        case tuple():
            return f"[{', '.join(map(_value, value))}]"
        case msgspec.Struct():
            return _value(asked(value))
        case float():
            return duration(value)
        case bool():
            return str(value).lower()
    return said(str(value))


def asked(wanted: msgspec.Struct) -> dict[str, Any]:
    """What a selector says, by key; what is as if it were left out is left out."""
    values = ((field, getattr(wanted, field.name)) for field in msgspec.structs.fields(wanted))
    return {field.encode_name: value for field, value in values if value != _default(field)}


def _default(field: msgspec.structs.FieldInfo) -> object:
    factory = field.default_factory
    return factory() if callable(factory) else field.default


def differs(asked: Mapping[str, str], value: Callable[[str], str]) -> str:
    """Say in what a device is not what is asked for, by the first key; empty if in nothing.

    `value` says what the device is, by key; only what decides is asked.
    """
    for key, pattern in asked.items():
        found = value(key)
        if _is(key, found, pattern):
            continue
        if not found:
            return f"it has no {key}, and must match {said(pattern)}"
        return f"{key} is {said(found)}, and must match {said(pattern)}"
    return ""


def _is(key: str, found: str, pattern: str) -> bool:
    if key != "class":
        return found == pattern or (bool(found) and fnmatchcase(found, pattern))
    whole = pattern if "*" in pattern else f"{pattern}*"  # 03 means 0300 and 030200 as well
    return any(fnmatchcase(one, whole) for one in found.split(",") if one)


def said_by(device: sysfs.Device, attributes: dict[str, Attribute]) -> dict[str, Attribute]:
    """Add where a device hangs, and leave out what it does not say."""
    numa = sysfs.numa_nodes(device)
    where: dict[str, Attribute] = {"pcie_root": sysfs.pcie_root(device)}
    if len(numa) == 1:
        where["numa"] = numa[0]
    return {name: value for name, value in (attributes | where).items() if value != ""}


def word(text: str) -> str:
    """Make what hardware says fit for env, paths and IDs, as udev does for its links."""
    return _clean(text, lambda char: char.isascii() and char.isalnum(), _IN_WORDS)


def words(text: str) -> str:
    """Make a name that hardware gives itself fit to be shown."""
    return _clean(text, str.isalnum, _IN_NAMES)


def _clean(text: str, keep: Callable[[str], bool], marks: str) -> str:
    """Cut it; what is only marks says nothing, least of all two dots."""
    text = "".join(char if keep(char) or char in marks else "_" for char in text[:_LONGEST])
    return text if any(map(str.isalnum, text)) else ""
