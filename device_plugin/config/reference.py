"""The table of all keys in docs/config.md, made from the types.

`python -m device_plugin.config.reference docs/config.md` writes it anew between its two marks.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import NODEFAULT, inspect

from device_plugin.config import scalars, types
from device_plugin.config.describe import Described, Key, alternatives, config, describe, structs
from device_plugin.config.problem import listed

COMMAND = "python -m device_plugin.config.reference docs/config.md"
_BEGIN = f"<!-- begin: made from the types by `{COMMAND}` -->"
_END = "<!-- end -->"


def updated(document: str) -> str:
    """Put the tables into a document, between the marks. ValueError without them."""
    head, _, rest = document.partition(_BEGIN)
    _, mark, tail = rest.partition(_END)
    if not mark:
        raise ValueError(f"the marks are missing: {_BEGIN} and {_END}")
    return f"{head}{_BEGIN}\n{reference()}{_END}{tail}"


def reference() -> str:
    """Every mapping of the file with its keys, in Markdown."""
    return "".join(
        f"\n### {title}\n\n{mapping.text}\n\n{_table(mapping)}\n"
        for title, mapping in _mappings(config(), "")
    )


def _mappings(kind: inspect.StructType, path: str) -> Iterator[tuple[str, Described]]:
    """Walk from the root; what is below a resource is named from there."""
    mapping = describe(kind)
    yield f"`{path}`" if path else "The file", mapping
    start = "" if path in ("", "resources[]") else f"{path}."
    for key in mapping.keys:
        for below in structs(key.kind):
            yield from _mappings(below, f"{start}{key.name}{_step(key.kind)}")


def _step(kind: inspect.Type) -> str:
    match alternatives(kind)[0]:
        case inspect.VarTupleType():
            return "[]"
        case inspect.DictType():
            return ".NAME"
    return ""


def _table(mapping: Described) -> str:
    lines = ["| key | value | default | meaning |", "|---|---|---|---|"]
    lines += [
        f"| `{key.name}` | {_type(key.kind)} | {_default(key)} | {_meaning(mapping, key)} |"
        for key in mapping.keys
    ]
    return "\n".join(lines)


def _meaning(mapping: Described, key: Key) -> str:
    only = [kind for kind, options in types.KINDS.items() if key.name in options]
    if mapping.cls is not types.Selector or not only:
        return key.text
    return f"{key.text} Only with {listed(only, 'and')}."


def _type(kind: inspect.Type) -> str:
    kinds = alternatives(kind)
    if len(kinds) > 1:
        return " or ".join(map(_type, kinds))
    match kinds[0]:
        case inspect.VarTupleType(item_type=item):
            return f"list of {_plural(item)}"
        case inspect.DictType(value_type=item):
            return f"{_type(item)}, by name"
        case inspect.StructType():
            return "mapping"
    return _scalar(kinds[0])


def _plural(kind: inspect.Type) -> str:
    names = {"text": "texts", "mapping": "mappings"}
    return " or ".join(names.get(_type(one), _type(one)) for one in alternatives(kind))


def _scalar(kind: inspect.Type) -> str:
    match kind:
        case inspect.IntType(ge=low, le=None):
            return "whole number" if low is None else f"whole number, from {low}"
        case inspect.IntType(ge=low, le=high):
            return f"whole number, {low} to {high}"
        case inspect.FloatType(ge=low, le=high):
            return f"duration, {scalars.duration(low or 0)} to {scalars.duration(high or 0)}"
        case inspect.LiteralType(values=values):
            return ", ".join(f"`{value}`" for value in values)
        case inspect.BoolType():
            return "`true` or `false`"
    return "text"


def _default(key: Key) -> str:
    match key.default:
        case bool(switch):
            return f"`{str(switch).lower()}`"
        case float(seconds):
            return f"`{scalars.duration(seconds)}`"
        case str() | int():
            return f"`{key.default}`"
    return "required" if key.default is NODEFAULT else ""


def main(path: Path) -> None:
    path.write_text(updated(path.read_text()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
