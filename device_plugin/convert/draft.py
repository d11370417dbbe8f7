"""A resource on its way into our form."""

from collections.abc import Mapping
from typing import Any

import msgspec

from device_plugin.config.problem import show

# What YAML reads: dicts, lists and scalars. Nothing about another plugin's file can be relied on.
Foreign = Any


class Manual(Exception):  # noqa: N818 - an answer: it becomes a comment
    """Why a hand is needed, in one sentence."""


class Draft(msgspec.Struct):
    """One resource of the result."""

    name: str
    source: Foreign  # as the other plugin has it
    resource: dict[str, Foreign] | None = None  # as we have it; None: a hand is needed
    notes: list[str] = []  # where the meaning differs, or what is missing
    changed: list[str] = []  # why Pods do not get here what they get there


class Batch(msgspec.Struct):
    """What one file of another plugin comes to."""

    plugin: str
    drafts: list[Draft]
    notes: list[str]  # on the file as a whole


def plain(value: Foreign) -> str:
    """A scalar as text, and of all else no more than what it is: it may have no end."""
    if isinstance(value, dict | list | set):
        return "a mapping" if isinstance(value, dict) else "a list"
    return "" if value is None else str(value)


def mapping(value: Foreign, what: str) -> Mapping[str, Foreign]:
    if not isinstance(value, dict):
        raise Manual(f"{what} is no mapping")
    return value


def listing(value: Foreign, what: str) -> list[Foreign]:
    if not isinstance(value, list):
        raise Manual(f"{what} is no list")
    return value


def text(value: Foreign, what: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise Manual(f"{what} is no text: {_seen(value)}")
    return value.strip()


def number(value: Foreign, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Manual(f"{what} is no whole number: {_seen(value)}")
    return value


def _seen(value: Foreign) -> str:
    return show(plain(value).strip()) or "it is empty"


def unknown_keys(source: Mapping[str, Foreign], known: set[str], what: str) -> list[str]:
    """Note what is there and nobody knows."""
    extra = sorted(str(key) for key in source if key not in known)
    return [f"{what} has keys that are left out: {', '.join(extra)}"] if extra else []
