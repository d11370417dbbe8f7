"""What of a ResourceSlice the API server keeps, and how it comes back.

Unknown fields are dropped in silence, so are empty lists and maps; quantities are spelled anew, and
a taint without a time is given one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from device_plugin.testing.apiserver.quantity import canonical
from device_plugin.testing.apiserver.refusals import JSON

_GO_TYPES = {str: "string", int: "int64", bool: "bool"}
# A field: what its value is made into, or what it must be.
_Field = Callable[[Any, str], Any] | type


@dataclass(frozen=True, slots=True)
class _Struct:
    fields: Mapping[str, "_Field"]

    def __call__(self, value: Any, place: str) -> Any:  # noqa: ANN401
        _expect(value, dict, place)
        kept = {}
        for name, field in self.fields.items():
            given = value.get(name)
            if given is None:
                continue
            made = _apply(field, given, f"{place}.{name}")
            if made not in ({}, []) or isinstance(field, _Struct):
                kept[name] = made
        return kept


@dataclass(frozen=True, slots=True)
class _Each:
    """A list of such values, or a map to them."""

    field: _Field
    kind: type = list

    def __call__(self, value: Any, place: str) -> Any:  # noqa: ANN401
        _expect(value, self.kind, place)
        if isinstance(value, dict):
            return {key: _apply(self.field, one, place) for key, one in value.items()}
        return [_apply(self.field, one, place) for one in value]


def _apply(field: _Field, value: Any, place: str) -> Any:  # noqa: ANN401
    if isinstance(field, type):
        _expect(value, field, place)
        return value
    return field(value, place)


def _expect(value: object, kind: type, place: str) -> None:
    is_number = kind is int and isinstance(value, bool)
    if not isinstance(value, kind) or is_number:
        got = {str: "string", bool: "bool", dict: "object", list: "array"}.get(type(value))
        raise ValueError(
            f"json: cannot unmarshal {got or 'number'} into Go struct field "
            f"ResourceSlice.{place} of type {_GO_TYPES.get(kind, kind.__name__)}"
        )


def _quantity(value: Any, place: str) -> str:  # noqa: ANN401, ARG001
    return canonical(str(value).strip())


def _anything(value: Any, place: str) -> Any:  # noqa: ANN401, ARG001
    return value


def _taint(value: Any, place: str) -> Any:  # noqa: ANN401
    fields: dict[str, _Field] = dict.fromkeys(("key", "value", "effect", "timeAdded"), str)
    taint = _Struct(fields)(value, place)
    taint.setdefault("timeAdded", datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    return taint


_COUNTERS = _Each(_Struct({"value": _quantity}), dict)
_CAPACITY = _Struct(
    {
        "value": _quantity,
        "requestPolicy": _Struct(
            {
                "default": _quantity,
                "validValues": _Each(_quantity),
                "validRange": _Struct(dict.fromkeys(("min", "max", "step"), _quantity)),
            }
        ),
    }
)
_ATTRIBUTE = _Struct(
    {
        "int": int,
        "bool": bool,
        "string": str,
        "version": str,
        "ints": _Each(int),
        "bools": _Each(bool),
        "strings": _Each(str),
        "versions": _Each(str),
    }
)
_DEVICE = _Struct(
    {
        "name": str,
        "attributes": _Each(_ATTRIBUTE, dict),
        "capacity": _Each(_CAPACITY, dict),
        "consumesCounters": _Each(_Struct({"counterSet": str, "counters": _COUNTERS})),
        "nodeName": str,
        "nodeSelector": _anything,
        "allNodes": bool,
        "taints": _Each(_taint),
        "bindsToNode": bool,
        "bindingConditions": _Each(str),
        "bindingFailureConditions": _Each(str),
        "allowMultipleAllocations": bool,
    }
)
_SPEC = _Struct(
    {
        "driver": str,
        "pool": _Struct({"name": str, "generation": int, "resourceSliceCount": int}),
        "nodeName": str,
        "nodeSelector": _anything,
        "allNodes": bool,
        "devices": _Each(_DEVICE),
        "perDeviceNodeSelection": bool,
        "sharedCounters": _Each(_Struct({"name": str, "counters": _COUNTERS})),
    }
)


def shaped(spec: JSON) -> JSON:
    """Make a slice's spec into what would be stored; ValueError if it cannot be read."""
    made: JSON = _SPEC(spec, "spec")
    made.setdefault("driver", "")
    pool = made.setdefault("pool", {})
    for key, zero in (("name", ""), ("generation", 0), ("resourceSliceCount", 0)):
        pool.setdefault(key, zero)
    return made
