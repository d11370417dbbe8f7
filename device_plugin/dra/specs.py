"""The CDI specs of claims: a file a claim, and in it a name for each of its requests."""

from collections.abc import Container, Mapping
from pathlib import Path

import msgspec

from device_plugin.allocation import Refused
from device_plugin.cdi_file import Node, Part, put

PREFIX, SUFFIX = "device-plugin-claim-", ".json"
_VERSION = "0.5.0"  # the first with names that begin with a digit, and with hostPath


class EditMount(Part, frozen=True):
    host_path: str
    container_path: str
    options: tuple[str, ...]


class Edits(Part, frozen=True):
    """What the devices of one request change in a container."""

    env: tuple[str, ...] = ()
    device_nodes: tuple[Node, ...] = ()
    mounts: tuple[EditMount, ...] = ()


class _Entry(Part, frozen=True):
    name: str
    container_edits: Edits


class _Spec(Part, frozen=True):
    cdi_version: str
    kind: str
    devices: tuple[_Entry, ...]


class _Kind(msgspec.Struct, frozen=True):
    """Whose a spec is, whatever else it says."""

    kind: str


def cdi_name(driver: str, uid: str, request: str) -> str:
    """What the kubelet passes on."""
    return f"{_kind(driver)}={uid}-{request}"


class ClaimSpecs:
    """The specs of claims, in a folder where others have theirs. UIDs are taken as they are."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, uid: str) -> Mapping[str, Edits]:
        """What the file says by request; nothing if there is none, or none of ours."""
        try:
            spec = msgspec.json.decode(self._path(uid).read_bytes(), type=_Spec)
        except (OSError, msgspec.MsgspecError):
            return {}
        return {one.name.removeprefix(f"{uid}-"): one.container_edits for one in spec.devices}

    def strangers(self, driver: str, known: Container[str]) -> list[str]:
        """The UIDs of specs, of this driver as far as can be read, that are not known."""
        found = (
            path.name[len(PREFIX) : -len(SUFFIX)]
            for path in self._folder.glob(f"{PREFIX}*{SUFFIX}")
        )
        return [uid for uid in found if uid not in known and self._may_be_of(driver, uid)]

    def _may_be_of(self, driver: str, uid: str) -> bool:
        """Two daemons of one node have drivers of their own, and may have this folder together."""
        try:
            spec = msgspec.json.decode(self._path(uid).read_bytes(), type=_Kind)
        except FileNotFoundError:
            return False
        except (OSError, msgspec.MsgspecError):
            return True
        return spec.kind == _kind(driver)

    def write(self, driver: str, uid: str, by_request: Mapping[str, Edits]) -> None:
        """Replace the file in one step; no requests, no file. Raises Refused where that fails."""
        path = self._path(uid)
        if not by_request:
            self.remove(uid)
            return
        entries = (_Entry(f"{uid}-{request}", one) for request, one in by_request.items())
        try:
            put(path, _Spec(_VERSION, _kind(driver), tuple(entries)))
        except OSError as error:
            raise _failed("write", path, error) from None

    def remove(self, uid: str) -> None:
        """Raises Refused where that fails; that there is none is as good."""
        path = self._path(uid)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise _failed("remove", path, error) from None

    def _path(self, uid: str) -> Path:
        return self._folder / f"{PREFIX}{uid}{SUFFIX}"


def _failed(what: str, path: Path, error: OSError) -> Refused:
    folder = path.parent
    if folder.exists() and not folder.is_dir():
        return Refused(f"cannot {what} {path}: {folder} is no folder: name one with --cdi-dir")
    return Refused(f"cannot {what} {path}: {error.strerror}: mount its folder, writable")


def _kind(driver: str) -> str:
    return f"{driver}/claim"
