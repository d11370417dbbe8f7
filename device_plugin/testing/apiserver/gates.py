"""Fields of features that a cluster has switched off: the API server drops them in silence."""

from typing import Literal, get_args

from device_plugin.testing.apiserver.refusals import JSON

Gate = Literal[
    "DRAConsumableCapacity", "DRAPartitionableDevices", "DRADeviceTaints", "DRAListTypeAttributes"
]
GATES: tuple[Gate, ...] = get_args(Gate)
OFF: frozenset[Gate] = frozenset({"DRAListTypeAttributes"})  # in 1.36 and 1.37, unless switched on

LISTS = ("bools", "ints", "strings", "versions")  # of an attribute
_SPEC_FIELDS: dict[Gate, tuple[str, ...]] = {
    "DRAPartitionableDevices": ("sharedCounters", "perDeviceNodeSelection")
}
_DEVICE_FIELDS: dict[Gate, tuple[str, ...]] = {
    "DRAConsumableCapacity": ("allowMultipleAllocations",),
    "DRAPartitionableDevices": ("consumesCounters", "nodeName", "nodeSelector", "allNodes"),
    "DRADeviceTaints": ("taints",),
}


def drop(spec: JSON, before: JSON | None, disabled: frozenset[Gate]) -> None:
    """Take the fields out; an object that has used such a feature before keeps them."""
    for gate in disabled:
        if before is not None and _take(before, gate, remove=False):
            continue
        _take(spec, gate, remove=True)


def _take(spec: JSON, gate: Gate, *, remove: bool) -> bool:
    """Find a gate's fields, and remove them; tells whether there was one."""
    found = False
    places = [(spec, _SPEC_FIELDS.get(gate, ()))]
    for device in spec.get("devices", ()):
        places.append((device, _DEVICE_FIELDS.get(gate, ())))
        if gate == "DRAConsumableCapacity":
            places += [(one, ("requestPolicy",)) for one in device.get("capacity", {}).values()]
        if gate == "DRAListTypeAttributes":
            places += [(one, LISTS) for one in device.get("attributes", {}).values()]
    for place, fields in places:
        for field in fields:
            found |= field in place
            if remove:
                place.pop(field, None)
    return found
