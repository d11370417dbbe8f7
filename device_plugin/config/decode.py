"""YAML nodes -> the types of `types.py`, with every problem and its place."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import yaml
from msgspec import UNSET, inspect

from device_plugin.config.added import (
    AddedSelector,
    Broken,
    Chosen,
    Unfit,
    call,
    kind_names,
    load,
)
from device_plugin.config.compose import place_of
from device_plugin.config.problem import Report, Where, foreign, listed, near, show, there
from device_plugin.config.scalars import NOT_YET, SCALAR_TAGS, Wrong, named, quoted, scalar, string
from device_plugin.config.types import LATER, Config, Selector

_TAG = "tag:yaml.org,2002:"
_MERGE = "<<"
_TAGS = SCALAR_TAGS | {f"{_TAG}map", f"{_TAG}seq"}


def decode(root: yaml.Node, report: Report, file: int, due: type[Config]) -> Config | None:
    """Read as much as can be read: a value that was refused is UNSET in what comes out."""
    report.place((file,), place_of(root.start_mark))
    if not isinstance(root, yaml.MappingNode):
        what = "a list" if isinstance(root, yaml.SequenceNode) else "a single value"
        message = f"a config is a mapping with `version` and `resources`, not {what}"
        report.at((file,), message if root.value else "the file is empty")
        return None
    if kind := _kubernetes_kind(root):
        message = f"this is a Kubernetes object (`kind: {show(kind)}`)"
        report.at((file,), f"{message}; a config is what a ConfigMap holds in its `data`")
        return None
    config: Config | Any = _Decoder(report).value(root, _type(due), (file,))
    return config if known(config) else None


def _kubernetes_kind(root: yaml.MappingNode) -> str:
    match {key.value: value for key, value in root.value if isinstance(key, yaml.ScalarNode)}:
        case {"apiVersion": yaml.ScalarNode(), "kind": yaml.ScalarNode(value=str(kind))}:
            return kind
    return ""


def known(value: object) -> bool:
    """Tell whether a value of a decoded config was good."""
    return value is not UNSET


@cache
def _type(due: type[Config]) -> inspect.Type:
    return inspect.type_info(due)


class _Decoder:
    def __init__(self, report: Report) -> None:
        self._report = report

    def value(self, node: yaml.Node, kind: inspect.Type, where: Where) -> Any:  # noqa: ANN401
        try:
            return self._read(node, kind, where)
        except Wrong as wrong:
            self._report.add(where, place_of(node.start_mark), str(wrong))
            return UNSET

    def _read(self, node: yaml.Node, due: inspect.Type, where: Where) -> Any:  # noqa: ANN401
        if node.tag not in _TAGS:
            raise Wrong(f"the tag `{show(_shorthand(node.tag))}` is not taken; remove it")
        kind = _unwrap(due, node)
        match node, kind:
            case yaml.MappingNode(), inspect.StructType():
                return self._struct(node, kind, where)
            case yaml.MappingNode(), inspect.DictType():
                return self._dict(node, kind, where)
            case yaml.SequenceNode(), inspect.VarTupleType(item_type=item):
                return self._list(node, item, where)
            case yaml.ScalarNode(value=text), inspect.StructType(cls=cls) if (
                cls is Selector and text[:1] == "/"
            ):
                raise Wrong(f"a selector needs a kind; write `path: {show(text)}`")
            case yaml.ScalarNode(), _:
                return scalar(node, kind, _label(where))
        what = "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"
        raise Wrong(
            _quote(node) or f"{_label(where)} must be {named(due)}, not {what}{_form(kind)}"
        )

    def _struct(self, node: yaml.MappingNode, kind: inspect.StructType, where: Where) -> Any:  # noqa: ANN401
        fields = {field.encode_name: field for field in kind.fields}
        values: dict[str, Any] = {field.name: UNSET for field in kind.fields if field.required}
        unknown: list[str] = []
        added: list[Chosen] = []
        for key, key_node, item in self._pairs(node, where):
            if field := fields.get(key):
                values[field.name] = self.value(item, field.type, (*where, key))
            elif kind.cls is Selector and key in kind_names():
                added += self._added(key, item, (*where, key))
            else:
                unknown.append(key)
                message = _unknown(key, kind)
                self._report.add((*where, key), place_of(key_node.start_mark), message)
        self._missing(kind, unknown, where)
        if added:
            return AddedSelector(**values, added=tuple(added))
        return self._made(kind, values, where)

    def _missing(self, kind: inspect.StructType, unknown: list[str], where: Where) -> None:
        if self._report.inside((*where, _MERGE)):
            return
        for field in kind.fields:
            key = field.encode_name
            if field.required and not self._report.has((*where, key)) and not near(key, unknown):
                self._report.at(where, f"`{key}` is missing{_of(where)}")

    def _made(self, kind: inspect.StructType, values: dict[str, Any], where: Where) -> Any:  # noqa: ANN401
        if not hasattr(kind.cls, "__post_init__"):
            return kind.cls(**values)
        if self._report.inside(where):  # an added kind's: it counts on what is not there
            return UNSET
        try:
            return kind.cls(**values)
        except ValueError as error:
            text = show(str(error), 200) or "its kind refuses this without a word"
            raise Wrong(f"{_label(where)}: {text}") from error

    def _added(self, name: str, node: yaml.Node, where: Where) -> Iterator[Chosen]:
        """Read a selector of a kind that a package adds."""
        try:
            kind, package = load(name)
        except Unfit as why:
            self._report.at(where, str(why), key=True)
            return
        due = inspect.type_info(kind.settings)
        try:
            settings = call(lambda: self.value(node, due, where))
        except Broken as why:
            self._report.at(where, f"the kind `{name}` of {package} cannot read this: {why}")
            settings = UNSET
        yield Chosen(name, package, kind, settings)

    def _dict(self, node: yaml.MappingNode, kind: inspect.DictType, where: Where) -> Any:  # noqa: ANN401
        found: dict[str, Any] = {}
        for key, key_node, item in self._pairs(node, where):
            try:
                string(key_node, f"a key of {_label(where)}")
            except Wrong as wrong:
                self._report.add((*where, key), place_of(key_node.start_mark), str(wrong))
                continue
            found[key] = self.value(item, kind.value_type, (*where, key))
        return found

    def _list(self, node: yaml.SequenceNode, kind: inspect.Type, where: Where) -> Any:  # noqa: ANN401
        found = []
        for index, item in enumerate(node.value):
            self._report.place((*where, index), place_of(item.start_mark))
            found.append(self.value(item, kind, (*where, index)))
        return tuple(found)

    def _pairs(
        self, node: yaml.MappingNode, where: Where
    ) -> Iterator[tuple[str, yaml.ScalarNode, yaml.Node]]:
        """Walk a mapping's keys; refuse those that are no text, and those that come again."""
        for key, item in node.value:
            place = place_of(key.start_mark)
            if not isinstance(key, yaml.ScalarNode) or key.tag not in SCALAR_TAGS:
                self._report.add((*where, ""), place, _quote(key) or "a key must be a string")
            elif key.tag == f"{_TAG}merge":
                message = "merge keys (`<<`) are not taken; write the keys out"
                self._report.add((*where, _MERGE), place, message)
            elif self._report.has(inside := (*where, key.value)):
                line = self._report.line(inside)
                message = f"duplicate key `{show(key.value)}`; the first is in {line}"
                self._report.add(inside, place, message)
            else:
                self._report.place(inside, place_of(item.start_mark), place)
                yield key.value, key, item


def _unwrap(kind: inspect.Type, node: yaml.Node) -> inspect.Type:
    """Of several types, choose the one that the node looks like."""
    if isinstance(kind, inspect.Metadata):  # a description
        return _unwrap(kind.type, node)
    if not isinstance(kind, inspect.UnionType):
        return kind
    kinds = [_unwrap(one, node) for one in kind.types if not isinstance(one, inspect.NoneType)]
    for one in kinds:
        match node, one:
            case yaml.MappingNode(), inspect.StructType() if not _quote(node):
                return one
            case yaml.ScalarNode(tag=tag), inspect.IntType() if tag == f"{_TAG}int":
                return one
            case yaml.ScalarNode(tag=tag), inspect.BoolType() if tag == f"{_TAG}bool":
                return one
    return next((one for one in kinds if isinstance(one, inspect.StrType)), kinds[0])


def _form(kind: inspect.Type) -> str:
    """Say how a list or a mapping is written to whoever wrote the other."""
    match kind:
        case inspect.VarTupleType():
            return "; begin each item with `- `"
        case inspect.DictType():
            return "; write each as `name: value`"
    return ""


def _quote(node: yaml.Node) -> str | None:
    """Ask for quotes where there is a bare `{path}`: a mapping of `path` to nothing."""
    match node:
        case yaml.MappingNode(
            flow_style=True, value=[(yaml.ScalarNode(value=key), yaml.ScalarNode(value=""))]
        ):
            text = f"{{{show(key)}}}"
            return f"YAML reads {text} as a mapping; quote it: {quoted(text)}"
    return None


def _shorthand(tag: str) -> str:
    return f"!!{tag.removeprefix(_TAG)}" if tag.startswith(_TAG) else tag


def _label(where: Where) -> str:
    """Name a value for a message."""
    if len(where) == 1:
        return "the config"
    last = where[-1]
    return f"`{show(last)}`" if isinstance(last, str) else f"an item of {_label(where[:-1])}"


def _of(where: Where) -> str:
    return f" in {_label(where)}" if len(where) > 1 else ""


def _unknown(key: str, kind: inspect.StructType) -> str:
    shown = f"`{show(key)}`{foreign(key)}"
    if key in LATER.get(kind.cls, ()):
        return f"`{key}` {NOT_YET}"
    names = [field.encode_name for field in kind.fields]
    if kind.cls is Selector:
        names += kind_names()
    if above := [field.encode_name for field in kind.fields if key in _keys_below(field.type)]:
        return f"unknown key {shown}; it belongs under {listed(above)}"
    if meant := near(key, names):
        return f"unknown key {shown}; did you mean `{meant}`?"
    return f"unknown key {shown}; {there(names)}"


def _keys_below(kind: inspect.Type) -> frozenset[str]:
    match kind:
        case inspect.VarTupleType(item_type=item):
            return _keys_below(item)
        case inspect.StructType(fields=fields):
            return frozenset(field.encode_name for field in fields)
        case inspect.UnionType(types=kinds):
            return frozenset().union(*map(_keys_below, kinds))
    return frozenset()
