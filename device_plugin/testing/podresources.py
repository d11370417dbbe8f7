"""PodResources v1 on pod-resources/kubelet.sock: the socket, the rate limit, the calls (B)."""

import os
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import grpc

from device_plugin._api.podresources.v1 import podresources_pb2 as pr
from device_plugin.testing import listing
from device_plugin.testing.listener import KUBELET_SOCKET, Listener
from device_plugin.testing.records import Query
from device_plugin.testing.state import State
from device_plugin.testing.troubles import Method, Refused, Troubles

_SERVICE = "v1.PodResourcesLister"
_QPS, _BURST = 100, 10

_Request = pr.ListPodResourcesRequest | pr.AllocatableResourcesRequest | pr.GetPodResourcesRequest
_REQUESTS: dict[Method, type[_Request]] = {
    "List": pr.ListPodResourcesRequest,
    "GetAllocatableResources": pr.AllocatableResourcesRequest,
    "Get": pr.GetPodResourcesRequest,
}


class Limiter:
    """A bucket of tokens, full at first: so many calls at once, and so many a second after that."""

    def __init__(self, qps: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._qps, self._burst, self._clock = qps, burst, clock
        self._tokens, self._filled = float(burst), clock()
        self._lock = threading.Lock()

    def allow(self) -> bool:
        with self._lock:
            now = self._clock()
            self._tokens = min(self._burst, self._tokens + (now - self._filled) * self._qps)
            self._filled = now
            if self._tokens < 1:
                return False
            self._tokens -= 1
            return True


class PodResources(Troubles):
    """The server; what a test may do to it is in Troubles, `vanish` and `appear`."""

    def __init__(self, directory: Path, state: State) -> None:
        super().__init__(state)
        self.directory = directory
        self._present = True
        self._listener: Listener | None = None
        self._limiter = Limiter(_QPS, _BURST)

    @property
    def queries(self) -> list[Query]:
        """Every call, over kubelet restarts too."""
        with self._state.condition:
            return list(self._state.queries)

    # --- life ---

    def start(self) -> None:
        """Listen at a name that nobody knows and rename it: the socket serves once it is seen."""
        if not self._present:
            return
        path = self.directory / KUBELET_SOCKET
        path.unlink(missing_ok=True)
        self.directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self.directory, prefix="")
        os.close(handle)
        Path(name).unlink()
        self._limiter = Limiter(_QPS, _BURST)  # one for all methods
        self._listener = Listener(Path(name), self._add)
        Path(name).rename(path)

    def stop(self) -> None:
        """Drop connections and leave a socket behind that refuses."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def vanish(self) -> None:
        """Have no socket, now and after each start, until `appear`."""
        self._present = False
        self.stop()
        (self.directory / KUBELET_SOCKET).unlink(missing_ok=True)

    def appear(self) -> None:
        self._present = True
        with self._state.condition:
            running = self._state.running
        if running and self._listener is None:
            self.start()

    # --- calls ---

    def _add(self, server: grpc.Server) -> None:
        handlers: dict[str, grpc.RpcMethodHandler[_Request, bytes]] = {
            method: grpc.unary_unary_rpc_method_handler(
                self._handler(method), request_deserializer=request.FromString
            )
            for method, request in _REQUESTS.items()
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))

    def _handler(self, method: Method) -> Callable[[_Request, grpc.ServicerContext], bytes]:
        """Make the function for a method; it returns bytes, because these may be nonsense."""

        def handle(request: _Request, context: grpc.ServicerContext) -> bytes:
            started, answer, refused = time.monotonic(), b"", None
            try:
                self._limit()
                instead = self._suffer(method, context)
                answer = self._answer(request) if instead is None else instead
            except Refused as error:
                refused = error
            with self._state.changing():
                text = refused.text if refused else None
                self._state.queries.append(Query(started, method, text))
            if refused:
                context.abort(refused.code, refused.text)
            return answer

        return handle

    def _limit(self) -> None:
        if not self._limiter.allow():
            raise Refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")

    def _answer(self, request: _Request) -> bytes:
        with self._state.changing():  # List frees what is held no longer
            if isinstance(request, pr.ListPodResourcesRequest):
                return listing.list_pods(self._state).SerializeToString()
            if isinstance(request, pr.AllocatableResourcesRequest):
                return listing.allocatable(self._state).SerializeToString()
            name, namespace = request.pod_name, request.pod_namespace
            found = listing.get_pod(self._state, name, namespace)
        if found is None:  # a plain error in Go, hence the code
            text = f"pod {name} in namespace {namespace} not found"
            raise Refused(grpc.StatusCode.UNKNOWN, text)
        return found.SerializeToString()
