"""What a device is: frozen values and the rules of its identity. No I/O."""

import hashlib
import re
from collections.abc import Mapping
from string import digits

import msgspec

from device_plugin.attribute import Attribute

# A device ID is a DNS label; the longest replica suffix must fit behind the device's own part,
# whatever `replicas` says today, so that changing it renames nobody.
ID_LIMIT = 63
MAX_REPLICAS = 10_000
REMOVED = "removed"  # the reason of a device that is no longer there
_SUFFIX_ROOM = len(f"-r{MAX_REPLICAS - 1}")
_HASH_LENGTH = 8
_REPLICA_SUFFIX = re.compile(r"-r\d+$")
_REPLICA = re.compile(r"(.+)-r([1-9][0-9]{0,3})")


class Node(msgspec.Struct, frozen=True):
    """One device node that a container gets.

    `host_path` is what the container runtime is given (never with the host root), `to` a template
    of where the container finds it; empty means under the same path.
    """

    host_path: str
    to: str = ""
    permissions: str = "rw"


class Device(msgspec.Struct, frozen=True):
    """A device that can be offered: `replicas` schedulable units of one physical thing."""

    id: str
    nodes: tuple[Node, ...] = ()  # the primary node first
    replicas: int = 1
    values: Mapping[str, str] = {}  # captures, for placeholders
    attributes: Mapping[str, Attribute] = {}
    numa_nodes: tuple[int, ...] = ()  # sorted, never -1; empty if not known

    @property
    def replica_ids(self) -> list[str]:
        return [self.id, *(f"{self.id}-r{k}" for k in range(1, self.replicas))]


def device_id(readable: str, identity: str) -> str:
    """Name a device: `readable` itself where it is the whole identity, else adapted, with a hash.

    The hash is of `identity`, which must say in full what makes the device this one and no other.
    """
    label = re.sub(r"[^a-z0-9]+", "-", readable.lower()).strip("-")
    room = ID_LIMIT - _SUFFIX_ROOM
    if label and label == identity and len(label) <= room and not _REPLICA_SUFFIX.search(label):
        return label
    digest = hashlib.sha256(identity.encode(errors="surrogatepass")).hexdigest()[:_HASH_LENGTH]
    head = label[: room - _HASH_LENGTH - 1].rstrip("-")
    return f"{head}-{digest}" if head else f"d-{digest}"


def split_replica(id_: str) -> tuple[str, int]:
    """The device of a schedulable ID, and which of its replicas it is, from 0."""
    found = _REPLICA.fullmatch(id_)
    return (found[1], int(found[2])) if found else (id_, 0)


def natural_key(text: str) -> tuple[list[tuple[int, int, str]], str]:
    """Sort key under which ttyUSB2 comes before ttyUSB10; the same for equal texts only."""
    key = []
    for piece in re.findall(r"[0-9]+|[^0-9]+", text):
        if piece[0] in digits:
            number = piece.lstrip("0")  # compared as text: int() refuses thousands of digits
            key.append((0, len(number), number))
        else:
            key.append((1, 0, piece))
    return key, text


class Candidate(msgspec.Struct, frozen=True):
    """What discovery found at one look: a device, and what is wrong with it if anything is.

    `owned` are the real paths of the primary nodes: they belong to one device only.
    """

    device: Device
    problem: str = ""
    owned: tuple[str, ...] = ()


class Lost(msgspec.Struct, frozen=True):
    """Something that a selector passed over: a path, or the ID of a device. All printable."""

    what: str
    reason: str  # completes "WHAT: ..."


class Found(msgspec.Struct, frozen=True):
    """What one selector found.

    `note` is for the log: why that is nothing, or what ought to be looked into. `lost` is for
    whoever asks, and tells of everything that came close.
    """

    candidates: tuple[Candidate, ...] = ()
    note: str = ""
    lost: tuple[Lost, ...] = ()
