"""Keep the cluster's ResourceSlices in step with what the node offers.

A thread does what follows from the facts: what is offered, and what the API server has. Nothing is
written that is as it should be. The newest offers win, whatever happens meanwhile.
"""

import threading
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus

import structlog

from device_plugin.backoff import doubling, jitter
from device_plugin.dra.cluster import LONGEST_DELAY, ApiError, Cluster, delay
from device_plugin.dra.offer import Offer
from device_plugin.dra.pool import Plan, plan, survivors
from device_plugin.dra.slices import Features, Wanted, wanted
from device_plugin.dra.view import View

# Seconds between rounds of writes that follow each other, doubling: a device that flaps must not
# keep the API server busy; nor must somebody who undoes what we write.
FIRST_REST, LONGEST_REST, LONGEST_QUARREL = 0.1, 5.0, 60.0
QUIET = 30.0  # seconds after which the next write is one of its own
SETTLE = 0.2  # seconds at most until we mend what others did: they may be at it, on every node
HOLD = 5.0  # seconds at most, for a kubelet that has deleted all our slices to register us again
AUDIT = 600.0  # seconds after which all is listed again, even if nothing is known to have changed
STOP_TIMEOUT = 0.5  # seconds; a call in flight may last longer, and is left to itself
QUARREL = 10  # times in a row that somebody else changed our slices
_MAX_NAMED = 20
_LOST = {  # for good: what was dropped once is not tried again
    "shares": "it knows no consumable capacity: each replica is a device of its own; restart the"
    " daemon if that is switched on",
    "parts": "it knows no partitions: devices are offered whole; restart the daemon if that is"
    " switched on",
    "taints": "it knows no device taints: unhealthy devices are left out; restart the daemon if"
    " that is switched on",
}
_log = structlog.get_logger()


class Publisher:
    """Publishes until `stop`; the slices stay, as the kubelet removes them if nobody comes back."""

    def __init__(
        self,
        cluster: Cluster,
        driver: str,
        node: str,
        known: Callable[[], bool] = lambda: True,
    ) -> None:
        """known: whether the kubelet that runs now is sure to know the driver."""
        self._driver = driver
        self._known = known
        self._registered = threading.Event()
        self._offers: tuple[Sequence[Offer], str] | None = None
        self._woken = threading.Event()
        self._published = threading.Event()
        self._stopping = threading.Event()
        self._disturbed = False
        self._view = View(cluster, driver, node, self._disturb)
        self._ours, self._theirs = _Pace(LONGEST_REST), _Pace(LONGEST_QUARREL)
        self._said: tuple[str, ...] = ()
        self._problem = "starting"
        self._thread = threading.Thread(target=self._run, name="publish slices", daemon=True)
        self.features = Features()  # what the cluster keeps, as far as that is known
        self.notes: tuple[str, ...] = ()  # what is left out of the slices, and why

    def start(self) -> None:
        """Publish from now on: the kubelet has taken the driver, for the first time or again."""
        self._registered.set()
        if self._thread.ident is None:
            self._thread.start()
            self._view.start()

    def publish(self, offers: Sequence[Offer], unhealthy: str = "NoSchedule") -> None:
        """Offer exactly this; unhealthy: the effect of the taint of unhealthy devices."""
        self._offers = (tuple(offers), unhealthy)
        self._published.set()
        self._woken.set()

    def stop(self) -> None:
        self._stopping.set()
        for event in (self._published, self._registered, self._woken):
            event.set()
        self._view.stop()
        if self._thread.ident is not None:
            self._thread.join(STOP_TIMEOUT)

    @property
    def problem(self) -> str:
        """Why the cluster is not told what there is now; empty if it is."""
        if self._thread.ident is not None and not self._thread.is_alive():
            return "its thread has ended"
        return self._problem or self._view.problem

    def _disturb(self) -> None:
        self._disturbed = True
        self._woken.set()

    def _run(self) -> None:
        failures = 0
        while True:
            if not failures and not self._woken.wait(AUDIT * jitter()):
                self._view.distrust()
            self._woken.clear()
            if self._stopping.is_set():
                return
            try:
                rest = self._step()
                failures = 0
            except ApiError as error:
                failures += 1
                rest = delay(error, failures)
                self._view.distrust()
                self._say(error, failures)
            except Exception:  # noqa: BLE001 - a bug must not end the thread
                failures += 1
                rest = LONGEST_DELAY
                self._view.distrust()
                self._problem = "publishing failed unexpectedly"
                _log.exception(self._problem)
            self._stopping.wait(rest)

    def _step(self) -> float:
        """Do what the facts ask for; returns how long to rest. Raises ApiError."""
        self._published.clear()
        if self._offers is None:
            return 0
        disturbed, self._disturbed = self._disturbed, False
        if disturbed:
            self._stopping.wait(SETTLE * jitter())
        if self._view.stale:
            were_there = bool(self._view.slices)
            self._view.refresh()
            if were_there and not self._view.slices:
                self._hold()
        wrote = self._write()
        if self._problem:
            self._problem = ""
            _log.info("slices are in step", driver=self._driver)
        if disturbed:
            self._published.wait(self._quarrel())
        return self._ours.rest() if wrote and not disturbed else 0

    def _hold(self) -> None:
        """Wait until the kubelet knows the driver, if it may be one that has just started.

        It deletes all slices at once, and looks for drivers when its container runtime is there.
        A Pod that is scheduled between finds none, and waits for a minute or more.
        """
        self._registered.clear()
        if not self._known() and not self._stopping.is_set():
            self._registered.wait(HOLD)

    def _write(self) -> bool:
        """Make the slices what is wanted; returns whether anything had to be written."""
        wrote = False
        while self._offers is not None:
            offers, effect = self._offers
            content = wanted(offers, self._driver, effect, self.features)
            self._note(content)
            todo = plan(self._view.slices, content.contents, self._view.pool)
            for name in todo.delete:
                self._view.delete(name)
            features = self.features
            for slice_ in todo.replace:
                features = survivors(features, slice_, self._view.replace(slice_))
            for slice_ in todo.create:
                features = survivors(features, slice_, self._view.create(slice_))
            if todo != Plan():
                wrote = True
                _log.info(
                    "slices written",
                    driver=self._driver,
                    slices=len(content.contents),
                    created=len(todo.create),
                    replaced=len(todo.replace),
                    deleted=len(todo.delete),
                )
            if features == self.features:
                break
            self._lose(features)
        return wrote

    def _lose(self, features: Features) -> None:
        for name, consequence in _LOST.items():
            if getattr(self.features, name) != getattr(features, name):
                _log.warning("the cluster drops part of the slices", reason=consequence)
        self.features = features

    def _note(self, content: Wanted) -> None:
        lost = [text for name, text in _LOST.items() if not getattr(self.features, name)]
        self.notes = (*lost, *content.notes)
        if content.notes != self._said:
            self._said = content.notes
            for note in content.notes[:_MAX_NAMED]:
                _log.warning("not told to the cluster", reason=note)
            if more := len(content.notes[_MAX_NAMED:]):
                _log.warning("not told to the cluster", reason=f"and {more} more like these")

    def _quarrel(self) -> float:
        """How long others must wait; what is published meanwhile need not."""
        rest = self._theirs.rest()
        if self._theirs.rounds == QUARREL:
            _log.warning(
                "somebody keeps changing our slices",
                driver=self._driver,
                hint="another plugin with this driver's name on this node?",
            )
        return rest

    def _say(self, error: ApiError, failures: int) -> None:
        """Log a problem once, for as long as it is the problem."""
        if error.status == HTTPStatus.CONFLICT and failures == 1:
            return  # somebody was faster; what that is shows in the next list
        if str(error) != self._problem:
            self._problem = str(error)
            _log.warning("slices are not in step", driver=self._driver, reason=self._problem)


class _Pace:
    """How long to rest after a round of writes: longer the more of them there are in a row."""

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._last = -QUIET
        self.rounds = 0

    def rest(self) -> float:
        now = time.monotonic()
        self.rounds = self.rounds + 1 if now - self._last < QUIET + self._longest else 1
        self._last = now
        return doubling(self.rounds, FIRST_REST, self._longest)
