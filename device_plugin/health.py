"""Checks of devices beyond their being there.

The kubelet replays the first Allocate response at every restart of a container, so a device that
was handed out must stay what it was: a plain path that means another device by now would reach a
container that never asked for it.
"""

import contextlib
import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from device_plugin.device import Candidate, Device
from device_plugin.host import Host, Look, Unusable

_FILE = "handed-out.jsonl"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

Numbers = Mapping[str, str]  # "c 188:0" by host path


class HandedOut:
    """Which node numbers containers were given, by device.

    A journal in the state folder: a line is appended when what is handed out differs from what is
    remembered, and the last one of a device counts. Numbers mean nothing after a reboot, so the
    journal of another boot is void. Appending takes no lock: one write of whole lines is enough.
    """

    def __init__(self, folder: Path) -> None:
        """Raises OSError where the journal cannot be kept."""
        self._boot = _BOOT_ID.read_text().strip()
        path = folder / _FILE
        self._numbers: dict[str, Numbers] = self._read(path)
        fresh = path.with_suffix(".new")
        fresh.write_text(_line([self._boot]) + "".join(map(_line, self._numbers.items())))
        fresh.replace(path)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def numbers(self, device: str) -> Numbers | None:
        """None if no container was given the device."""
        return self._numbers.get(device)

    def remember(self, handed: Mapping[str, Numbers]) -> None:
        """Note what containers are given now, by device.

        Raises OSError where it cannot be kept; it then holds until this process ends.
        """
        news = [
            (id_, numbers) for id_, numbers in handed.items() if self._numbers.get(id_) != numbers
        ]
        if news:
            self._numbers.update(news)
            # It begins a line of its own: what came before may have been torn by a full disk.
            lines = ("\n" + "".join(map(_line, news))).encode()
            if os.write(self._file, lines) < len(lines):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        os.close(self._file)

    def _read(self, path: Path) -> dict[str, Numbers]:
        try:
            lines = path.read_text().splitlines()
        except (OSError, UnicodeDecodeError):
            return {}
        if not lines or lines[0] + "\n" != _line([self._boot]):
            return {}
        numbers: dict[str, Numbers] = {}
        for line in lines[1:]:
            with contextlib.suppress(ValueError, TypeError, RecursionError):  # torn, or not ours
                id_, nodes = json.loads(line)
                numbers[str(id_)] = {str(path): str(number) for path, number in dict(nodes).items()}
        return numbers


def _line(value: object) -> str:
    return json.dumps(value) + "\n"


def node_numbers(host: Host, device: Device) -> Numbers:
    """The numbers of the device's nodes as they are now, without those that a link leads to.

    A link is followed anew whenever a container is created, so it may lead elsewhere by then.
    Raises Unusable for the first path that is no device node; its text names the path.
    """
    found = {}
    for path in (node.host_path for node in device.nodes):
        number = host.node_number(path)  # nearly always enough, and Allocate is in a hurry
        if number:
            found[path] = number
            continue
        try:
            entry = host.look().entry(path)
        except Unusable as why:
            raise Unusable(f"{path} {why}") from None
        if not entry.is_node:
            raise Unusable(f"{path} is {entry.kind}, not a device node")
    return found


def check_moved(look: Look, candidate: Candidate, handed_out: HandedOut) -> Candidate:
    """Fail a device of which a container was given a node that is another one now."""
    numbers = handed_out.numbers(candidate.device.id)
    if numbers is None:
        return candidate
    problems = (_moved(look, path, number) for path, number in numbers.items())
    problem = candidate.problem or next(filter(None, problems), "")
    return msgspec.structs.replace(candidate, problem=problem, held=True)


def _moved(look: Look, path: str, number: str) -> str:
    try:
        entry = look.entry(path)
    except Unusable as why:
        return f"moved: {path}, handed to a container, {why}"
    if entry.number == number or entry.by_link:
        return ""
    now = entry.number or entry.kind
    return f"moved: {path} was {number} when a container got it and is {now} now"
