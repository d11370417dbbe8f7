"""`where`: does a device say about itself what a selector requires?"""

import json
import re
from collections.abc import Iterable, Mapping

import msgspec

from device_plugin.attribute import Attribute, fits, order, text
from device_plugin.config import Requirement
from device_plugin.host import shown

_SHOWN = 60  # characters of a value
_LISTED = 5  # values of a list
_WORD = re.compile(r"[^\s,\"]+")


class Mismatch(msgspec.Struct, frozen=True):
    """Why a device is not what is required; the reason completes "it matches, but ..."."""

    reason: str
    odd: bool = False  # the values do not even compare: somebody should look into it


def mismatch(
    requirements: Iterable[Requirement], attributes: Mapping[str, Attribute]
) -> Mismatch | None:
    """Say which requirement does not hold, the first one; None if all do."""
    for one in requirements:
        value = attributes.get(one.key)
        found = _missing(one) if value is None else _differs(one, value)
        if found is not None:
            return found
    return None


def _missing(one: Requirement) -> Mismatch | None:
    if one.operator in ("NotIn", "DoesNotExist"):
        return None
    return Mismatch(f"there is no attribute {one.key}")


def _differs(one: Requirement, value: Attribute) -> Mismatch | None:
    match one.operator:
        case "AtLeast" | "AtMost":
            return _compared(one, value)
        case "Exists":
            return None
        case "DoesNotExist":
            return Mismatch(f"{_is(one, value)}, and must be absent")
    listed = any(fits(value, pattern) for pattern in one.values)
    if listed == (one.operator == "In"):
        return None
    due = _listed(one.values)
    if one.operator == "NotIn":
        return Mismatch(f"{_is(one, value)}, and must not be {due}")
    return Mismatch(f"{_is(one, value)}, and must be {due}")


def _compared(one: Requirement, value: Attribute) -> Mismatch | None:
    limit, least = one.values[0], one.operator == "AtLeast"
    compared = order(value, limit)
    if compared is None:
        return Mismatch(f"{_is(one, value)}, which does not compare with {said(limit)}", odd=True)
    if (compared >= 0) if least else (compared <= 0):
        return None
    due = "at least" if least else "at most"
    return Mismatch(f"{_is(one, value)}, and must be {due} {said(limit)}")


def _is(one: Requirement, value: Attribute) -> str:
    return f"{one.key} is {said(text(value))}"


def _listed(values: tuple[str, ...]) -> str:
    *front, end = map(said, values[:_LISTED])
    if len(values) > _LISTED:
        return f"{', '.join((*front, end))} or {len(values) - _LISTED} more"
    return f"{', '.join(front)} or {end}" if front else end


def said(value: str) -> str:
    """Show a value; in quotes where it would be misread."""
    if len(value) > _SHOWN:
        value = value[: _SHOWN - 3] + "..."
    return shown(value) if _WORD.fullmatch(value) else json.dumps(value)
