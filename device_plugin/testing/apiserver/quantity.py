"""Quantities as the API server gives them back: "1024Mi" comes home as "1Gi"."""

import math
import re
from fractions import Fraction

_WRONG = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_QUANTITY = re.compile(
    r"(?P<number>[+-]?(\d+(\.\d*)?|\.\d+))"
    r"((?P<suffix>[KMGTPE]i|[numkMGTPE]?)|[eE](?P<exponent>[+-]?\d+))"
)
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_SMALLEST = Fraction(1, 10**9)
_KIB = 1024


def parse(text: str) -> Fraction:
    """Read a quantity; ValueError in the API server's words."""
    found = _QUANTITY.fullmatch(text)
    if found is None:
        raise ValueError(_WRONG)
    number, suffix, exponent = found["number"], found["suffix"], found["exponent"]
    value = Fraction(number)
    if exponent is not None:
        value *= Fraction(10) ** int(exponent)
    elif suffix.endswith("i"):
        value *= _KIB ** _BINARY.index(suffix)
    else:
        value *= Fraction(10) ** next(key for key, name in _DECIMAL.items() if name == suffix)
    # What is smaller than a billionth is rounded away from zero.
    parts = math.ceil(abs(value) / _SMALLEST)
    return parts * _SMALLEST * (-1 if value < 0 else 1)


def canonical(text: str) -> str:
    """Spell it as the API server does: no fraction, no factor that a suffix could hold.

    Some are kept as they are although they could be shorter: it looks at the digits only.
    """
    value = parse(text)
    if value == 0:
        return "0"
    if _is_kept(text):
        return text
    if text.endswith("i") and abs(value) >= _KIB and value.denominator == 1:
        exponent = 0
        while value % _KIB == 0 and exponent < len(_BINARY) - 1:
            value, exponent = value / _KIB, exponent + 1
        return f"{value}{_BINARY[exponent]}"
    exponent = max(_DECIMAL)
    while (value / Fraction(10) ** exponent).denominator != 1:
        exponent -= 3
    number = value / Fraction(10) ** exponent
    if re.search(r"[eE][+-]?\d", text):
        return f"{number}e{exponent}" if exponent else f"{number}"
    return f"{number}{_DECIMAL[exponent]}"


def _is_kept(text: str) -> bool:
    found = _QUANTITY.fullmatch(text)
    if found is None:
        return False
    whole, _, fraction = found["number"].lstrip("+-").partition(".")
    digits = f"{whole.lstrip('0') or '0'}{fraction}"
    suffix = found["suffix"] or ""
    if suffix.endswith("i"):
        return not fraction and int(digits) % 8 != 0
    exponent = int(found["exponent"] or 0) + next(
        key for key, name in _DECIMAL.items() if name == suffix
    )
    scale = exponent - len(fraction)
    return scale % 3 == 0 and scale >= min(_DECIMAL) and digits[0] != "0" and digits[-3:] != "000"
