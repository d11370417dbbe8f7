"""Devices of a kind that another package adds."""

from itertools import islice

from device_plugin.config import AddedSelector, Chosen
from device_plugin.config.added import OURS
from device_plugin.device import Found, device_id
from device_plugin.discovery import described, match
from device_plugin.host import Look, Unusable, shown
from device_plugin.sdk import Device

_MOST = 10_000  # devices
_LONGEST = 253  # characters of an ID


def find(look: Look, selector: AddedSelector) -> Found:
    """Every device that the kind finds. Raises whatever it raises, and ValueError for nonsense."""
    chosen = selector.added[0]
    try:
        devices = list(islice(chosen.kind.find(look, chosen.settings), _MOST + 1))
    except Unusable as why:  # a folder of its driver, which is not loaded
        return Found(note=f"{match.title(selector)} finds nothing: {shown(why.path)} {why}")
    if len(devices) > _MOST:
        raise ValueError(f"it found more than {_MOST} devices")
    for one in devices:
        _check(one, chosen)
    described.check(devices)
    return match.sift(
        described.matches(look, selector, devices, lambda id_: _named(chosen, id_)), selector
    )


def _named(chosen: Chosen, id_: str) -> str:
    """The same device has the same name in whichever resource."""
    name = f"{chosen.name}-{id_}"
    return device_id(name, name)


def _check(device: Device, chosen: Chosen) -> None:
    """What Python does not check by itself."""
    if not isinstance(device, Device):
        raise TypeError(f"it found a {type(device).__name__}, which is no device_plugin.sdk.Device")
    if not isinstance(device.id, str) or not 1 <= len(device.id) <= _LONGEST:
        raise ValueError(f"the id {device.id!r} is not 1 to {_LONGEST} characters")
    attributes = {**OURS, **chosen.kind.attributes}
    for name, value in device.attributes.items():
        due = attributes.get(name)
        if due is None:
            raise ValueError(f"{device.id}: `{name}` is not among the attributes of its kind")
        if type(value) is not due:
            what = f"{type(value).__name__}, and should be {due.__name__}"
            raise TypeError(f"{device.id}: the attribute `{name}` is {what}")
