"""What must be written so that the API server's slices are those that are wanted. Pure.

A pool is all slices of a driver on a node. Whoever reads it believes only slices of its highest
generation, and only if there are as many as each of them says.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from device_plugin.attribute import Quantity
from device_plugin.dra.cluster import Json
from device_plugin.dra.slices import Features

API_VERSION = "resource.k8s.io/v1"
# The API server cuts longer ones to make room for its five random characters.
_GENERATED_LIMIT = 58
_INDEX = re.compile(r"([0-9a-f]{5})-")
_QUANTITIES = frozenset(("value", "default", "min", "max", "step"))
# What we say of a device: fields that the API server fills in by itself are none of our business.
_OF_DEVICE = (
    "name",
    "attributes",
    "capacity",
    "allowMultipleAllocations",
    "consumesCounters",
    "taints",
)


class Pool(msgspec.Struct, frozen=True):
    """Whose slices they are; `uid` is the Node's."""

    driver: str
    node: str
    uid: str


class Plan(msgspec.Struct, frozen=True):
    """What to write, in this order, so that nobody takes half of it for the whole."""

    delete: tuple[str, ...] = ()
    replace: tuple[Json, ...] = ()
    create: tuple[Json, ...] = ()


def plan(existing: Iterable[Json], contents: Sequence[Json], pool: Pool) -> Plan:
    """Compare; nothing is written that is as it should be.

    One slice that changes is replaced by itself: readers see it before or after. When more do, all
    get a new generation.
    """
    existing = sorted(existing, key=name_of)
    generation = max((_generation(one) for one in existing), default=0) or 1
    kept, obsolete = _matched(existing, len(contents), generation, pool)
    specs = [_spec(content, len(contents), generation, pool) for content in contents]
    changed = [i for i, one in kept.items() if _differs(one, specs[i], pool)]
    if len(changed) > 1:
        changed = [*kept]
        specs = [_spec(content, len(contents), generation + 1, pool) for content in contents]
    return Plan(
        tuple(obsolete),
        tuple(_replacement(kept[i], specs[i], pool) for i in sorted(changed)),
        tuple(_new(i, spec, pool) for i, spec in enumerate(specs) if i not in kept),
    )


def survivors(features: Features, sent: Json, stored: Json) -> Features:
    """What the cluster keeps, by what came back of a slice; what is off stays off."""
    spec, back = sent["spec"], stored.get("spec", {})
    lost = (
        {"sharedCounters"}
        if spec.get("sharedCounters") and not back.get("sharedCounters")
        else set()
    )
    for device, after in zip(spec.get("devices", ()), back.get("devices") or (), strict=False):
        lost.update(field for field in device if not after.get(field))
    return Features(
        shares=features.shares and "allowMultipleAllocations" not in lost,
        parts=features.parts and lost.isdisjoint(("sharedCounters", "consumesCounters")),
        taints=features.taints and "taints" not in lost,
    )


def name_of(slice_: Json) -> str:
    return str(slice_["metadata"]["name"])


def version_of(slice_: Json) -> str:
    return str(slice_["metadata"].get("resourceVersion", ""))


def _generation(slice_: Json) -> int:
    return int(slice_["spec"]["pool"]["generation"])


def _matched(
    existing: Iterable[Json], count: int, generation: int, pool: Pool
) -> tuple[dict[int, Json], list[str]]:
    """The slices by their index, and the names of those that must go.

    Two processes of ours may have made the same at once: both keep the one that sorts first.
    """
    matched: dict[int, Json] = {}
    obsolete = []
    for one in existing:
        found = _INDEX.match(name_of(one))
        index = int(found[1], 16) if found else count
        fits = _generation(one) == generation and one["spec"]["pool"]["name"] == pool.node
        if fits and index < count and index not in matched:
            matched[index] = one
        else:
            obsolete.append(name_of(one))
    return matched, obsolete


def _spec(content: Json, count: int, generation: int, pool: Pool) -> Json:
    numbers = {"name": pool.node, "generation": generation, "resourceSliceCount": count}
    return {"driver": pool.driver, "nodeName": pool.node, "pool": numbers, **content}


def _owners(pool: Pool) -> list[Json]:
    """The Node: when it goes, its slices go too."""
    node = {"apiVersion": "v1", "kind": "Node", "name": pool.node, "uid": pool.uid}
    return [{**node, "controller": True}]


def _new(index: int, spec: Json, pool: Pool) -> Json:
    # Allocators go by name: the index in front keeps the order of the devices.
    name = f"{index:05x}-{pool.driver}-{pool.node}"[: _GENERATED_LIMIT - 1].rstrip("-.")
    metadata = {"generateName": f"{name}-", "ownerReferences": _owners(pool)}
    return {"apiVersion": API_VERSION, "kind": "ResourceSlice", "metadata": metadata, "spec": spec}


def _replacement(old: Json, spec: Json, pool: Pool) -> Json:
    metadata = {**old["metadata"], "ownerReferences": _owners(pool)}
    times = {
        (device["name"], *_identity(taint)): taint.get("timeAdded")
        for device in old["spec"].get("devices") or ()
        for taint in device.get("taints") or ()
    }
    devices = [_timed(device, times) for device in spec.get("devices", ())]
    spec = {**spec, "devices": devices} if devices else spec
    return {"apiVersion": API_VERSION, "kind": "ResourceSlice", "metadata": metadata, "spec": spec}


def _timed(device: Json, times: Mapping[tuple[str, str, str], str | None]) -> Json:
    """Keep since when a taint is there: tolerations that end count from then."""
    taints = [
        {**taint, "timeAdded": added}
        if (added := times.get((device["name"], *_identity(taint))))
        else taint
        for taint in device.get("taints", ())
    ]
    return {**device, "taints": taints} if taints else device


def _identity(taint: Json) -> tuple[str, str]:
    """Not its value: a device that is unhealthy for another reason has been so all the while."""
    return taint["key"], taint["effect"]


def _differs(old: Json, spec: Json, pool: Pool) -> bool:
    owners = [owner.get("uid") for owner in old["metadata"].get("ownerReferences") or ()]
    return owners != [pool.uid] or _comparable(old["spec"]) != _comparable(spec)


def _comparable(spec: Json) -> Any:  # noqa: ANN401 - JSON
    devices = [
        {field: device.get(field) for field in _OF_DEVICE} for device in spec.get("devices") or ()
    ]
    return _normal(
        {"pool": spec["pool"], "devices": devices, "counters": spec.get("sharedCounters")}
    )


def _normal(value: Any, key: str = "") -> Any:  # noqa: ANN401 - JSON
    """Without what the API server adds and drops; quantities as numbers, for it rewrites them."""
    if isinstance(value, dict):
        found = {k: _normal(v, k) for k, v in value.items() if k != "timeAdded"}
        return {k: v for k, v in found.items() if v is not None and v not in ({}, [])}
    if isinstance(value, list):
        return [_normal(one) for one in value]
    if isinstance(value, str) and key in _QUANTITIES:
        try:
            return Quantity.parse(value).nano
        except ValueError:  # the value of a taint
            return value
    return value
