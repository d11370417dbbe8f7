"""The driver at the kubelet: served and registered, kept so, and told of whatever is new.

A thread looks at facts and does what follows from them; events and the audit only wake it. The
facts: are our two sockets there, is there news of devices. The kubelet registers whom it finds,
and tries again by itself.
"""

import math
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import grpc
import structlog

from device_plugin import backoff
from device_plugin.dra.claims import Claims
from device_plugin.dra.health import MAX_STREAMS, Health, report
from device_plugin.dra.offer import Offer
from device_plugin.dra.servicers import Registration, add_claims, add_health
from device_plugin.dra.sockets import Folders, listen

# Calls for claims at once, a thread each. More than a kubelet has Pods: those to prepare may all
# wait for the API server (claims.py lets few of them ask), and none to unprepare is refused then.
_CALLS = 512
_REGISTRATION_CALLS = 2
_PATIENCE = 10.0  # seconds with the kubelet, which looks once a second, before it is a problem
_GRACE = 0.3  # seconds for calls in flight when a server stops
_FIRST_DELAY, _LONGEST_DELAY = 0.05, 15.0  # seconds between attempts, doubling, with jitter
_STALE = 60.0  # seconds between attempts to let go of claims of an earlier boot
_STEADY = 10.0  # seconds after which a socket that is lost is no sign of trouble

_log = structlog.get_logger()


class _Sockets:
    """One pair of sockets, as `sockets` says, and what is served there."""

    def __init__(
        self,
        folders: Folders,
        add: Callable[[grpc.Server], None],
        register: Callable[[str], Registration],
    ) -> None:
        """Raises OSError, with what to do, where they cannot be made."""
        folders.make()
        serving, registering = folders.new()
        self.made = time.monotonic()
        self.registration = register(str(serving))
        self._serving = listen(serving, add, MAX_STREAMS + _CALLS)
        try:
            self._registering = listen(registering, self.registration.add, _REGISTRATION_CALLS)
        except OSError:
            self._serving.stop(0)
            raise

    @property
    def are_there(self) -> bool:
        return self._serving.is_there and self._registering.is_there

    @property
    def path(self) -> Path:
        """Of the socket that the kubelet looks for."""
        return self._registering.path

    def stop(self, end_streams: Callable[[], None]) -> None:
        """See that the kubelet does not call any more, then end what it called."""
        self._registering.stop(0)
        end_streams()
        self._serving.stop(_GRACE)


class Service(threading.Thread):
    """Keeps the driver served and registered from `start` to `stop`."""

    def __init__(
        self,
        *,
        claims: Claims,
        offers: Callable[[], Sequence[Offer]],
        driver: str,
        pool: str,
        kubelet_root: Path,
        on_registered: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_registered` is called whenever the kubelet has taken the driver."""
        super().__init__(name="dra")
        self._on_registered = on_registered
        self._registered_at = 0.0
        self._claims = claims
        self._driver, self._pool = driver, pool
        self._folders = Folders(kubelet_root, driver)
        self._health = Health(lambda: report(offers(), claims.prepared))
        self._log = _log.bind(driver=driver)
        self._woken = threading.Event()
        self._stopping = False
        self._sockets: _Sockets | None = None
        self._problem = self._said = "starting"
        self._failures = 0
        self._serve_at = 0.0
        self._stale_at = 0.0  # when claims of an earlier boot are asked for; none left: never

    @property
    def folders(self) -> list[Path]:
        """Where a change may concern us: `wake` then."""
        return [self._folders.registry, self._folders.plugins, self._folders.serving]

    @property
    def registered(self) -> bool:
        sockets = self._sockets
        return sockets is not None and sockets.registration.registered

    @property
    def known(self) -> bool:
        """Whether the kubelet that runs now is sure to know the driver: it asks for its health."""
        return self._health.streams > 0

    @property
    def problem(self) -> str:
        """What keeps claims from being prepared, containers from starting, Pods from ending."""
        if self.ident is not None and not self.is_alive():
            return "its thread has ended"
        return "; ".join(filter(None, (self._problem, self._claims.problem)))

    def wake(self) -> None:
        """Look at the facts again."""
        self._woken.set()

    def news(self) -> None:
        """The devices, or what claims have of them, may be another."""
        self._health.news()
        self._woken.set()

    def stop(self) -> None:
        """Take the sockets away; `join` waits until that is done."""
        self._stopping = True
        self._woken.set()

    def run(self) -> None:
        for name in self._folders.remove_leftovers():
            self._log.info("removed a socket of an earlier process", socket=name)
        while True:
            self._woken.clear()
            if self._stopping:  # asked after clear(), which may have swallowed stop()'s word
                break
            try:
                wait = self._step(time.monotonic())
            except Exception:  # noqa: BLE001 - a bug must not end the thread
                self._log.exception("serving claims failed unexpectedly")
                wait = _LONGEST_DELAY
            self._woken.wait(wait)
        if self._sockets is not None:
            self._sockets.stop(self._health.end_streams)

    def _step(self, now: float) -> float | None:
        """Do what the facts ask for; returns seconds until the next look, None for no limit."""
        self._claims.renew()
        wait = self._serve(now)
        if now >= self._stale_at:
            self._stale_at = math.inf
            try:
                threading.Thread(target=self._forget_stale, daemon=True).start()
            except RuntimeError:  # no thread to be had now
                self._stale_at = now + _STALE
        left = self._stale_at - now
        return wait if left == math.inf else min(left, math.inf if wait is None else wait)

    def _forget_stale(self) -> None:
        """On a thread of its own: the API server may be slow."""
        done = False
        try:
            done = self._claims.forget_stale()
        except Exception:  # noqa: BLE001 - a bug must not be the last attempt
            self._log.exception("letting go of an earlier boot's claims failed unexpectedly")
        if not done:
            self._stale_at = time.monotonic() + _STALE
            self.wake()

    def _serve(self, now: float) -> float | None:
        """Listen, and say how it stands; returns seconds until that is tried again."""
        if self._sockets is not None and not self._sockets.are_there:
            self._lose(self._sockets, now)
        if self._sockets is None:
            if now < self._serve_at:
                return self._serve_at - now
            try:
                self._sockets = self._made()
            except OSError as error:
                self._say(str(error))
                self._failures += 1
                self._serve_at = now + _delay(self._failures)
                return self._serve_at - now
        return self._judge(self._sockets, now)

    def _judge(self, sockets: _Sockets, now: float) -> float | None:
        """Say how the registration stands; a kubelet that takes a second to look is no news."""
        registration = sockets.registration
        if registration.registered:
            self._say("")
            if self._registered_at != registration.at:
                self._registered_at = registration.at
                self._on_registered()
        elif registration.error:
            self._say(f"the kubelet refused: {registration.error}")
        else:
            problem = f"waiting for the kubelet: it has not taken {sockets.path} yet"
            if (left := sockets.made + _PATIENCE - now) > 0:
                self._problem = problem
                return left
            self._say(problem)
        return None

    def _made(self) -> _Sockets:
        def add(server: grpc.Server) -> None:
            add_claims(self._claims, self._health.news, server)
            add_health(self._health, self._pool, server)

        return _Sockets(
            self._folders, add, lambda endpoint: Registration(self._driver, endpoint, self.wake)
        )

    def _lose(self, sockets: _Sockets, now: float) -> None:
        """Somebody removed a socket; a first time is mended at once, a series slowly."""
        self._log.info("socket is gone", socket=sockets.path.name)
        self._sockets = None
        sockets.stop(self._health.end_streams)
        self._failures = 0 if now - sockets.made >= _STEADY else self._failures + 1
        self._serve_at = now + (_delay(self._failures) if self._failures > 1 else 0)

    def _say(self, problem: str) -> None:
        """Log how it stands, once for as long as it does."""
        self._problem = problem
        if problem == self._said:
            return
        self._said = problem
        if problem:
            self._log.warning("driver not registered", reason=problem)
        else:
            self._log.info("driver registered")


def _delay(failures: int) -> float:
    """Seconds to wait after so many failures in a row."""
    return backoff.delay(failures, _FIRST_DELAY, _LONGEST_DELAY)
