"""Why a path is, or is not, a device of a resource: what each selector makes of it."""

from collections.abc import Iterator
from functools import cached_property

import msgspec

from device_plugin.config import AddedSelector, Config, Resource, Selector
from device_plugin.device import Candidate, Found
from device_plugin.discovery import discover, match
from device_plugin.discovery.owner import Hardware, described, owner, why_not
from device_plugin.discovery.path import device_of
from device_plugin.host import Look, Unusable, shown
from device_plugin.pattern import PathPattern


class Verdict(msgspec.Struct, frozen=True):
    """What one selector says of the path; `text` says it in a sentence."""

    resource: str
    selector: int  # its index in the resource's `devices`
    kind: str
    text: str
    device: str = ""  # the ID of the device that the path belongs to, or would
    problem: str = ""  # why that device is not offered

    @property
    def matches(self) -> bool:
        """Whether the path belongs to a device that is offered."""
        return bool(self.device) and not self.problem


def explain(look: Look, config: Config, path: str) -> list[Verdict]:
    """Ask every selector of every resource for an absolute path of the host, in file order."""
    everything = discover(look, config)
    asked = _Asked(look, path)
    return [
        asked.verdict(resource, index, found)
        for resource in config.resources
        for index, found in enumerate(everything[resource.name].selectors)
    ]


def title(selector: Selector) -> str:
    """Name a selector as the file does."""
    if selector.virtual is not None:
        return f"virtual: {selector.virtual.count}"
    return match.title(selector) or f"path: {selector.path}"


class _Asked:
    """A path, and how it stands to what the selectors found."""

    def __init__(self, look: Look, path: str) -> None:
        self._look = look
        self._path = "/" + "/".join(name for name in path.split("/") if name not in ("", "."))
        self._shown = shown(self._path)
        self._real = self._end(self._path)

    def verdict(self, resource: Resource, index: int, found: Found) -> Verdict:
        selector = resource.devices[index]
        kind = selector.kinds[0]
        if kind == "virtual":
            return Verdict(resource.name, index, kind, "virtual devices have no nodes")
        if selector.path is not None:
            text, candidate = self._said(PathPattern.parse(selector.path), found)
        else:
            text, candidate = self._found_by_kind(selector, found)
        if candidate is None:
            return Verdict(resource.name, index, kind, text)
        problem = candidate.problem
        text = f"{text}, but {problem}" if problem else text
        return Verdict(resource.name, index, kind, text, candidate.device.id, problem)

    def _said(self, pattern: PathPattern, found: Found) -> tuple[str, Candidate | None]:
        """By its own name, else by where it leads, else as a companion, else not at all."""
        differs = difference(pattern, self._path)
        for candidate, name in self._owners(found, "" if differs else device_of(self._path)):
            return self._is(candidate, name), candidate
        for lost in found.lost:
            if lost.what == self._shown or (not differs and lost.what == device_of(self._path)):
                return f"{self._shown} matches, but {lost.reason}", None
            if self._real and self._end(lost.what) == self._real:
                return f"{self._shown} matches as {lost.what}, but {lost.reason}", None
        if companion := self._comes_with(found):
            return companion
        why = found.note if self._real else "it does not exist"
        return differs or f"{self._shown} matches, but {why}", None

    def _found_by_kind(self, selector: Selector, found: Found) -> tuple[str, Candidate | None]:
        """What a selector says that asks for hardware rather than for a path."""
        for candidate, name in self._owners(found, ""):
            return self._is(candidate, name), candidate
        if companion := self._comes_with(found):
            return companion
        if not self._real:
            return "it does not exist", None
        if selector.exec is not None or isinstance(selector, AddedSelector):
            whose = "the program lists" if selector.exec is not None else "the kind finds"
            return f"{self._shown} belongs to nothing that {whose}", None
        if self._hardware is None:
            kind = "USB device" if selector.usb is not None else "PCI function"
            return f"{self._shown} belongs to no {kind}", None
        belongs = f"{self._shown} belongs to {described(self._hardware)}"
        return f"{belongs}, but {why_not(self._look, self._hardware, selector, found)}", None

    @cached_property
    def _hardware(self) -> Hardware | None:
        return owner(self._look, self._path)

    def _is(self, candidate: Candidate, name: str) -> str:
        verb = "would be" if candidate.problem else "is"
        link = f", as {name}" if name not in ("", self._path) else ""
        return f"{self._shown} {verb} the device {candidate.device.id}{link}"

    def _comes_with(self, found: Found) -> tuple[str, Candidate] | None:
        companions = [c for c in found.candidates if self._name_in(c)]
        if not companions:
            return None
        first, *others = companions
        more = f" and {len(others)} more" if others else ""
        verb = "would come" if first.problem else "comes"
        return f"{self._shown} {verb} with the device {first.device.id}{more}", first

    def _owners(self, found: Found, device: str) -> Iterator[tuple[Candidate, str]]:
        for candidate in found.candidates:
            if candidate.device.id == device:
                yield candidate, ""
        for candidate in found.candidates:
            if self._real in candidate.owned:
                yield candidate, self._name_in(candidate)

    def _name_in(self, candidate: Candidate) -> str:
        """The name under which a device has the node; empty if it has not."""
        names = [node.host_path for node in candidate.device.nodes]
        if self._path in names:
            return self._path
        return next((name for name in names if self._real and self._end(name) == self._real), "")

    def _end(self, path: str) -> str:
        try:
            return self._look.entry(path).real if path.startswith("/") else ""
        except Unusable:
            return ""


def difference(pattern: PathPattern, path: str) -> str:
    """Say where a path leaves a pattern; empty if it matches."""
    names = path.strip("/").split("/")
    sources = pattern.text.strip("/").split("/")
    text = f"`{pattern.text}`"
    captures: dict[str, str] = {}
    for source, part, name in zip(sources, pattern.parts, names, strict=False):
        if isinstance(part, str):
            found = captures if part == name else None
        else:
            found = part.match(name, captures)
        if found is None:
            return f"{text} differs at `{source}`: the path has `{shown(name)}` there"
        captures = found
    if len(names) < len(sources):
        return f"{text} goes on with `{sources[len(names)]}` where the path ends"
    if len(names) > len(sources):
        return f"{text} ends where the path goes on with `{shown(names[len(sources)])}`"
    return ""
