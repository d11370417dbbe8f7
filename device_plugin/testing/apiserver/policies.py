"""Which request policies of a capacity the API server refuses."""

from collections.abc import Iterator, Sequence

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
    values, span = policy.get("validValues"), policy.get("validRange")
    if values and span is not None:
        text = "Forbidden: exactly one policy can be specified, not validValues and validRange"
        yield Mistake(place, "FieldValueForbidden", text)
    elif (values or span is not None) and "default" not in policy:
        text = f"required when {'validValues' if values else 'validRange'} is defined"
        yield required(f"{place}.default", text)
    elif values:
        yield from _valid_values(policy, one["value"], f"{place}.validValues")
    elif span is not None:
        yield from _valid_range(span, policy["default"], one["value"], f"{place}.validRange")


def _valid_values(policy: JSON, most: str, place: str) -> Iterator[Mistake]:
    values, default = policy["validValues"], policy["default"]
    yield from many(place, values, _MOST_VALID_VALUES)
    for index, (value, before) in enumerate(zip(values, [values[0], *values], strict=False)):
        if parse(value) < parse(before):
            yield invalid(f"{place}[{index}]", value, "values must be sorted in ascending order")
        if parse(value) > parse(most):
            text = f"option is larger than capacity value: {most}"
            yield invalid(f"{place}[{index}]", value, text)
    if parse(default) not in map(parse, values):
        yield invalid(place, default, "default value is not valid according to the requestPolicy")


def _valid_range(span: JSON, default: str, most: str, place: str) -> Iterator[Mistake]:
    """Judge a range; without an end of its own it ends where the capacity does, unjudged."""
    low, high, step = (span.get(key) for key in ("min", "max", "step"))
    if low is None:
        yield required(f"{place}.min", "required when validRange is defined")
        return
    orders = [
        ("min", low, most, f"min is larger than capacity value: {most}"),
        ("default", low, default, f"default is less than min: {low}"),
    ]
    if high is not None:
        orders += [
            ("max", low, high, f"min is larger than max: {high}"),
            ("max", high, most, f"max is larger than capacity value: {most}"),
            ("default", default, high, f"default is more than max: {high}"),
        ]
    for key, less, more, text in orders:
        if parse(less) > parse(more):
            yield invalid(f"{place}.{key}", default if key == "default" else less, text)
    if step is not None:
        ends = [default] if high is None else [default, high]
        yield from _step(step, low, ends, most, f"{place}.step")


def _step(step: str, low: str, ends: Sequence[str], most: str, place: str) -> Iterator[Mistake]:
    if parse(step) <= 0:
        yield invalid(place, step, "must be greater than zero")
        return
    if parse(low) + parse(step) > parse(most):
        yield invalid(place, step, f"one step is larger than capacity value: {most}")
    for end in ends:
        if (parse(end) - parse(low)) % parse(step):
            text = f"value is not a multiple of a given step ({step}) from ({low})"
            yield invalid(place, end, text)
