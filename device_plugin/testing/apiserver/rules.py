"""What makes the API server refuse a ResourceSlice (C4). It says all that is wrong at once."""

import re
from collections.abc import Iterator

from device_plugin.testing.apiserver.gates import LISTS
from device_plugin.testing.apiserver.mistakes import invalid, many, required, too_long, twice
from device_plugin.testing.apiserver.names import (
    is_c_identifier,
    is_dns_label,
    is_dns_subdomain,
    is_label_name,
    is_label_value,
)
from device_plugin.testing.apiserver.policies import capacity_mistakes
from device_plugin.testing.apiserver.refusals import JSON, Mistake

_MOST_DEVICES, _MOST_SPECIAL_DEVICES = 128, 64
_MOST_ATTRIBUTES, _MOST_VALUES, _LONGEST_VALUE = 32, 48, 64
_MOST_TAINTS, _MOST_SETS, _MOST_COUNTERS, _MOST_CONSUMED = 16, 8, 32, 2
_LONGEST_DRIVER, _LONGEST_POOL, _LONGEST_IDENTIFIER = 63, 253, 32
_EFFECTS = ("NoExecute", "NoSchedule", "None")
_NODES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?"
    r"(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?"
)


def mistakes_of(spec: JSON, before: JSON | None) -> list[Mistake]:
    """Judge a slice's spec, and against what is stored already."""
    return [*_slice(spec), *_immutable(spec, before or spec)]


def _slice(spec: JSON) -> Iterator[Mistake]:
    yield from _name("spec.driver", spec["driver"], _LONGEST_DRIVER)
    pool = spec["pool"]
    yield from _name("spec.pool.name", pool["name"], _LONGEST_POOL, "/")
    if pool["resourceSliceCount"] <= 0:
        count = pool["resourceSliceCount"]
        yield invalid("spec.pool.resourceSliceCount", count, "must be greater than zero")
    if pool["generation"] < 0:
        text = "must be greater than or equal to zero"
        yield invalid("spec.pool.generation", pool["generation"], text)
    yield from _nodes(spec)
    yield from _contents(spec)


def _name(place: str, name: str, longest: int, separator: str | None = None) -> Iterator[Mistake]:
    """Names of drivers and pools: DNS subdomains, in a pool's name with slashes between."""
    if not name or len(name) > longest:
        yield too_long(place, longest) if name else required(place)
        return
    for part in name.split(separator) if separator else [name]:
        if not is_dns_subdomain(part if separator else part.lower()):
            yield invalid(place, part, "a lowercase RFC 1123 subdomain is needed")


def _nodes(spec: JSON) -> Iterator[Mistake]:
    needed = f"exactly one of {', '.join(f'`{name}`' for name in _NODES)} is required"
    given = [f"`{name}`" for name in _NODES if spec.get(name)]
    if not given:
        yield required("spec", needed)
    if len(given) > 1:
        text = f"{needed}, but multiple fields are set"
        yield invalid("spec", f"{{{', '.join(given)}}}", text)


def _contents(spec: JSON) -> Iterator[Mistake]:
    devices, sets = spec.get("devices", []), spec.get("sharedCounters", [])
    if devices and sets:
        yield invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed")
    most = _MOST_SPECIAL_DEVICES if any(map(_is_special, devices)) else _MOST_DEVICES
    yield from many("spec.devices", devices, most)
    yield from twice("spec.devices", devices, "name")
    for index, device in enumerate(devices):
        yield from _device(device, f"spec.devices[{index}]")
    yield from many("spec.sharedCounters", sets, _MOST_SETS)
    yield from twice("spec.sharedCounters", sets, "name")
    for index, one in enumerate(sets):
        place = f"spec.sharedCounters[{index}]"
        yield from _label(one.get("name", ""), f"{place}.name")
        yield from _counters(one.get("counters", {}), f"{place}.counters")


def _is_special(device: JSON) -> bool:
    """Whether its like make 64 the limit."""
    lists = any(set(LISTS) & one.keys() for one in device.get("attributes", {}).values())
    return bool(lists or device.get("taints") or device.get("consumesCounters"))


def _device(device: JSON, place: str) -> Iterator[Mistake]:
    attributes, capacity = device.get("attributes", {}), device.get("capacity", {})
    yield from _label(device.get("name", ""), f"{place}.name")
    total = len(attributes) + len(capacity)
    if total > _MOST_ATTRIBUTES:
        what = "the total number of attributes and capacities"
        yield invalid(place, total, f"{what} must not exceed {_MOST_ATTRIBUTES}")
    values = sum(map(_count, attributes.values()))
    if values > _MOST_VALUES:
        text = f"the total number of attribute values must not exceed {_MOST_VALUES}"
        yield invalid(place, values, text)
    for key, attribute in attributes.items():
        yield from _key(key, f"{place}.attributes")
        yield from _attribute(attribute, f"{place}.attributes[{key}]")
    shared = device.get("allowMultipleAllocations", False)
    for key, one in capacity.items():
        yield from _key(key, f"{place}.capacity")
        yield from capacity_mistakes(one, f"{place}.capacity[{key}]", shared=shared)
    taints = device.get("taints", [])
    yield from many(f"{place}.taints", taints, _MOST_TAINTS)
    for index, taint in enumerate(taints):
        yield from _taint(taint, f"{place}.taints[{index}]")
    consumed = device.get("consumesCounters", [])
    yield from many(f"{place}.consumesCounters", consumed, _MOST_CONSUMED)
    yield from twice(f"{place}.consumesCounters", consumed, "counterSet")
    for index, one in enumerate(consumed):
        spot = f"{place}.consumesCounters[{index}]"
        yield from _label(one.get("counterSet", ""), f"{spot}.counterSet")
        yield from _counters(one.get("counters", {}), f"{spot}.counters")


def _count(attribute: JSON) -> int:
    return max(1, *(len(attribute.get(name, ())) for name in LISTS))


def _attribute(attribute: JSON, place: str) -> Iterator[Mistake]:
    if len(attribute) != 1:
        yield invalid(place, attribute or "", "exactly one value must be specified")
    for kind in ("string", "version"):
        given = [attribute[kind]] if kind in attribute else attribute.get(f"{kind}s", [])
        for value in given:
            if kind == "version" and not _SEMVER.fullmatch(value):
                text = "must be a string compatible with semver.org spec 2.0.0"
                yield invalid(f"{place}.{kind}", value, text)
            if len(value.encode()) > _LONGEST_VALUE:
                yield too_long(f"{place}.{kind}", _LONGEST_VALUE)


def _taint(taint: JSON, place: str) -> Iterator[Mistake]:
    key, value, effect = (taint.get(name, "") for name in ("key", "value", "effect"))
    if not is_label_name(key):
        yield invalid(f"{place}.key", key, "a label's key is needed")
    if not is_label_value(value):
        text = "a label's value is needed: at most 63 letters, digits, '-', '_' and '.'"
        yield invalid(f"{place}.value", value, text)
    if not effect:
        yield required(f"{place}.effect")
    elif effect not in _EFFECTS:
        known = ", ".join(f'"{one}"' for one in _EFFECTS)
        text = f'Unsupported value: "{effect}": supported values: {known}'
        yield Mistake(f"{place}.effect", "FieldValueNotSupported", text)


def _counters(counters: JSON, place: str) -> Iterator[Mistake]:
    if not counters:
        yield required(place)
    yield from many(place, list(counters), _MOST_COUNTERS)
    for name in counters:
        yield from _label(name, place)


def _immutable(spec: JSON, before: JSON) -> Iterator[Mistake]:
    pairs = [
        ("spec.pool.name", spec["pool"]["name"], before["pool"]["name"]),
        ("spec.driver", spec["driver"], before["driver"]),
        ("spec.nodeName", spec.get("nodeName"), before.get("nodeName")),
    ]
    for place, now, then in pairs:
        if now != then:
            yield invalid(place, now, "field is immutable")


def _key(key: str, place: str) -> Iterator[Mistake]:
    """Judge an attribute's or a capacity's name: `[domain/]identifier`."""
    domain, slash, name = key.rpartition("/")
    if slash and not domain:
        yield invalid(place, "", "the domain must not be empty")
    elif slash:
        yield from _name(place, domain, _LONGEST_DRIVER)
    if len(name) > _LONGEST_IDENTIFIER:
        yield too_long(place, _LONGEST_IDENTIFIER)
    if not is_c_identifier(name):
        yield invalid(place, name, "a valid C identifier is needed: letters, digits and '_'")


def _label(name: str, place: str) -> Iterator[Mistake]:
    if not is_dns_label(name):
        text = "a lowercase RFC 1123 label of at most 63 characters is needed"
        yield invalid(place, name, text)
