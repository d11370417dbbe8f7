"""Rules of `where`: is the attribute there, and can it ever be what is asked for?"""

import contextlib
from collections.abc import Mapping

from device_plugin.attribute import Attribute, Quantity, Version, order
from device_plugin.config import names
from device_plugin.config.decode import known
from device_plugin.config.problem import Report, Where, show, there
from device_plugin.config.types import Requirement, Selector

# What a device says about itself, by name; None: something, but it was refused.
Attributes = Mapping[str, Attribute | None]

_BARE = ("Exists", "DoesNotExist")
_ONE = ("AtLeast", "AtMost")


def check(selector: Selector, where: Where, report: Report, attributes: Attributes | None) -> None:
    """Report everything; no attributes: nobody knows which there are."""
    for index, one in enumerate(selector.where if known(selector.where) else ()):
        if not known(one):
            continue
        place = (*where, "where", index)
        if attributes is not None and known(one.key) and one.key not in attributes:
            report.at((*place, "key"), _no_attribute(one.key, attributes, report))
        if known(one.operator) and known(one.values):
            _values(one, place, report, attributes or {})


def _no_attribute(key: str, attributes: Attributes, report: Report) -> str:
    message = f"there is no attribute `{show(key)}`"
    if meant := report.near(key, attributes):
        return f"{message}; did you mean `{meant}`?"
    if not attributes:
        return f"{message}: these devices have none"
    return f"{message}; {there([*attributes])}"


def _values(one: Requirement, where: Where, report: Report, attributes: Attributes) -> None:
    place = (*where, "values")
    written = report.has(place)
    if message := _number(one, written=written):
        report.at(place if written else where, message, key=one.operator in _BARE)
        return
    for index, value in enumerate(one.values):
        if known(value) and (message := _value(one, value, attributes)):
            report.at((*place, index), message)


def _number(one: Requirement, *, written: bool) -> str | None:
    """Say what is wrong with how many values there are."""
    shown = f"`{one.operator}`"
    if one.operator in _BARE:
        return f"{shown} takes no `values`; remove them" if written else None
    if not one.values:
        return f"{shown} needs at least one of `values`" if written else f"{shown} needs `values`"
    if one.operator in _ONE and len(one.values) > 1:
        return f"{shown} takes one value, not {len(one.values)}"
    return None


def _value(one: Requirement, value: str, attributes: Attributes) -> str | None:
    """Say why the attribute can never be this."""
    ordered = one.operator in _ONE
    if not ordered and (message := names.glob(value) or _placeholder(value)):
        return message
    attribute = attributes.get(one.key)
    if attribute is None:
        return None
    if ordered:
        return _order(one, value, attribute)
    if names.is_glob(value) or isinstance(attribute, str):
        return None
    if isinstance(attribute, bool):
        fits = value in ("true", "false")
    else:
        fits = order(attribute, value) is not None
    return None if fits else _misfit(one.key, value, attribute)


def _placeholder(value: str) -> str | None:
    if "{" in value.replace("[{]", ""):
        return "`where` takes no placeholders; write `[{]` for a literal `{`"
    return None


def _order(one: Requirement, value: str, attribute: Attribute) -> str | None:
    if order(attribute, value) is not None:
        return None
    if isinstance(attribute, bool):
        return f"`{one.key}` is true or false: `{one.operator}` cannot compare it; use `In`"
    if isinstance(attribute, str):
        message = f"`{one.key}` is text, which `{one.operator}` compares only as a whole number"
        return message + _typed(attribute)
    return _misfit(one.key, value, attribute)


def _typed(text: str) -> str:
    """Say how to write what seems to be meant."""
    for parse, hint in (
        (Quantity.parse, "; move it to `capacity`"),
        (Version.parse, f"; write {{version: {text}}}"),
    ):
        with contextlib.suppress(ValueError):
            if order(text, text) is None and parse(text):
                return hint
    return ""


def _misfit(key: str, value: str, attribute: Attribute) -> str:
    match attribute:
        case bool():
            what = "neither true nor false"
        case Version():
            what = "no version such as 1.2.3"
        case Quantity():
            what = "no quantity such as 80Gi"
        case _:
            what = "no whole number"
    return f'"{show(value)}" is {what}, as which `{key}` is compared'
