"""One resource at the kubelet: serve, register, notice when that is lost, stop.

A thread per resource looks at facts and does what follows from them; events and the audit only
wake it. The facts: is our socket file still ours, which kubelet.sock is there, is ListAndWatch
open. What follows from them is in `_step`.
"""

import math
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import grpc
import msgspec
import structlog

from device_plugin import backoff
from device_plugin._api.deviceplugin.v1beta1 import deviceplugin_pb2 as pb
from device_plugin._api.deviceplugin.v1beta1 import deviceplugin_pb2_grpc as pb_grpc
from device_plugin.endpoint import KUBELET_SOCKET, Endpoint, why_unreachable
from device_plugin.listener import TO_A_KUBELET, Identity, identity, is_dead, target
from device_plugin.metrics import Metrics
from device_plugin.plugin import OPTIONS, Plugin

VERSION = "v1beta1"
REGISTER_DEADLINE = 15.0  # seconds; the kubelet dials back for up to 10 within the call
# Seconds from an accepted registration to its ListAndWatch, doubling with each that was in vain: a
# loaded kubelet may be as late each time.
STREAM_DEADLINE, LONGEST_STREAM_DEADLINE = 5.0, 40.0
SETTLED = 0.3  # seconds without another process's newer socket, after which that has left
STEADY = 10.0  # seconds after which a stream that ends is no sign of trouble
LONGEST_REST = 1.0  # seconds between sockets that somebody keeps removing
# Seconds between attempts, doubling, with jitter. The first is short: a new kubelet.sock may be
# seen a moment before the kubelet listens on it.
FIRST_DELAY, LONGEST_DELAY = 0.02, 15.0

# The kubelet's errors come as UNKNOWN with a text; these are gRPC's own.
_ADVICE = {
    grpc.StatusCode.DEADLINE_EXCEEDED: "no answer in time: the kubelet hangs, or cannot reach us",
    grpc.StatusCode.UNIMPLEMENTED: "whoever answers there is no kubelet",
}


class _Call(msgspec.Struct, frozen=True):
    """A Register call in flight."""

    kubelet: Identity
    channel: grpc.Channel
    future: "grpc.Future[pb.Empty]"
    started: float

    def close(self) -> None:
        self.future.cancel()
        self.channel.close()


class _Accepted(msgspec.Struct):
    """A registration that the kubelet accepted."""

    kubelet: Identity
    since: float
    alone_at: float | None = None  # when another process that came after us counts as gone


class Server(threading.Thread):
    """Keeps one resource registered until `stop`."""

    def __init__(
        self,
        resource: str,
        folder: Path,
        make_plugin: Callable[[str, Callable[[], None]], Plugin],
        metrics: Metrics,
    ) -> None:
        """`make_plugin` takes the resource, and what to call when a stream opens or ends."""
        super().__init__(name=f"server {resource}")
        self.resource = resource
        self._folder = folder
        self._make_plugin = make_plugin
        self._metrics = metrics
        self._kubelet_socket = folder / KUBELET_SOCKET
        self._log = structlog.get_logger().bind(resource=resource)
        self._woken = threading.Event()
        self._stopping = False
        self._endpoint: Endpoint | None = None
        self._call: _Call | None = None
        self._accepted: _Accepted | None = None
        self._tried: Identity | None = None  # the kubelet that the failures below are about
        self._failures = 0
        self._not_before = 0.0
        self._losses = 0  # of our socket, in a row under the same kubelet
        self._lost_under: Identity | None = None
        self._serve_at = 0.0
        self._has_rival = False
        self._problem = "starting"

    def wake(self) -> None:
        """Look at the facts again."""
        self._woken.set()

    def stop(self) -> None:
        self._stopping = True
        self._woken.set()

    @property
    def registered(self) -> bool:
        return self._accepted is not None

    @property
    def streams(self) -> int:
        endpoint = self._endpoint
        return endpoint.plugin.streams if endpoint is not None else 0

    @property
    def problem(self) -> str:
        """Why the kubelet does not see the devices now; empty while it does."""
        if self.ident is not None and not self.is_alive():
            return "its thread has ended"
        if not self.registered:
            return self._problem or "not registered yet"
        return "" if self.streams else "registered, ListAndWatch is not open"

    def run(self) -> None:
        while True:
            self._woken.clear()
            if self._stopping:  # asked after clear(), which may have swallowed stop()'s word
                break
            try:
                wait = self._step(time.monotonic())
            except Exception:  # noqa: BLE001 - a bug must not end the thread
                self._log.exception("registration failed unexpectedly")
                wait = LONGEST_DELAY
            self._woken.wait(wait)
        self._end_call()
        if self._endpoint is not None:
            self._endpoint.stop()

    def _step(self, now: float) -> float | None:
        """Do what the facts ask for; returns seconds until the next look, None for no limit."""
        kubelet = identity(self._kubelet_socket)
        wait = self._serve(kubelet, now)
        if wait:
            return wait
        if self._call is not None and self._call.kubelet != kubelet:
            self._end_call()
        if kubelet is None:
            self._accepted = None
            self._say(f"waiting for the kubelet: no socket at {self._kubelet_socket}")
            return None
        if self._call is not None:
            if not self._call.future.done():
                return None
            self._take_answer(self._call, now)
        if self._accepted is not None:
            lost, limit = self._is_lost(self._accepted, kubelet, now)
            if not lost:
                return limit
            self._lose(self._accepted, lost, now)
        return self._register(kubelet, now)

    def _serve(self, kubelet: Identity | None, now: float) -> float:
        """Listen on a socket of ours; returns 0, or seconds until that may be tried again."""
        if self._endpoint is not None and not self._endpoint.is_there:
            self._lose_socket(self._endpoint, kubelet, now)
        if self._endpoint is None and now >= self._serve_at:
            try:
                self._endpoint = Endpoint(self._folder, self._make_plugin(self.resource, self.wake))
            except OSError as error:
                self._say(str(error))
                self._failures += 1
                return _delay(self._failures)
        return 0 if self._endpoint is not None else self._serve_at - now

    def _lose_socket(self, endpoint: Endpoint, kubelet: Identity | None, now: float) -> None:
        """A starting kubelet removes sockets and gets a new one at once; others wait longer."""
        self._log.info("socket is gone", socket=endpoint.name)
        self._drop_endpoint()
        self._losses = self._losses + 1 if kubelet == self._lost_under else 0
        self._lost_under = kubelet
        self._serve_at = now + (min(_delay(self._losses), LONGEST_REST) if self._losses else 0)

    def _drop_endpoint(self) -> None:
        self._end_call()
        self._accepted = None
        if self._endpoint is not None:
            self._endpoint.stop()
            self._endpoint = None

    def _is_lost(
        self, accepted: _Accepted, kubelet: Identity, now: float
    ) -> tuple[str, float | None]:
        """Why the registration holds no longer, or until when it may still turn out so."""
        assert self._endpoint is not None  # noqa: S101 - _serve() has seen to it
        plugin = self._endpoint.plugin
        if accepted.kubelet != kubelet:
            return "the kubelet restarted", None
        if plugin.streams:
            return self._is_outlasting(accepted, self._endpoint, now)
        if plugin.was_opened:
            return "the kubelet ended ListAndWatch", None
        deadline = backoff.doubling(self._failures + 1, STREAM_DEADLINE, LONGEST_STREAM_DEADLINE)
        left = accepted.since + deadline - now
        if left <= 0:
            return f"no ListAndWatch within {deadline:g} s of the registration", None
        return "", left

    def _is_outlasting(
        self, accepted: _Accepted, endpoint: Endpoint, now: float
    ) -> tuple[str, float | None]:
        """Whether another process came after us and left.

        A kubelet of 1.36 then takes the resource for gone, and yet keeps our stream open.
        """
        successors = endpoint.successors()
        if successors and accepted.alone_at is None:
            accepted.alone_at = math.inf
        self._name_rival(successors or (endpoint.rivals() if now - accepted.since > 1 else []))
        if accepted.alone_at is None:
            return "", None
        if not all(map(is_dead, successors)):
            accepted.alone_at = math.inf
            return "", None
        accepted.alone_at = min(accepted.alone_at, now + SETTLED)
        left = accepted.alone_at - now
        return ("", left) if left > 0 else ("another process came and left", None)

    def _name_rival(self, sockets: Sequence[Path]) -> None:
        """Say once that another process is there; one that is on its way out is none."""
        if sockets and not self._has_rival:
            self._log.warning("another process offers this resource too", socket=sockets[0].name)
        self._has_rival = bool(sockets)

    def _lose(self, accepted: _Accepted, why: str, now: float) -> None:
        """The kubelet does not have us any more. A first time is mended at once, a series slowly.

        The socket is given up too, and with it a stream that may still be open.
        """
        self._say(why)
        self._drop_endpoint()
        steady = now - accepted.since >= STEADY
        self._failures = 1 if steady else self._failures + 1
        self._not_before = now + (_delay(self._failures - 1) if self._failures > 1 else 0)

    def _register(self, kubelet: Identity, now: float) -> float | None:
        """Start a Register call, unless this kubelet has failed us just now."""
        if kubelet != self._tried:
            self._tried, self._failures, self._not_before = kubelet, 0, now
        if now < self._not_before:
            return self._not_before - now
        if self._endpoint is None or self._endpoint.spent:
            self._drop_endpoint()  # with the stream of an earlier registration, if there is one
            return 0
        if identity(self._kubelet_socket) != kubelet:
            return 0  # it has come meanwhile: a call to it must not count as one to its predecessor
        self._endpoint.spent = True
        channel = grpc.insecure_channel(target(self._kubelet_socket), TO_A_KUBELET)
        request = pb.RegisterRequest(
            version=VERSION,
            endpoint=self._endpoint.name,
            resource_name=self.resource,
            options=OPTIONS,
        )
        stub = pb_grpc.RegistrationStub(channel)
        future = stub.Register.future(request, timeout=REGISTER_DEADLINE)
        self._call = _Call(kubelet, channel, future, now)
        future.add_done_callback(lambda _: self.wake())
        return None

    def _take_answer(self, call: _Call, now: float) -> None:
        error = call.future.exception()
        self._end_call()
        self._metrics.registered(self.resource, _outcome(error))
        if error is None:
            self._accepted = _Accepted(call.kubelet, now)
            self._problem = ""
            self._log.info("registered", took_ms=round((now - call.started) * 1000, 1))
            return
        self._failures += 1
        self._not_before = now + _delay(self._failures)
        self._say(self._reason(error))

    def _reason(self, error: BaseException) -> str:
        if not isinstance(error, grpc.RpcError) or not isinstance(error, grpc.Call):
            return str(error) or type(error).__name__
        if error.code() is grpc.StatusCode.UNAVAILABLE:
            return f"{self._kubelet_socket}: {why_unreachable(self._kubelet_socket)}"
        advice = _ADVICE.get(error.code())
        if advice is not None:
            return f"{self._kubelet_socket}: {advice}"
        return f"the kubelet refused: {error.details()}"

    def _end_call(self) -> None:
        if self._call is not None:
            self._call.close()
            self._call = None

    def _say(self, problem: str) -> None:
        """Log a reason once, for as long as it is the reason."""
        if problem != self._problem:
            self._problem = problem
            self._log.warning("not registered", reason=problem)


def _outcome(error: BaseException | None) -> str:
    if error is None:
        return "accepted"
    no_answer = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
    unreachable = isinstance(error, grpc.Call) and error.code() in no_answer
    return "unreachable" if unreachable else "refused"


def _delay(failures: int) -> float:
    """Seconds to wait after so many failures in a row."""
    return backoff.delay(failures, FIRST_DELAY, LONGEST_DELAY)
