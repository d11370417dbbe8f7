"""Which request policies of a capacity the API server refuses."""

from collections.abc import Iterator, Sequence
from fractions import Fraction

from device_plugin.testing.apiserver.mistakes import invalid, many, required
from device_plugin.testing.apiserver.quantity import parse
from device_plugin.testing.apiserver.refusals import JSON, Mistake

_MOST_VALID_VALUES = 10


def capacity_mistakes(one: JSON, place: str, *, shared: bool) -> Iterator[Mistake]:
    policy = one.get("requestPolicy")
    if policy is None:
        return
    place = f"{place}.requestPolicy"
    if not shared:
        text = "Forbidden: allowMultipleAllocations must be true"
        yield Mistake(place, "FieldValueForbidden", text)
        return
    most, values, span = parse(one.get("value", "0")), policy.get("validValues"), "validRange"
    if values and span in policy:
        text = "exactly one policy can be specified, cannot specify "
        text += '"validValues" and "validRange" at the same time'
        yield Mistake(place, "FieldValueForbidden", f"Forbidden: {text}")
    elif (values or span in policy) and "default" not in policy:
        text = f"required when {'validValues' if values else span} is defined"
        yield required(f"{place}.default", text)
    elif values:
        yield from _valid_values(values, policy["default"], most, f"{place}.validValues")
    elif span in policy:
        yield from _valid_range(policy[span], policy["default"], most, f"{place}.{span}")


def _valid_values(
    values: Sequence[str], default: str, most: Fraction, place: str
) -> Iterator[Mistake]:
    yield from many(place, values, _MOST_VALID_VALUES)
    for value in values:
        if parse(value) > most:
            yield invalid(place, value, "option is larger than capacity value")
    if list(map(parse, values)) != sorted(map(parse, values)):
        yield invalid(place, values[-1], "values must be sorted in ascending order")
    if parse(default) not in map(parse, values):
        text = "default value is not valid according to the requestPolicy"
        yield invalid(place, default, text)


def _valid_range(span: JSON, default: str, most: Fraction, place: str) -> Iterator[Mistake]:
    if "min" not in span:
        yield required(f"{place}.min", "required when validRange is defined")
        return
    low, high = parse(span["min"]), parse(span["max"]) if "max" in span else most
    if low > most:
        yield invalid(f"{place}.min", span["min"], "min is larger than capacity value")
    if high > most:
        yield invalid(f"{place}.max", span["max"], "max is larger than capacity value")
    if low > high:
        yield invalid(f"{place}.max", span["min"], "min is larger than max")
    if parse(default) < low:
        yield invalid(f"{place}.default", default, f"default is less than min: {span['min']}")
    if parse(default) > high:
        yield invalid(f"{place}.default", default, "default is more than max")
    if "step" in span:
        distances = [parse(default) - low, *([high - low] if "max" in span else [])]
        yield from _step(span["step"], distances, f"{place}.step")


def _step(text: str, distances: Sequence[Fraction], place: str) -> Iterator[Mistake]:
    step = parse(text)
    if step <= 0:
        yield invalid(place, text, "must be greater than zero")
    elif any(distance % step for distance in distances):
        yield invalid(place, text, "value is not a multiple of a given step")
