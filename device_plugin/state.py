"""The state folder: its lock, and what outlives the process: devices handed out, devices disabled.

The kubelet replays the first Allocate response at every restart of a container, so what was handed
out must be known for as long as somebody may hold it.
"""

import contextlib
import errno
import fcntl
import os
import threading
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import msgspec

from device_plugin.device import Device

_FILE = "handed-out.jsonl"
_DISABLED = "disabled.json"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_COMPACT = 1 << 20  # bytes after which the journal is written anew

Numbers = Mapping[str, str]  # "c 188:0" by host path
Own = tuple[str, int]  # real path and inode of a device's primary node
Owners = Mapping[str, Mapping[int, str]]  # devices by these two


class Observed(msgspec.Struct, frozen=True):
    """A device, and its nodes as they were found."""

    device: Device
    numbers: Numbers = {}
    own: Own = ("", 0)


class Handed(msgspec.Struct, frozen=True, array_like=True):
    """A device as a container was given it last; without a resource: it is free."""

    id: str
    resource: str = ""
    replicas: int = 1
    numbers: Numbers = {}
    numa_nodes: tuple[int, ...] = ()
    own: Own = ("", 0)

    @property
    def ids(self) -> list[str]:
        return Device(self.id, replicas=self.replicas).replica_ids


class HandedOut:
    """Which devices containers were given, and their nodes' numbers.

    A journal in the state folder: a line is appended when what is handed out differs from what is
    remembered, and the last one of a device counts. Numbers mean nothing after a reboot, so the
    journal of another boot is void. Appending takes no lock: one write of whole lines is enough.
    """

    def __init__(self, folder: Path) -> None:
        """Where none can be kept, `problem` says why, and all holds until the process ends."""
        self._lock = threading.Lock()  # of the mapping; never held over I/O
        self._handed: dict[str, Handed] = {}
        self._path = folder / _FILE
        self._file: int | None = None
        self._appended = 0
        self._unsaved: set[str] = set()  # devices whose last line may be missing
        self.problem = ""
        try:
            self._boot = msgspec.json.encode([boot_id()])
            self._handed = _read(self._path, self._boot)
            self._file = self._write(self._handed.values())
        except OSError as error:  # a full disk must not cost the node its devices
            self.problem = str(error)

    @property
    def resources(self) -> set[str]:
        """Of which something was handed out."""
        return {handed.resource for handed in list(self._handed.values())}

    def numbers(self, device: str) -> Numbers | None:
        """None if no container was given the device."""
        handed = self._handed.get(device)
        return handed.numbers if handed else None

    @property
    def owners(self) -> Owners:
        """The device that each primary node was, as it was handed out."""
        found: dict[str, dict[int, str]] = {}
        for one in list(self._handed.values()):
            path, inode = one.own
            if path:
                found.setdefault(path, {})[inode] = one.id
        return found

    def of(self, resource: str) -> list[Handed]:
        return [one for one in list(self._handed.values()) if one.resource == resource]

    def remember(self, resource: str, handed: Iterable[Observed]) -> None:
        """Note what containers are given now.

        Raises OSError where it cannot be kept; it then holds until this process ends.
        """
        with self._lock:
            now = [self._renewed(resource, one) for one in handed]
            news = [one for one in now if self._handed.get(one.id) != one]
            self._handed.update((one.id, one) for one in now)
        self._append(news)
        self.save()

    def save(self) -> None:
        """Write what could not be written when it was new. Raises OSError like `remember`."""
        if self._unsaved:  # seldom, and Allocate is in a hurry
            self._append([self._handed.get(id_) or Handed(id_) for id_ in list(self._unsaved)])

    def _renewed(self, resource: str, observed: Observed) -> Handed:
        """With as many replicas as there ever were: containers may hold the last of them."""
        device = observed.device
        old = self._handed.get(device.id)
        replicas = max(device.replicas, old.replicas if old is not None else 0)
        return Handed(
            device.id, resource, replicas, observed.numbers, device.numa_nodes, observed.own
        )

    def forget(self, free: Iterable[Handed]) -> None:
        """Note that nobody holds these; one that was handed out anew meanwhile stays.

        Raises OSError like `remember`.
        """
        with self._lock:
            gone = [one for one in free if self._handed.get(one.id) is one]
            for one in gone:
                del self._handed[one.id]
        self._append([Handed(one.id) for one in gone])
        # One that was handed out since then must have the last word in the file as well.
        handed = (self._handed.get(one.id) for one in gone)
        self._append([one for one in handed if one is not None])
        if self._file is not None and self._appended > _COMPACT:
            self._compact(self._file)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)

    def _append(self, news: Collection[Handed]) -> None:
        if not news or self._file is None:
            return
        # It begins a line of its own: what came before may have been torn by a full disk.
        lines = b"\n" + _lines(map(msgspec.json.encode, news))
        self._appended += len(lines)
        self._unsaved.update(one.id for one in news)
        if os.write(self._file, lines) < len(lines):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._unsaved.difference_update(one.id for one in news)

    def _compact(self, file: int) -> None:
        """Write the journal anew while others go on appending."""
        self._appended = 0
        with self._lock:
            written = dict(self._handed)
        fresh = self._write(written.values())
        os.dup2(fresh, file, inheritable=False)  # at once: an appender never meets a closed file
        os.close(fresh)
        with self._lock:
            now = list(self._handed.values())
        self._append([one for one in now if written.get(one.id) is not one])

    def _write(self, handed: Iterable[Handed]) -> int:
        """Put a new file in the journal's place; returns it, open for appending."""
        replace(self._path, _lines([self._boot, *map(msgspec.json.encode, handed)]))
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)


class Disabled:
    """Devices that an admin took out of service, with the reason, until they are enabled."""

    def __init__(self, folder: Path) -> None:
        """Raises ValueError, with what to do, where the file cannot be read."""
        self._path = folder / _DISABLED
        self._reasons: dict[str, str] = {}
        try:
            if self._path.exists():
                self._reasons = msgspec.json.decode(self._path.read_bytes(), type=dict[str, str])
        except (OSError, msgspec.MsgspecError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise ValueError(
                f"cannot read which devices are disabled: {self._path}: {why}: mend or remove it"
            ) from None

    @property
    def reasons(self) -> Mapping[str, str]:
        """By device."""
        return self._reasons

    def set(self, device: str, reason: str | None) -> None:
        """Disable with a reason, or enable with None. Raises OSError where it cannot be kept."""
        reasons = {id_: why for id_, why in self._reasons.items() if id_ != device}
        if reason is not None:
            reasons[device] = reason
        replace(self._path, msgspec.json.encode(reasons), sync=True)
        self._reasons = reasons


def lock(folder: Path) -> int:
    """Hold the state folder for as long as the returned descriptor is open.

    Raises OSError, with what to do, where there is none, or another process holds it.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise OSError(
            f"state folder {folder}: {error.strerror}: choose another with --state-dir"
        ) from None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(held)
        raise OSError(
            f"another daemon uses the state folder {folder}: stop it, or choose another with"
            " --state-dir"
        ) from None
    return held


def boot_id() -> str:
    """What tells this run of the node's kernel from all others. Raises OSError."""
    return _BOOT_ID.read_text().strip()


def replace(path: Path, content: bytes, *, sync: bool = False) -> None:
    """Write a file in one step, for its owner alone; `sync`: safe from a power cut.

    Raises OSError; then the file is as it was.
    """
    fresh = path.with_suffix(".new")
    try:
        opened = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(opened, "wb") as file:
            file.write(content)
            if sync:
                file.flush()
                os.fsync(opened)
        fresh.replace(path)
        if sync:
            _sync(path.parent)
    except OSError:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise


def _sync(folder: Path) -> None:
    """Make the folder's entries safe, too: a rename is one."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _lines(values: Iterable[bytes]) -> bytes:
    return b"".join(value + b"\n" for value in values)


def _read(path: Path, boot: bytes) -> dict[str, Handed]:
    if not path.is_file():
        return {}
    first, *lines = path.read_bytes().splitlines() or [b""]
    if first != boot:
        return {}
    handed: dict[str, Handed] = {}
    for line in lines:
        with contextlib.suppress(msgspec.MsgspecError, RecursionError):  # torn, or not ours
            one = msgspec.json.decode(line, type=Handed)
            handed.pop(one.id, None)
            if one.resource:
                handed[one.id] = one
    return handed
