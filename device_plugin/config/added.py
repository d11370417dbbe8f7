"""Kinds that other packages add: found by their entry points, and checked before anybody uses one.

Only a selector with a key that is none of ours leads here: a node without such packages does not
pay for looking. A package may do anything; whatever that is, it comes out of here as a sentence.
"""

import os
import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, inspect

import device_plugin
from device_plugin.attribute import Attribute, Quantity, Version
from device_plugin.config import names
from device_plugin.config.problem import show
from device_plugin.config.readable import unreadable
from device_plugin.config.types import KINDS, LATER, Selector
from device_plugin.sdk import GROUP, Kind

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_SHOWN = 200  # characters of an error
_ADDRESS = re.compile(r"0x[0-9a-f]+")  # differs each time: what is said twice must be the same
_OWN = os.path.dirname(device_plugin.__file__)
# A value of each type, to see what it can be compared with.
_SAMPLES: Mapping[type, Attribute] = {
    str: "text",
    int: 0,
    bool: False,
    Version: Version.parse("1.0.0"),
    Quantity: Quantity.parse("1"),
}
# What `Device.sysfs` adds.
OURS: Mapping[str, type[Attribute]] = {"pcie_root": str, "numa": int}

_Value = TypeVar("_Value")


class Chosen(Struct, frozen=True):
    """What a selector says of an added kind."""

    name: str
    package: str  # and its version
    kind: Kind[Any]
    settings: Any


class AddedSelector(Selector, frozen=True, forbid_unknown_fields=True):
    """A selector of an added kind; more than one is a mistake."""

    added: tuple[Chosen, ...] = ()

    @property
    def kinds(self) -> list[str]:
        return [*super().kinds, *(one.name for one in self.added)]


class Unfit(Exception):  # noqa: N818 - of the package, not of the program
    """Why a kind cannot be used, as a whole sentence."""


class Broken(Exception):  # noqa: N818 - the same
    """What a package's code did instead of what it was called for, and where."""


def call(function: Callable[[], _Value]) -> _Value:
    """Call a package's code. Raises Broken, whatever that raises: it must not end the process."""
    try:
        return function()
    except BaseException as error:
        raise Broken(_said(error)) from error


def _said(error: BaseException) -> str:
    kind = type(error).__name__
    try:
        text = _ADDRESS.sub("0x...", show(str(error), _SHOWN))
    except Exception:  # noqa: BLE001 - it is a package's as well
        text = ""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not frame.filename.startswith(_OWN)]
    place = (
        f" ({os.path.basename(theirs[-1].filename)}, line {theirs[-1].lineno})" if theirs else ""
    )
    return f"{kind}: {text}{place}" if text else f"{kind}{place}"


def kind_names() -> list[str]:
    """The keys that packages add to selectors."""
    return [name for name in _entry_points() if _NAME.fullmatch(name) and name not in _taken()]


@cache
def load(name: str) -> tuple[Kind[Any], str]:
    """An added kind, and the package that adds it. Raises Unfit."""
    points = _entry_points()[name]
    package = _package(points[0])
    if len(points) > 1:
        others = " and ".join(_package(point) for point in points[1:])
        raise Unfit(f"the kind `{name}` comes with {package} and with {others}; uninstall one")
    try:
        kind = call(points[0].load)
    except Broken as why:
        raise Unfit(f"the kind `{name}` of {package} cannot be loaded: {why}") from why
    try:
        why_not = call(lambda: next(_mistakes(kind), None))
    except Broken as why:
        why_not = str(why)
    if why_not:
        raise Unfit(f"the kind `{name}` of {package} cannot be used: {why_not}; tell its makers")
    return kind, package


def every() -> tuple[dict[str, Kind[Any]], list[str]]:
    """All kinds that can be used, by name, and why the others cannot."""
    kinds, problems = {}, []
    for name, points in _entry_points().items():
        if name not in kind_names():
            why = "that key is taken" if name in _taken() else "a kind's name is [a-z][a-z0-9_]*"
            problems.append(f"the kind `{show(name)}` of {_package(points[0])} is left out: {why}")
            continue
        try:
            kinds[name], _ = load(name)
        except Unfit as why:
            problems.append(str(why))
    return kinds, problems


def samples(kind: Kind[Any]) -> dict[str, Attribute]:
    """A value of each attribute that its devices may have."""
    return {name: _SAMPLES[due] for name, due in {**OURS, **kind.attributes}.items()}


@cache
def _entry_points() -> dict[str, list["EntryPoint"]]:
    from importlib.metadata import distributions  # noqa: PLC0415 - takes 30 ms

    found: dict[str, list[EntryPoint]] = {}
    seen: set[str] = set()
    for distribution in distributions():
        name, points = _points(distribution)
        if points and name not in seen:  # what comes first in the path is what is imported
            seen.add(name)
            for point in points:
                found.setdefault(point.name, []).append(point)
    return dict(sorted(found.items()))


def _points(distribution: "Distribution") -> tuple[str, list["EntryPoint"]]:
    """A package's name and kinds; none where its metadata cannot be read."""
    try:
        return distribution.name, list(distribution.entry_points.select(group=GROUP))
    except Exception:  # noqa: BLE001 - any package's: not ours to mend, nor to complain about
        return "", []


@cache
def _taken() -> frozenset[str]:
    """The keys that selectors have anyway: an added kind does not replace one."""
    fields = inspect.type_info(Selector)
    assert isinstance(fields, inspect.StructType)  # noqa: S101 - for the type checker
    return LATER[Selector].union(KINDS, (field.encode_name for field in fields.fields))


def _package(point: "EntryPoint") -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value


def _mistakes(kind: object) -> Iterator[str]:
    if not isinstance(kind, Kind):
        yield f"its entry point leads to a {type(kind).__name__}, not to a device_plugin.sdk.Kind"
        return
    if not callable(kind.find):
        yield "its `find` is no function"
    yield from _settings(kind.settings)
    if isinstance(kind.attributes, Mapping):
        yield from _attributes(kind.attributes)
    else:
        yield "its attributes are no dict of names and types"


def _settings(settings: object) -> Iterator[str]:
    if not (isinstance(settings, type) and issubclass(settings, Struct)):
        yield "its settings are no class that is derived from msgspec.Struct"
        return
    if not settings.__struct_config__.frozen:
        yield "its settings can be changed; derive them with frozen=True"
    yield from unreadable(settings)


def _attributes(attributes: Mapping[str, type[Attribute]]) -> Iterator[str]:
    for attribute, due in attributes.items():
        if message := names.attribute(attribute):
            yield message
        if attribute in OURS:
            yield f"its attribute `{attribute}` comes from `sysfs`; leave it out"
        if due not in _SAMPLES:
            yield f"its attribute `{attribute}` must be one of str, int, bool, Version, Quantity"
