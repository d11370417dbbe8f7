"""The config's types as they describe themselves: for the JSON Schema and the reference only.

A class says what it is in its docstring, a key in the string below its field.
"""

import ast
import inspect as source
from collections.abc import Iterator
from functools import cache
from textwrap import dedent
from typing import NamedTuple

from msgspec import NODEFAULT, inspect

from device_plugin.config import types


class Key(NamedTuple):
    """A key of a mapping in the file."""

    name: str
    kind: inspect.Type
    default: object  # NODEFAULT: it is required
    text: str

    @property
    def required(self) -> bool:
        return self.default is NODEFAULT


class Described(NamedTuple):
    """A mapping of the file."""

    cls: type
    text: str
    keys: tuple[Key, ...]


def describe(kind: inspect.StructType) -> Described:
    """Tell all that is known of a mapping."""
    texts = _texts(kind.cls)
    keys = [Key(f.encode_name, f.type, _default(f), texts.get(f.name, "")) for f in kind.fields]
    return Described(kind.cls, texts.get("", ""), tuple(keys))


def config() -> inspect.StructType:
    """The type of a file."""
    kind = inspect.type_info(types.Config)
    assert isinstance(kind, inspect.StructType)  # noqa: S101 - for the type checker
    return kind


def structs(kind: inspect.Type) -> Iterator[inspect.StructType]:
    """The mappings that a value may be, or hold directly."""
    match kind:
        case inspect.StructType():
            yield kind
        case inspect.UnionType(types=kinds):
            for one in kinds:
                yield from structs(one)
        case inspect.VarTupleType(item_type=item) | inspect.DictType(value_type=item):
            yield from structs(item)


def alternatives(kind: inspect.Type) -> list[inspect.Type]:
    """The types that a value may have; nothing may be null."""
    match kind:
        case inspect.Metadata(type=inner):  # a description, of an added kind
            return alternatives(inner)
        case inspect.UnionType(types=kinds):
            some = [one for one in kinds if not isinstance(one, inspect.NoneType)]
            return [inner for one in some for inner in alternatives(one)]
    return [kind]


def _default(field: inspect.Field) -> object:
    if field.default_factory is not NODEFAULT:
        return field.default_factory()
    return field.default


@cache
def _texts(cls: type) -> dict[str, str]:
    """What stands below each field; under "" what stands below the class."""
    try:
        tree = ast.parse(dedent(source.getsource(cls)))
    except (OSError, SyntaxError):  # an added kind, made by a program
        return {"": _prose(cls.__doc__ or "")}
    return {
        key: text
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        for key, text in (("", _prose(ast.get_docstring(node) or "")), *_fields(node))
    }


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, below in zip(node.body, node.body[1:], strict=False):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, _prose(text)


def _prose(text: str) -> str:
    return " ".join(text.split())
