"""Our slices as the API server has them: listed once, then watched for what others do to them.

Events say only "list again"; what we wrote ourselves is known and is no event.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus

import structlog

from device_plugin.dra.cluster import ApiError, Cluster, Json, Watch, delay
from device_plugin.dra.pool import Pool, name_of, version_of

_DELETED, _BOOKMARK = "DELETED", "BOOKMARK"
STOP_TIMEOUT = 0.5  # seconds; a call in flight may last longer, and is left to itself
STEADY = 10.0  # seconds after which a watch that breaks is no sign of trouble
_log = structlog.get_logger()


class View:
    """The slices of one driver on one node; `changed` is called when somebody else changes them."""

    def __init__(
        self, cluster: Cluster, driver: str, node: str, changed: Callable[[], None]
    ) -> None:
        self._cluster, self._driver, self._node = cluster, driver, node
        self._changed = changed
        self._lock = threading.Lock()  # held while we write: the event must not come before
        self._slices: dict[str, Json] = {}
        self._listed_at = ""  # a resourceVersion
        self._read_to = ""  # another
        self._stale = True
        self._watch: Watch | None = None
        self._listed = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="watch slices", daemon=True)
        self.pool = Pool(driver, node, "")
        self.problem = ""  # why we would not notice what others do

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._listed.set()
        if self._watch is not None:
            self._watch.stop()
        if self._thread.ident is not None:
            self._thread.join(STOP_TIMEOUT)

    @property
    def stale(self) -> bool:
        """Whether the slices may be others by now."""
        return self._stale

    @property
    def slices(self) -> list[Json]:
        return list(self._slices.values())

    def distrust(self) -> None:
        """A write failed: who knows what the API server made of it."""
        self._stale = True

    def refresh(self) -> None:
        """List. Raises ApiError."""
        with self._lock:
            self._stale = True
            uid = self._cluster.node_uid(self._node)
            listed, self._listed_at = self._cluster.slices(self._driver, self._node)
            self.pool = Pool(self._driver, self._node, uid)
            self._slices = {name_of(one): _lean(one) for one in listed}
            self._stale = False
        self._listed.set()

    def create(self, slice_: Json) -> Json:
        with self._lock:
            return self._note(self._cluster.create(slice_))

    def replace(self, slice_: Json) -> Json:
        with self._lock:
            return self._note(self._cluster.replace(slice_))

    def delete(self, name: str) -> None:
        with self._lock:
            self._cluster.delete(name)
            self._slices.pop(name, None)

    def _note(self, stored: Json) -> Json:
        self._slices[name_of(stored)] = _lean(stored)
        return stored

    def _follow(self) -> None:
        """Watch from each list on, until the API server has forgotten what came after it."""
        while True:
            self._listed.wait()
            self._listed.clear()
            self._read_to = self._listed_at
            failures, error = 0, None
            while error is None or error.status != HTTPStatus.GONE:
                if self._stopping.is_set():
                    return
                started = time.monotonic()
                error = self._read()
                steady = error is None or time.monotonic() - started > STEADY
                failures = int(error is not None) if steady else failures + 1
                self._say(error if failures > 1 or (error and error.status) else None)
                self._stopping.wait(delay(error or ApiError(""), max(failures, 1)))
            self._look_again()

    def _read(self) -> ApiError | None:
        """Watch once, from where the last watch ended; returns what broke it."""
        try:
            self._watch = self._cluster.watch(self._driver, self._node, self._read_to)
            if self._stopping.is_set():  # stop() may have come a moment too early
                return None
            for kind, one in self._watch:
                self._read_to, self.problem = version_of(one), ""
                if kind != _BOOKMARK and self._is_foreign(kind, one):
                    self._look_again()
        except ApiError as error:
            return error
        except Exception as error:  # noqa: BLE001 - a bug must not end the thread
            _log.exception("watching failed unexpectedly")
            return ApiError(f"watching failed unexpectedly: {error}")
        return None

    def _say(self, error: ApiError | None) -> None:
        """Log a problem once; that a connection breaks now and then is none."""
        expired = error is not None and error.status == HTTPStatus.GONE
        problem = "" if error is None or expired else str(error)
        if problem and problem != self.problem:
            _log.warning("slices are not watched", driver=self._driver, reason=problem)
        self.problem = problem

    def _look_again(self) -> None:
        self._stale = True
        self._changed()

    def _is_foreign(self, kind: str, one: Json) -> bool:
        """Whether somebody else did it, after what we know."""
        with self._lock:
            known = self._slices.get(name_of(one))
            if kind == _DELETED:
                return known is not None
            since = version_of(known) if known is not None else self._listed_at
            return _is_newer(version_of(one), since)


def _is_newer(version: str, since: str) -> bool:
    with suppress(ValueError):  # they are numbers, but only lately by contract
        return int(version) > int(since)
    return version != since


def _lean(slice_: Json) -> Json:
    """Without who wrote which field, which is most of it; left out it stays as it is."""
    slice_["metadata"].pop("managedFields", None)
    return slice_
