"""Finding devices: one module a kind, each with a function `find`.

A selector answers for itself alone; `discover` asks all of them in file order and settles who has
a node that several of them claim.
"""

import msgspec

from device_plugin.config import Config, Resource, Selector
from device_plugin.device import Candidate, Found, Lost
from device_plugin.discovery import path, virtual
from device_plugin.host import Look, shown


class Discovered(msgspec.Struct):
    """What the selectors of one resource found at one look; every ID once.

    `selectors` says what became of each, claims settled: what is wrong with a candidate stands
    among the lost as well.
    """

    candidates: list[Candidate] = []
    notes: list[str] = []
    selectors: list[Found] = []
    errors: int = 0  # selectors that failed, by a bug of ours


def discover(look: Look, config: Config) -> dict[str, Discovered]:
    """Ask every selector; by resource, in file order."""
    owners: dict[str, tuple[str, str]] = {}
    return {resource.name: _discover(look, resource, owners) for resource in config.resources}


def _discover(look: Look, resource: Resource, owners: dict[str, tuple[str, str]]) -> Discovered:
    discovered = Discovered()
    ids: set[str] = set()
    for index, selector in enumerate(resource.devices):
        try:
            found = _find(look, resource, selector, index)
        except Exception as error:  # noqa: BLE001 - one bad selector must not stop the others
            found = Found(note=f"devices[{index}] failed, please report: {error!r}")
            discovered.errors += 1
        if found.note:
            discovered.notes.append(found.note)
        settled, lost = [], list(found.lost)
        for candidate in found.candidates:
            device = candidate.device.id
            problem = _claim(candidate, resource.name, owners)
            if problem or candidate.problem:
                lost.append(Lost(device, problem or candidate.problem))
            if device in ids:  # an earlier selector has it, and says how it is
                discovered.notes.append(f"{device} matches again: {problem}")
                continue
            ids.add(device)
            replaced = msgspec.structs.replace(candidate, problem=problem) if problem else candidate
            settled.append(replaced)
        discovered.candidates += settled
        discovered.selectors.append(Found(tuple(settled), found.note, tuple(lost)))
    return discovered


def _find(look: Look, resource: Resource, selector: Selector, index: int) -> Found:
    if selector.virtual is not None:
        before = sum(other.virtual is not None for other in resource.devices[:index])
        return virtual.find(selector, selector.virtual, resource.name, before)
    return path.find(look, selector)


def _claim(candidate: Candidate, resource: str, owners: dict[str, tuple[str, str]]) -> str:
    """First come, first served: by node, and by ID, which is unique over all resources.

    Returns what is wrong. IDs and node paths share `owners`: a path starts with a slash.
    """
    device = candidate.device.id
    claims = (*candidate.claims, device)
    for claim in claims:
        if claim in owners:
            owner, its_device = owners[claim]
            return f"{shown(claim)} already belongs to {owner} (device {its_device})"
    for claim in claims:
        owners[claim] = resource, device
    return ""
