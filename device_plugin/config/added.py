"""Kinds that other packages add: found by their entry points, and checked before anybody uses one.

Only a selector with a key that is none of ours leads here: a node without such packages does not
pay for looking.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct, inspect

from device_plugin.attribute import Attribute, Quantity, Version
from device_plugin.config import names
from device_plugin.config.problem import show
from device_plugin.config.types import KINDS, LATER, Selector
from device_plugin.sdk import GROUP, Kind

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
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
_READ = (
    "str, int, bool, float (a duration), Literal, tuple[X, ...], dict[str, X], msgspec.Struct,"
    " and None where it is the default"
)
_PLAIN = (inspect.StrType, inspect.IntType, inspect.FloatType, inspect.BoolType)


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


def kind_names() -> list[str]:
    """The keys that packages add to selectors."""
    return [name for name in _entry_points() if name not in _taken()]


@cache
def load(name: str) -> tuple[Kind[Any], str]:
    """An added kind, and the package that adds it. Raises Unfit."""
    points = _entry_points()[name]
    package = _package(points[0])
    if len(points) > 1:
        others = " and ".join(_package(point) for point in points[1:])
        raise Unfit(f"the kind `{name}` comes with {package} and {others}; uninstall one of them")
    try:
        kind = points[0].load()
    except Exception as error:
        reason = f"{type(error).__name__}: {show(str(error))}"
        raise Unfit(f"the kind `{name}` of {package} cannot be loaded: {reason}") from error
    if why := next(_mistakes(name, kind), None):
        raise Unfit(f"the kind `{name}` of {package} cannot be used: {why}; tell its makers")
    return kind, package


def every() -> tuple[dict[str, Kind[Any]], list[str]]:
    """All kinds that can be used, by name, and why the others cannot."""
    kinds, problems = {}, []
    for name in kind_names():
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
    from importlib.metadata import entry_points  # noqa: PLC0415 - takes 30 ms

    found: dict[str, list[EntryPoint]] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        found.setdefault(point.name, []).append(point)
    return found


@cache
def _taken() -> frozenset[str]:
    """The keys that selectors have anyway: an added kind does not replace one."""
    fields = inspect.type_info(Selector)
    assert isinstance(fields, inspect.StructType)  # noqa: S101 - for the type checker
    return LATER[Selector].union(KINDS, (field.encode_name for field in fields.fields))


def _package(point: "EntryPoint") -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value


def _mistakes(name: str, kind: object) -> Iterator[str]:
    if not _NAME.fullmatch(name):
        yield "a kind's name is made of a-z, 0-9 and `_`, and begins with a letter"
    if not isinstance(kind, Kind):
        yield f"its entry point leads to a {type(kind).__name__}, not to a device_plugin.sdk.Kind"
        return
    if not (isinstance(kind.settings, type) and issubclass(kind.settings, Struct)):
        yield "its settings are no class that is derived from msgspec.Struct"
        return
    yield from _unreadable(inspect.type_info(kind.settings), "settings", ())
    for attribute, due in kind.attributes.items():
        if message := names.attribute(attribute):
            yield message
        if due not in _SAMPLES:
            yield f"its attribute `{attribute}` must be one of str, int, bool, Version, Quantity"


def _unreadable(due: inspect.Type, label: str, above: tuple[type, ...]) -> Iterator[str]:
    """Types that no YAML is read as."""
    if isinstance(due, inspect.StructType):
        if due.cls in above:
            return
        above = (*above, due.cls)
    parts = _parts(due, label)
    if parts is None:
        yield f"no YAML is read as the type of `{label}`; take {_READ}"
    for part, name in parts or ():
        yield from _unreadable(part, name, above)


def _parts(due: inspect.Type, label: str) -> list[tuple[inspect.Type, str]] | None:
    """The types that a value is made of, and how each is called; None: we cannot read it."""
    match due:
        case inspect.StructType(fields=fields):
            return [(field.type, f"{label}.{field.name}") for field in fields]
        case inspect.UnionType(types=kinds):
            return [(one, label) for one in kinds if not isinstance(one, inspect.NoneType)]
        case inspect.VarTupleType(item_type=inner):
            return [(inner, f"{label}[]")]
        case inspect.DictType(key_type=inspect.StrType(), value_type=inner):
            return [(inner, f"{label}.NAME")]
        case inspect.Metadata(type=inner):
            return [(inner, label)]
    return [] if _is_scalar(due) else None


def _is_scalar(due: inspect.Type) -> bool:
    if isinstance(due, inspect.LiteralType):
        return all(isinstance(value, str | int) for value in due.values)
    return isinstance(due, _PLAIN)
