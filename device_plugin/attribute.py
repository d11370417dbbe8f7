"""Attributes: what a device says about itself, typed, and how such values compare. No I/O."""

import re
from fnmatch import fnmatchcase
from typing import Self, TypeVar

import msgspec

# Expressions are compiled when they are first used: few configs have versions and quantities.
_IDENTIFIER = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_NUMBER = r"(0|[1-9][0-9]*)"
VERSION = (
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
QUANTITY = r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,3})?"
_WHOLE = r"[+-]?[0-9]{1,100}"
_VERSION_LIMIT = 64  # characters: DRA's
_QUANTITY_LIMIT = 100  # characters; far more than any quantity needs
_NANO = 10**9
_LARGEST = (2**63 - 1) * _NANO
_POWERS = {suffix: power for power, suffix in enumerate("KMGTPE", 1)}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3} | {
    suffix: 3 * power for suffix, power in _POWERS.items() if suffix != "K"
}

# What orders versions: major, minor, patch, whether it is no prerelease, and that one's parts.
Rank = tuple[int, int, int, bool, tuple[tuple[bool, int, str], ...]]
_Ordered = TypeVar("_Ordered", int, Rank)


class Version(msgspec.Struct, frozen=True):
    """A semantic version (semver.org, 2.0.0), as DRA takes it: neither `1.2` nor `v1.2.3`."""

    text: str
    rank: Rank  # equal for versions that differ only in their build

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError for all else."""
        found = re.fullmatch(VERSION, text) if len(text) <= _VERSION_LIMIT else None
        if found is None:
            raise ValueError(f"{text!r} is no version such as 1.2.3")
        major, minor, patch, before = found.groups()
        parts = tuple(
            (False, int(part), "") if part.isdecimal() else (True, 0, part)
            for part in (before.split(".") if before else ())
        )
        return cls(text, (int(major), int(minor), int(patch), before is None, parts))

    def __str__(self) -> str:
        return self.text


class Quantity(msgspec.Struct, frozen=True):
    """An amount as Kubernetes writes it: `80Gi`, `500M`, `1500m`, `1e3`.

    `nano` is its exact value in billionths: finer ones are rounded away from zero, and what is
    beyond 64 bits is cut, as Kubernetes does it.
    """

    text: str
    nano: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError for all else."""
        found = re.fullmatch(QUANTITY, text) if len(text) <= _QUANTITY_LIMIT else None
        if found is None:
            raise ValueError(f"{text!r} is no quantity such as 80Gi")
        sign, digits, suffix = found.groups("")
        whole, _, fraction = digits.partition(".")
        binary, decimal = _scale(suffix)
        decimal += 9 - len(fraction)
        times = int(whole + fraction) * binary * 10 ** max(decimal, 0)
        nano = min(-(-times // 10 ** max(-decimal, 0)), _LARGEST)
        return cls(text, -nano if sign == "-" else nano)

    def __str__(self) -> str:
        return self.text


def _scale(suffix: str) -> tuple[int, int]:
    """The factor that a suffix stands for: itself, and a power of ten."""
    if suffix in _DECIMAL:
        return 1, _DECIMAL[suffix]
    if suffix.endswith("i"):
        return 1 << 10 * _POWERS[suffix[0]], 0
    return 1, int(suffix[1:])


Attribute = str | int | bool | Version | Quantity


def text(value: Attribute) -> str:
    """Write a value as `where` and containers take it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def plain(value: Attribute) -> str | int | bool:
    """Write a value as JSON takes it."""
    return value if isinstance(value, str | int) else str(value)


def order(value: Attribute, other: str) -> int | None:
    """Say whether a value is below (-1), equal to (0) or above (1) what `other` says.

    None: they do not compare, because one of them is no number, quantity or version. Text compares
    as a whole number.
    """
    try:
        match value:
            case bool():
                return None
            case Version(rank=rank):
                return _sign(rank, Version.parse(other).rank)
            case Quantity(nano=nano):
                return _sign(nano, Quantity.parse(other).nano)
        return _sign(_whole(str(value)), _whole(other))
    except ValueError:
        return None


def fits(value: Attribute, pattern: str) -> bool:
    """Say whether a value is what the glob `pattern` names, or equal to it: 1Gi is 1024Mi."""
    if fnmatchcase(text(value), pattern):
        return True
    return isinstance(value, Version | Quantity) and order(value, pattern) == 0


def _whole(digits: str) -> int:
    if not re.fullmatch(_WHOLE, digits):
        raise ValueError(f"{digits!r} is no whole number")
    return int(digits)


def _sign(one: _Ordered, other: _Ordered) -> int:
    return (one > other) - (one < other)
