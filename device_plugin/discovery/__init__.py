"""Finding devices: one module a kind, each with a function `find`.

A selector answers for itself alone; `discover` asks all of them in file order and settles who has
a node that several of them found.
"""

import os
import traceback
from functools import partial
from importlib import import_module

import msgspec

from device_plugin.config import AddedSelector, Config, Resource
from device_plugin.device import Candidate, Found, Lost
from device_plugin.discovery import added, path, program, virtual
from device_plugin.discovery.added import Failed
from device_plugin.discovery.program import Answers
from device_plugin.host import Look, shown

_HARDWARE = ("usb", "pci", "vfio", "gpu")  # loaded by a config that has them: most have none


class Discovered(msgspec.Struct):
    """What the selectors of one resource found at one look; every ID once.

    `selectors` says what became of each: what is wrong with a candidate in the end stands
    among the lost as well.
    """

    candidates: list[Candidate] = []
    notes: list[str] = []
    selectors: list[Found] = []
    failures: list[str] = []  # of selectors: a bug, of ours or of an added kind

    @property
    def failure(self) -> str:
        """The first one; empty without any."""
        return next(iter(self.failures), "")


def discover(look: Look, config: Config, answers: Answers | None = None) -> dict[str, Discovered]:
    """Ask every selector; by resource, in file order.

    `answers` says what the programs of `exec` listed last; without it they are run now.
    """
    owners: dict[str, tuple[str, str]] = {}
    answers = answers or partial(program.ask_now, look)
    return {one.name: _discover(look, one, owners, answers) for one in config.resources}


def _discover(
    look: Look, resource: Resource, owners: dict[str, tuple[str, str]], answers: Answers
) -> Discovered:
    discovered = Discovered()
    ids: set[str] = set()
    for index in range(len(resource.devices)):
        try:
            found = _find(look, resource, index, answers)
        except Exception as error:  # noqa: BLE001 - one bad selector must not stop the others
            found = Found(note=_failure(index, error))
            discovered.failures.append(found.note)
        if found.note:
            discovered.notes.append(found.note)
        settled, lost = [], list(found.lost)
        for candidate in found.candidates:
            device = candidate.device.id
            problem = _settle(candidate, resource.name, owners)
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


def _failure(index: int, error: Exception) -> str:
    """Say what failed, and to whom it is news."""
    if isinstance(error, Failed):
        return str(error)
    *_, last = traceback.extract_tb(error.__traceback__)
    place = f"{os.path.basename(last.filename)}, line {last.lineno}"
    return f"devices[{index}] failed, please report: {error!r} ({place})"


def _find(look: Look, resource: Resource, index: int, answers: Answers) -> Found:
    selector = resource.devices[index]
    if isinstance(selector, AddedSelector):
        return added.find(look, selector)
    if selector.exec is not None:
        answer = answers(selector.exec)
        return program.find(look, selector, selector.exec, resource.name, answer)
    if selector.virtual is not None:
        before = sum(other.virtual is not None for other in resource.devices[:index])
        return virtual.find(selector, selector.virtual, resource.name, before)
    for kind in _HARDWARE:
        wanted = getattr(selector, kind)
        if wanted is not None:
            found: Found = import_module(f"{__name__}.{kind}").find(look, selector, wanted)
            return found
    return path.find(look, selector)


def _settle(candidate: Candidate, resource: str, owners: dict[str, tuple[str, str]]) -> str:
    """First come, first served: by node, and by ID, which is unique over all resources.

    Returns what is wrong. IDs and node paths share `owners`: a path starts with a slash.
    """
    device = candidate.device.id
    # Of several that are taken, the one is named that says most: a folder in /sys last.
    owned = sorted((*candidate.owned, device), key=lambda one: one.startswith("/sys/"))
    for one in owned:
        if one in owners:
            owner, its_device = owners[one]
            return f"{shown(one)} already belongs to {owner} (device {its_device})"
    for one in owned:
        owners[one] = resource, device
    return ""
