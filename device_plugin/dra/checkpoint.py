"""What claims have of this node's devices, on disk: what is not here may be given away.

One file, replaced as a whole and safe from a power cut: the kubelet counts on it that a claim which
was prepared once stays so, whatever happens to this process.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
import structlog

from device_plugin.config import Mount
from device_plugin.dra.place import CLAIMS
from device_plugin.state import boot_id, replace

ASIDE = "dra-claims.corrupt.json"
VERSION = 1

_log = structlog.get_logger()


class Unusable(Exception):  # noqa: N818 - one line for whoever started the daemon
    """Why this version cannot go on with the checkpoint, and what to do."""


class Given(msgspec.Struct, frozen=True):
    """What containers get by one device of a claim."""

    name: str  # as the claim has it: a device, one of its replicas, or a part
    device: str  # the ID of the device itself
    resource: str
    request: str  # without a subrequest
    share: str = ""  # which share of a device that several claims consume
    replicas: int = 1  # how many of the device's it takes
    part: Mapping[str, str] | None = None  # what a part takes of the device's capacities
    admin: bool = False  # it looks on, and takes nothing

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells it from the others of its claim."""
        return self.request, self.name, self.share


class Extras(msgspec.Struct, frozen=True):
    """What containers get by one request of a claim, besides device nodes; all is final."""

    env: Mapping[str, str] = {}
    mounts: tuple[Mount, ...] = ()


class Prepared(msgspec.Struct, frozen=True):
    """A claim whose containers may start."""

    uid: str
    namespace: str
    name: str
    driver: str
    pool: str
    boot: str  # of the node, when it was prepared
    devices: tuple[Given, ...]
    extras: Mapping[str, Extras]  # by request

    @property
    def requests(self) -> list[str]:
        return list(self.extras)


class _Header(msgspec.Struct):
    version: int


class _File(msgspec.Struct, omit_defaults=True):
    version: int
    claims: tuple[Prepared, ...]
    forgotten: str = ""  # the boot in which the claims before these were, if a file was corrupt


def held(claims: Iterable[Prepared]) -> dict[str, str]:
    """The devices that claims have, and the resource of each; not those only looked on."""
    return {one.device: one.resource for c in claims for one in c.devices if not one.admin}


def holders(claims: Iterable[Prepared]) -> dict[str, list[str]]:
    """Namespace and name of the claims that have each device."""
    found: dict[str, list[str]] = {}
    for claim in claims:
        for device in dict.fromkeys(one.device for one in claim.devices if not one.admin):
            found.setdefault(device, []).append(f"{claim.namespace}/{claim.name}")
    return found


def glimpse(folder: Path) -> list[Prepared]:
    """What the checkpoint says, in as far as it can be read, be it newer; changes nothing."""
    try:
        return list(msgspec.json.decode((folder / CLAIMS).read_bytes(), type=_File).claims)
    except (OSError, msgspec.MsgspecError, RecursionError):
        return []


class Checkpoint:
    """The claims that are prepared. Whoever writes takes care that nobody else does."""

    def __init__(self, folder: Path) -> None:
        """Raises Unusable. What is no checkpoint is put aside, and said."""
        self._path = folder / CLAIMS
        self.folder, self.aside = folder, folder / ASIDE
        read = _read(self._path)
        self._claims: Mapping[str, Prepared] = {claim.uid: claim for claim in read.claims}
        self.forgotten = read.forgotten  # the boot of which claims may be that are not here

    @property
    def claims(self) -> Mapping[str, Prepared]:
        """By UID; never changed in place, so that anybody may look."""
        return self._claims

    def put(self, claim: Prepared) -> None:
        """Raises OSError where it cannot be kept; then nothing has changed."""
        self._write({**self._claims, claim.uid: claim})

    def remove(self, uid: str) -> None:
        """Raises OSError like `put`; one that is not there is no error."""
        if uid in self._claims:
            self._write({known: one for known, one in self._claims.items() if known != uid})

    def _write(self, claims: Mapping[str, Prepared]) -> None:
        file = _File(VERSION, tuple(claims.values()), self.forgotten)
        replace(self._path, msgspec.json.encode(file), sync=True)
        self._claims = claims


def _read(path: Path) -> _File:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return _File(VERSION, ())
    except OSError as error:
        raise Unusable(f"cannot read {path}: {error.strerror}") from None
    try:
        version = msgspec.json.decode(data, type=_Header).version
        if version <= VERSION:
            return msgspec.json.decode(data, type=_File)
    except (msgspec.MsgspecError, RecursionError) as error:
        return _put_aside(path, data, str(error))
    raise Unusable(
        f"{path} is of version {version} and this program reads {VERSION}: run the newer program,"
        " or drain the node and remove the file"
    )


def _put_aside(path: Path, data: bytes, error: str) -> _File:
    """Begin anew, and note that: a restart must not take the claims that run for free devices."""
    aside, anew = path.with_name(ASIDE), _File(VERSION, (), boot_id())
    try:
        replace(aside, data, sync=True)
        replace(path, msgspec.json.encode(anew), sync=True)
    except OSError as failed:
        raise Unusable(f"{path} is corrupt ({error}), and stays: {failed.strerror}") from None
    _log.error(
        "prepared claims are forgotten: drain the node to be safe",
        reason=f"{path} is corrupt: {error}",
        kept=str(aside),
    )
    return anew
