"""YAML scalars -> strings, numbers, durations. Nothing is guessed: what YAML reads must be due."""

import json
import re
from typing import Any

from msgspec import inspect
from yaml import ScalarNode
from yaml.constructor import SafeConstructor

from device_plugin.config.problem import listed, near, show

STRING_LIMIT = 4096
_NUMBER_LIMIT = 100
NOT_YET = "is not supported by this version"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_DECIMAL = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
DURATION = re.compile(r"(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+", re.ASCII)
_PLAIN = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_PART = re.compile(r"([\d.]+)([^\d.]+)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_TAG = "tag:yaml.org,2002:"
SCALAR_TAGS = frozenset(
    _TAG + name for name in ("str", "int", "float", "bool", "null", "timestamp", "value", "merge")
)
_READINGS = {"null": "no value", "timestamp": "a date", "str": "a string"}
_NAMES = {
    inspect.StrType: "a string",
    inspect.IntType: "a whole number",
    inspect.BoolType: "true or false",
    inspect.FloatType: "a duration such as 500ms, 30s or 1m30s",
    inspect.VarTupleType: "a list",
}


class Wrong(ValueError):  # noqa: N818 -- of the file, not of the program
    """The value does not fit; the message says why."""


def scalar(node: ScalarNode, kind: inspect.Type, label: str) -> Any:  # noqa: ANN401 -- as `kind` says
    """Read a scalar as the type that is due, or raise Wrong; `label` names it in the message."""
    if node.tag == f"{_TAG}null" and not node.value:
        raise Wrong(f"{label} has no value; give it one, or remove it")
    match kind:
        case inspect.StrType():
            return _fitting(string(node, label), kind, label)
        case inspect.IntType(ge=low, le=high):
            return _within(_integer(node, label), low, high, label)
        case inspect.FloatType(ge=low, le=high):
            return _seconds(node, low, high, label)
        case inspect.BoolType():
            return _boolean(node, label)
        case inspect.LiteralType():
            return _literal(node, kind, label)
    hint = ""
    if isinstance(kind, inspect.VarTupleType) and isinstance(kind.item_type, inspect.LiteralType):
        hint = f"; write it as one: [{show(node.value)}]"
    raise Wrong(f"{label} must be {named(kind)}, not {_reads(node)}{hint}")


def string(node: ScalarNode, label: str) -> str:
    text: str = node.value
    if node.tag != f"{_TAG}str":
        raise Wrong(f"{_misread(node)}; quote it: {quoted(show(text))}")
    if len(text) > STRING_LIMIT:
        raise Wrong(f"{label} is longer than {STRING_LIMIT} characters")
    if bad := _CONTROL.search(text):
        what = "a line break" if bad[0] in "\n\r" else f"the control character U+{ord(bad[0]):04X}"
        raise Wrong(f"{label} may not hold {what}")
    return text


def _fitting(text: str, kind: inspect.StrType, label: str) -> str:
    """What the type of an added kind asks for besides."""
    low, high = kind.min_length or 0, kind.max_length or STRING_LIMIT
    if not low <= len(text) <= high:
        raise Wrong(f"{label} must have {low} to {high} characters, not {len(text)}")
    if kind.pattern is not None and not re.search(kind.pattern, text):
        raise Wrong(f"{label} must match `{kind.pattern}`, not {quoted(show(text))}")
    return text


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def named(kind: inspect.Type) -> str:
    """Say what is due."""
    match kind:
        case inspect.UnionType(types=kinds):
            some = [named(one) for one in kinds if not isinstance(one, inspect.NoneType)]
            return listed(some, form="{}")
        case inspect.LiteralType(values=values):
            return listed([str(value) for value in values], form="{}")
        case inspect.StructType(fields=fields):
            needed = [field.encode_name for field in fields if field.required]
            return f"a mapping with {listed(needed, 'and')}" if needed else "a mapping"
    return _NAMES.get(type(kind), "a mapping")


def _number(node: ScalarNode) -> int | float | None:
    """Read a number as YAML does; None if it is not one, or too long to be worth it."""
    if len(node.value) > _NUMBER_LIMIT:  # base 60 takes quadratic time, and Python prints no more
        return None
    read = "construct_yaml_int" if node.tag == f"{_TAG}int" else "construct_yaml_float"
    try:
        number: int | float = getattr(SafeConstructor(), read)(node)
    except (ValueError, OverflowError, IndexError):  # `0x_`, `!!int ""`
        return None
    return number


def _reads(node: ScalarNode) -> str:
    """Say what YAML makes of the text."""
    tag = node.tag.removeprefix(_TAG)
    if tag == "bool":
        return "true" if _true(node) else "false"
    if tag not in ("int", "float"):
        return _READINGS.get(tag, "an operator")
    number = _number(node)
    if number is None or str(number) == node.value:
        return "a number"
    base = "base-60 number" if ":" in node.value else "number"
    return f"the {base} {show(str(number))}"


def _misread(node: ScalarNode) -> str:
    return f"YAML reads {show(node.value) or quoted('')} as {_reads(node)}"


def _true(node: ScalarNode) -> bool:
    return node.value.lower() in ("yes", "true", "on")


def _boolean(node: ScalarNode, label: str) -> bool:
    if node.tag != f"{_TAG}bool":
        raise Wrong(f"{label} must be true or false, not {_given(node)}")
    return _true(node)


def _integer(node: ScalarNode, label: str) -> int:
    if node.tag == f"{_TAG}str" and _DECIMAL.fullmatch(node.value):
        raise Wrong(f"{label} must be a whole number; remove the quotes")
    if node.tag != f"{_TAG}int":
        raise Wrong(f"{label} must be a whole number, not {_given(node)}")
    if not _DECIMAL.fullmatch(node.value):
        raise Wrong(f"{_misread(node)}; write it in plain decimal")
    if len(node.value) > 18:  # noqa: PLR2004 -- still fits 64 bits
        raise Wrong(f"{label} is too large")
    return int(node.value)


def _given(node: ScalarNode) -> str:
    return quoted(show(node.value)) if node.tag == f"{_TAG}str" else show(node.value)


def _within(number: int, low: float | None, high: float | None, label: str) -> int:
    if (low is not None and number < low) or (high is not None and number > high):
        limits = f"at least {low}" if high is None else f"{low} to {high}"
        limits = f"at most {high}" if low is None else limits
        raise Wrong(f"{label} must be {limits}, not {number}")
    return number


def _seconds(node: ScalarNode, low: float | None, high: float | None, label: str) -> float:
    text: str = node.value
    if bare := _bare_number(node):
        raise Wrong(f"{label} needs a unit: {show(bare)}s")
    if node.tag != f"{_TAG}str" or not DURATION.fullmatch(text):
        raise Wrong(f"{label} must be {_NAMES[inspect.FloatType]}, not {_given(node)}")
    seconds = sum(float(number) * _SECONDS.get(unit, 1e-6) for number, unit in _PART.findall(text))
    if low is not None and seconds < low:
        raise Wrong(f"{label} must be at least {duration(low)}, not {show(text)}")
    if high is not None and seconds > high:
        raise Wrong(f"{label} must be at most {duration(high)}, not {show(text)}")
    return seconds


def _bare_number(node: ScalarNode) -> str | None:
    """Read a number without its unit, also in quotes or in base 60."""
    if _PLAIN.fullmatch(node.value):
        return str(node.value)
    number = _number(node) if ":" in node.value else None
    return None if number is None else f"{number:g}"


def duration(seconds: float) -> str:
    """Write one as people do."""
    if seconds < 1:
        return f"{seconds * 1000:g}ms"
    return f"{seconds:g}s" if seconds % 3600 else f"{seconds // 3600:g}h"


def _literal(node: ScalarNode, kind: inspect.LiteralType, label: str) -> str | int:
    for value in kind.values:
        if isinstance(value, str | int):
            tag = "str" if isinstance(value, str) else "int"
            if node.value == str(value) and node.tag == _TAG + tag:
                return value
            if node.value == str(value) and tag == "int":
                raise Wrong(f"{label} must be the number {value}; remove the quotes")
            if node.value == str(value):
                raise Wrong(f"{_misread(node)}; quote it: {quoted(str(value))}")
    meant = near(node.value, [str(value) for value in kind.values])
    hint = f"; did you mean {meant}?" if meant else ""
    raise Wrong(f"{label} must be {named(kind)}, not {_given(node)}{hint}")
