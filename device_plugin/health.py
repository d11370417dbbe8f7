"""Checks of devices beyond their being there, before and after they are handed out.

The kubelet replays the first Allocate response at every restart of a container, so a device that
was handed out must stay what it was: a plain path that means another device by now would reach a
container that never asked for it.
"""

import contextlib
import errno
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import msgspec

from device_plugin.allocation import Grant, Refused, Share
from device_plugin.device import REMOVED, Candidate, Device
from device_plugin.host import Host, Look, Unusable

_FILE = "handed-out.jsonl"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

Numbers = Mapping[str, str]  # "c 188:0" by host path


class Handed(msgspec.Struct, frozen=True, array_like=True):
    """A device as a container was given it last."""

    id: str
    resource: str
    replicas: int
    numbers: Numbers


class HandedOut:
    """Which devices containers were given, and their nodes' numbers.

    A journal in the state folder: a line is appended when what is handed out differs from what is
    remembered, and the last one of a device counts. Numbers mean nothing after a reboot, so the
    journal of another boot is void. Appending takes no lock: one write of whole lines is enough.
    """

    def __init__(self, folder: Path | None) -> None:
        """Without a folder for as long as the process lives; OSError where none can be kept."""
        self._handed: dict[str, Handed] = {}
        self._file: int | None = None
        if folder is not None:
            self._open(folder)

    def _open(self, folder: Path) -> None:
        boot = msgspec.json.encode([_BOOT_ID.read_text().strip()])
        path = folder / _FILE
        self._handed = _read(path, boot)
        fresh = path.with_suffix(".new")
        fresh.write_bytes(_lines([boot, *map(msgspec.json.encode, self._handed.values())]))
        fresh.replace(path)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def numbers(self, device: str) -> Numbers | None:
        """None if no container was given the device."""
        handed = self._handed.get(device)
        return handed.numbers if handed else None

    def absent(self, resource: str, found: Collection[str]) -> list[Candidate]:
        """Devices of the resource that containers were given and that are not among the found.

        Whether they still hold them only the kubelet knows; until it is asked, they stay listed.
        """
        return [
            Candidate(Device(handed.id, replicas=handed.replicas), REMOVED, handed_out=True)
            for handed in list(self._handed.values())
            if handed.resource == resource and handed.id not in found
        ]

    def remember(self, resource: str, handed: Iterable[tuple[Device, Numbers]]) -> None:
        """Note what containers are given now.

        Raises OSError where it cannot be kept; it then holds until this process ends.
        """
        now = [Handed(device.id, resource, device.replicas, n) for device, n in handed]
        news = [one for one in now if self._handed.get(one.id) != one]
        if news:
            self._handed.update((one.id, one) for one in news)
            # It begins a line of its own: what came before may have been torn by a full disk.
            lines = b"\n" + _lines(map(msgspec.json.encode, news))
            if self._file is not None and os.write(self._file, lines) < len(lines):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)


def _lines(values: Iterable[bytes]) -> bytes:
    return b"".join(value + b"\n" for value in values)


def _read(path: Path, boot: bytes) -> dict[str, Handed]:
    if not path.is_file():
        return {}
    first, *lines = path.read_bytes().splitlines() or [b""]
    if first != boot:
        return {}
    handed = {}
    for line in lines:
        with contextlib.suppress(msgspec.MsgspecError, RecursionError):  # torn, or not ours
            one = msgspec.json.decode(line, type=Handed)
            handed[one.id] = one
    return handed


def check_nodes(host: Host, resource: str, shares: Iterable[Share]) -> list[tuple[Device, Numbers]]:
    """See that a runtime would find every node of a container's devices.

    Returns their numbers as they are now, without those of links: a link is followed anew whenever
    a container is created, so it may lead elsewhere by then. Raises Refused for the first node
    that is none.
    """
    found = []
    for device in {share.device.id: share.device for share in shares}.values():
        try:
            found.append((device, _node_numbers(host, device)))
        except Unusable as why:
            raise Refused(f"device {device.id} of {resource}: {why}") from None
    return found


def _node_numbers(host: Host, device: Device) -> Numbers:
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


def check_mounts(host: Host, resource: str, grant: Grant) -> None:
    """Raise Refused for a mount whose source is seen to be missing.

    A runtime would make an empty folder of it, and the container would start without.
    """
    look = host.look()
    for mount in grant.mounts:
        if host.sees(mount.host_path):
            try:
                look.entry(mount.host_path)
            except Unusable as why:
                raise Refused(f"mount {mount.host_path} of {resource} {why}") from None


def check_moved(look: Look, candidate: Candidate, handed_out: HandedOut) -> Candidate:
    """Fail a device of which a container was given a node that is another one now."""
    numbers = handed_out.numbers(candidate.device.id)
    if numbers is None:
        return candidate
    problems = (_moved(look, path, number) for path, number in numbers.items())
    problem = candidate.problem or next(filter(None, problems), "")
    return msgspec.structs.replace(candidate, problem=problem, handed_out=True)


def _moved(look: Look, path: str, number: str) -> str:
    try:
        entry = look.entry(path)
    except Unusable as why:
        return f"moved: {path}, handed to a container, {why}"
    if entry.number == number or entry.by_link:
        return ""
    now = entry.number or entry.kind
    return f"moved: {path} was {number} when a container got it and is {now} now"
