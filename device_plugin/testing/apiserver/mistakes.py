"""Mistakes in an object, in the words of the API server."""

import json
from collections.abc import Iterable, Iterator, Sequence

from device_plugin.testing.apiserver.refusals import JSON, Mistake


def many(place: str, items: Sequence[object], most: int) -> Iterator[Mistake]:
    if len(items) > most:
        text = f"Too many: {len(items)}: must have at most {most} items"
        yield Mistake(place, "FieldValueTooMany", text)


def twice(place: str, items: Iterable[JSON], key: str) -> Iterator[Mistake]:
    seen: set[str] = set()
    for index, item in enumerate(items):
        name = item.get(key, "")
        if name in seen:
            text = f'Duplicate value: "{name}"'
            yield Mistake(f"{place}[{index}]", "FieldValueDuplicate", text)
        seen.add(name)


def required(place: str, why: str = "") -> Mistake:
    text = f"Required value: {why}" if why else "Required value"
    return Mistake(place, "FieldValueRequired", text)


def invalid(place: str, value: object, why: str) -> Mistake:
    return Mistake(place, "FieldValueInvalid", f"Invalid value: {json.dumps(value)}: {why}")


def too_long(place: str, most: int) -> Mistake:
    text = f"Too long: may not be more than {most} bytes"
    return Mistake(place, "FieldValueTooLong", text)
