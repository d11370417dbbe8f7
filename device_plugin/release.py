"""When a device that a container may have counts as free: the kubelet has no call for that.

What its lists do not say at once (docs/kubelet.md, B): a kubelet that has just started lists no
Pods, then some, and never says when these are all. What only an ordinary init container was given
is in no list, and yet taken until its Pod is gone; the kubelet's checkpoint has it.
"""

from collections.abc import Collection, Hashable
from pathlib import Path

import msgspec

from device_plugin.podresources import Holdings

# Seconds for which answers in a row must have been complete, and must not name a device.
FREE_AFTER = 30.0
CHECKPOINT = "kubelet_internal_checkpoint"  # in the device-plugins folder


class _Entry(msgspec.Struct):
    DeviceIDs: dict[str, list[str]] | None = None


class _Data(msgspec.Struct):
    PodDeviceEntries: list[_Entry] | None = None


class _Checkpoint(msgspec.Struct):
    Data: _Data


def checkpointed(path: Path) -> frozenset[str] | None:
    """The IDs that Pods have by the kubelet's checkpoint (A14); None where that is not readable.

    It is written at the next change only, so it may name devices that are free by now.
    """
    try:
        entries = msgspec.json.decode(path.read_bytes(), type=_Checkpoint).Data.PodDeviceEntries
    except (OSError, msgspec.MsgspecError, RecursionError):
        return None
    lists = [ids for entry in entries or () for ids in (entry.DeviceIDs or {}).values()]
    return frozenset(id_ for ids in lists for id_ in ids)


class _Seen(msgspec.Struct):
    token: object
    since: float  # when any of its IDs was held last, or asked about first
    shown: frozenset[str] = frozenset()  # IDs that answers named: none does now, so they are free


class Releases:
    """What the answers so far say of each device that somebody asks about."""

    def __init__(self, checkpoint: Path, own_pod: str = "") -> None:
        """own_pod: the Pod that this process runs in; a list without it is not complete."""
        self._checkpoint = checkpoint
        self._own_pod = own_pod
        self._complete_since: float | None = None
        self._holdings = Holdings(0.0)
        self._taken: frozenset[str] | None = None
        self._seen: dict[Hashable, _Seen] = {}
        self._asked_about: dict[Hashable, _Seen] = {}

    def take(self, holdings: Holdings) -> None:
        """Begin a round with the kubelet's answer."""
        self._holdings = holdings
        complete = self._own_pod in holdings.pods if self._own_pod else bool(holdings.pods)
        if not complete:
            self._complete_since = None
        elif self._complete_since is None:
            self._complete_since = holdings.asked
        self._taken = checkpointed(self._checkpoint) if complete else None
        self._seen, self._asked_about = self._asked_about, {}

    def no_answer(self) -> None:
        """The kubelet may restart: completeness begins anew."""
        self._complete_since = None

    def is_free(
        self,
        key: Hashable,
        resource: str,
        ids: Collection[str],
        after: float = 0.0,
        token: object = None,
    ) -> bool:
        """Whether nobody has had any of these IDs for so many seconds, and for FREE_AFTER.

        To be asked in every round, once for each key; what was known is void with a new `token`.
        """
        asked, held = self._holdings.asked, self._holdings.held(resource)
        seen = self._seen.get(key)
        if seen is None or seen.token is not token:
            seen = _Seen(token, asked)
        if named := [id_ for id_ in ids if id_ in held]:
            seen = _Seen(token, asked, seen.shown.union(named))
        self._asked_about[key] = seen
        if self._complete_since is None or asked - self._complete_since < FREE_AFTER:
            return False
        if asked - seen.since < max(after, FREE_AFTER):
            return False
        never_named = set(ids) - seen.shown
        return not never_named or (self._taken is not None and self._taken.isdisjoint(never_named))
