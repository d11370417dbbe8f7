"""What the kubelet is told of the devices' health, for the status of the Pods that have them.

The kubelet takes any news for the whole list, and forgets it without any for 30 seconds; so the
list is sent at every change, and again while there is none.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import grpc
import msgspec

from device_plugin.dra.checkpoint import Prepared
from device_plugin.dra.offer import Offer, by_name, devices
from device_plugin.listing import LIST_LIMIT
from device_plugin.plugin import Pace

MAX_STREAMS = 4  # a kubelet holds one; each takes a thread
RESEND = 10.0  # seconds
TIMEOUT = 30  # seconds after which the kubelet does not know any more
MESSAGE_LIMIT = 1024  # bytes: what is longer is cut by the kubelet, within a character
_SHORT = 128  # bytes, for devices that nobody has
_AROUND = 300  # bytes at most of an entry besides its name and its reason: the node's name, mostly
_GONE = "it is not in the config any more"


class DeviceHealth(msgspec.Struct, frozen=True):
    """One device, under a name that claims may have."""

    name: str
    reason: str = ""  # why it is unhealthy, if it is


Report = tuple[DeviceHealth, ...]


def report(offers: Sequence[Offer], prepared: Iterable[Prepared]) -> Report:
    """Every device, and every replica and part that a claim has; what has no room is left out.

    The kubelet shows the health of what Pods have, so that comes first, and other replicas and
    parts would only be many.
    """
    reasons: dict[str, str] = {}
    if held := {one.name for claim in prepared for one in claim.devices}:
        known = by_name(offers)
        for name in sorted(held):
            reason = known[name].listed.reason if name in known else _GONE
            reasons[name] = cut(reason, MESSAGE_LIMIT)
    for offer in offers:
        for listed in devices(offer):
            reasons.setdefault(listed.device.id, cut(listed.reason, _SHORT))
    return tuple(_fitting(reasons))


def _fitting(reasons: Mapping[str, str]) -> Iterator[DeviceHealth]:
    room = LIST_LIMIT
    for name, reason in reasons.items():
        room -= len(name) + len(reason.encode()) + _AROUND
        if room < 0:
            return
        yield DeviceHealth(name, reason)


def cut(text: str, limit: int) -> str:
    """Cut text to so many bytes of whole characters."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= limit:
        return encoded.decode()
    return encoded[: limit - 3].decode(errors="ignore") + "..."


class Health:
    """The streams to kubelets; each is told what differs from what it was told last."""

    def __init__(self, current: Callable[[], Report]) -> None:
        self._current = current
        self._changed = threading.Condition()
        self._version = 0  # goes up with every news
        self._ended = 0  # goes up when the open streams are to return
        self.streams = 0

    def news(self) -> None:
        """The devices, or what claims have of them, may be another."""
        with self._changed:
            self._version += 1
            self._changed.notify_all()

    def end_streams(self) -> None:
        """Let every open stream return."""
        with self._changed:
            self._ended += 1
            self._changed.notify_all()

    def reports(self, context: grpc.ServicerContext) -> Iterator[Report]:
        """Each report of one stream, until either side ends it."""
        ended = self._open(context)

        def over() -> bool:
            return self._ended != ended or not context.is_active()

        pace = Pace()
        sent: Report | None = None
        seen, due = -1, 0.0

        def news() -> bool:
            return self._version != seen or over()

        while not over():
            self._wait(news, due - time.monotonic())
            seen, now = self._version, self._current()
            if now == sent and time.monotonic() < due:
                continue
            yield now
            sent, due = now, time.monotonic() + RESEND
            self._wait(over, pace.after_send(time.monotonic()))

    def _wait(self, until: Callable[[], bool], timeout: float) -> None:
        with self._changed:
            self._changed.wait_for(until, max(0.0, timeout))

    def _open(self, context: grpc.ServicerContext) -> int:
        with self._changed:
            ended = self._ended
            full = self.streams >= MAX_STREAMS
            if not full and context.add_callback(self._close):
                self.streams += 1
        if full:
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{MAX_STREAMS} streams are open")
        return ended

    def _close(self) -> None:
        with self._changed:
            self.streams -= 1
            self._changed.notify_all()  # a stream is not woken by its own end
