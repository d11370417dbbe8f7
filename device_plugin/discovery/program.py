"""`exec`: devices that a program lists.

A program is run apart from looks, which take what it listed last. Where it fails, and that is too
long ago, its devices are unhealthy; age alone is no failure, as an interval may become shorter.
"""

import time
from collections.abc import Callable

import msgspec
from msgspec import Struct

from device_plugin.config import Exec, Selector
from device_plugin.device import Found, device_id
from device_plugin.discovery import described, match
from device_plugin.discovery.printed import decode
from device_plugin.host import Host, Look
from device_plugin.runner import Failed, Runner
from device_plugin.sdk import Device

_GRACE = 3  # intervals for which a program may fail before its devices are unhealthy


class Answer(Struct, frozen=True):
    """What is known of a program: the last good list, and why the last run was not good."""

    devices: tuple[Device, ...] | None = None  # None: there was no good run yet
    problem: str = ""  # completes "PROGRAM ..."
    at: float = 0.0  # when the list came, by the monotonic clock

    def says_the_same_as(self, other: "Answer") -> bool:
        return (self.devices, self.problem) == (other.devices, other.problem)


Answers = Callable[[Exec], Answer]


def runner(wanted: Exec, host: Host) -> Runner:
    root = host.local("/").rstrip("/") or "/"
    return Runner(wanted.command, wanted.timeout, {"DEVICE_PLUGIN_HOST_ROOT": root})


def ask(run: Runner, before: Answer, stopping: int | None = None) -> Answer:
    """Run a program once; where that fails, its last list stays. Raises Stopped."""
    try:
        return Answer(decode(run.run(stopping)), at=time.monotonic())
    except Failed as why:
        return msgspec.structs.replace(before, problem=str(why))


def ask_now(look: Look, wanted: Exec) -> Answer:
    """Run a program, once a look: for whoever has no daemon that has run it."""
    return look.once(f"exec {wanted.command}", lambda: ask(runner(wanted, look.host), Answer()))


def find(look: Look, selector: Selector, wanted: Exec, resource: str, answer: Answer) -> Found:
    """What a program listed last, as candidates; a failing one's are unhealthy after a grace."""
    problem = f"{wanted.command[0]} {answer.problem}" if answer.problem else ""
    if answer.devices is None:
        return Found(note=problem)  # none: it has not run yet
    stale = time.monotonic() - answer.at > _GRACE * wanted.interval
    matches = described.matches(
        look,
        selector,
        answer.devices,
        lambda id_: device_id(id_, f"{resource}/{id_}"),
        problem if stale else "",
    )
    found = match.sift(matches, selector)
    notes = [problem and f"{problem}; its last list stays", found.note]
    return msgspec.structs.replace(found, note="; ".join(filter(None, notes)))
