"""Devices of a kind that another package adds."""

from device_plugin.config import AddedSelector, Chosen
from device_plugin.config.added import Broken, call
from device_plugin.device import Found, device_id
from device_plugin.discovery import described, match
from device_plugin.host import Look, Unusable, shown
from device_plugin.sdk import Device


class Failed(Exception):  # noqa: N818 - a package's, told to people
    """What a kind did instead of finding devices: a whole sentence."""


def find(look: Look, selector: AddedSelector) -> Found:
    """Every device that the kind finds. Raises Failed."""
    chosen = selector.added[0]
    devices: list[Device] = []
    try:
        call(lambda: _collect(devices, look, chosen))
    except Broken as why:
        missing = why.__cause__
        if not isinstance(missing, Unusable) or devices:
            raise _failed(chosen, str(why)) from why
        # A folder of its driver, which is not loaded.
        return Found(note=f"{match.title(selector)} finds nothing: {_missing(missing)}")
    try:
        described.check(devices)
        for one in devices:
            _check(one, chosen)
    except (TypeError, ValueError) as why:
        raise _failed(chosen, str(why)) from why
    return match.sift(
        described.matches(look, selector, devices, lambda id_: _named(chosen, id_)), selector
    )


def _collect(devices: list[Device], look: Look, chosen: Chosen) -> None:
    found = chosen.kind.find(look, chosen.settings)
    if not hasattr(found, "__iter__"):
        raise TypeError(f"find returned a {type(found).__name__}; return or yield Devices")
    for one in found:
        devices.append(one)
        if len(devices) > described.MOST_DEVICES:
            return


def _missing(why: Unusable) -> str:
    return f"{shown(why.path)} {why}" if isinstance(why.path, str) else str(why)


def _failed(chosen: Chosen, why: str) -> Failed:
    return Failed(f"the kind {chosen.name} of {chosen.package} failed, tell its makers: {why}")


def _named(chosen: Chosen, id_: str) -> str:
    """The same device has the same name in whichever resource."""
    name = f"{chosen.name}-{id_}"
    return device_id(name, name)


def _check(device: Device, chosen: Chosen) -> None:
    """The attributes are those that the kind declares."""
    for name, value in device.attributes.items():
        due = chosen.kind.attributes.get(name)
        if due is None:
            raise ValueError(f"{device.id}: `{name}` is not among the attributes of its kind")
        if type(value) is not due:
            what = f"a {type(value).__name__}, and should be a {due.__name__}"
            raise TypeError(f"{device.id}: the attribute `{name}` is {what}")
