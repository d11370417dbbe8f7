"""The API server's HTTP: paths to requests, answers, and watches that stream."""

import json
import re
import select
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Protocol
from urllib.parse import parse_qs, unquote, urlsplit

from device_plugin.testing.apiserver.refusals import JSON, Refusal, bad_request
from device_plugin.testing.apiserver.store import KINDS
from device_plugin.testing.apiserver.troubles import Request, Verb

_PATH = re.compile(
    r"/api(s/(?P<group>[^/]+))?/v1(/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<plural>[^/]+)(/(?P<name>[^/]+)(/(?P<part>status))?)?"
)
_VERBS: dict[tuple[str, bool], Verb] = {
    ("GET", True): "get",
    ("GET", False): "list",
    ("POST", False): "create",
    ("PUT", True): "update",
    ("DELETE", True): "delete",
    ("DELETE", False): "deletecollection",
}
_METHOD_NOT_ALLOWED = "the server does not allow this method on the requested resource"


@dataclass(frozen=True, slots=True)
class Call:
    """A request with what else its path and query say."""

    request: Request
    query: Mapping[str, str]
    part: str  # "status", or empty


class Service(Protocol):
    """What answers."""

    @property
    def version(self) -> JSON: ...
    def serves(self, group: str) -> bool: ...
    def answer(self, call: Call) -> JSON: ...
    def watch(self, call: Call, gone: Callable[[], bool]) -> Iterator[JSON]: ...
    def note(self, request: Request, code: int) -> None: ...


class Http(ThreadingHTTPServer):
    """Listens on the loopback address; `close` drops every connection."""

    daemon_threads = False  # so that `server_close` waits for them
    request_queue_size = 128

    def __init__(self, port: int, service: Service) -> None:
        self.service = service
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), Handler)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def entered(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.add(connection)

    def left(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.discard(connection)

    def close(self) -> None:
        self.shutdown()
        with self._lock:
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self.server_close()
        self._thread.join()

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that leave are no event; nor is anything printed into a test's output."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Http

    def setup(self) -> None:
        super().setup()
        self.server.entered(self.connection)

    def finish(self) -> None:
        self.server.left(self.connection)
        with suppress(OSError):
            super().finish()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""

    def do_GET(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def do_PUT(self) -> None:
        self._handle()

    def do_PATCH(self) -> None:
        self._handle()

    def do_DELETE(self) -> None:
        self._handle()

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        service, address = self.server.service, urlsplit(self.path)
        found = _PATH.fullmatch(address.path)
        if address.path == "/version":
            self._send(200, service.version)
            return
        kinds = [
            kind
            for kind in KINDS
            if found and (kind.group, kind.plural) == (found["group"] or "", found["plural"])
        ]
        if not found or not kinds or not service.serves(kinds[0].group):
            # Also what a server says that has no such version of a group: no Status, plain text.
            self._send_raw(404, b"404 page not found\n", "text/plain; charset=utf-8")
            return
        request = Request(
            "get",
            kinds[0],
            unquote(found["name"] or ""),
            unquote(found["namespace"] or ""),
            token=self.headers.get("Authorization", "").removeprefix("Bearer "),
        )
        query = {key: values[-1] for key, values in parse_qs(address.query).items()}
        self._serve(Call(request, query, found["part"] or ""), body)

    def _serve(self, call: Call, body: bytes) -> None:
        request, service = call.request, self.server.service
        try:
            request.verb = self._verb(call)
            request.body = _read(body)
            answer = service.answer(call)
            events = service.watch(call, self._is_gone) if request.verb == "watch" else None
        except Refusal as refusal:
            service.note(request, refusal.code)
            headers = {}
            if refusal.retry_after is not None:
                headers["Retry-After"] = str(refusal.retry_after)
            self._send(refusal.code, refusal.status, headers)
            return
        code = 201 if request.verb == "create" else 200
        service.note(request, code)
        if events is not None:
            self._stream(events)
        else:
            self._send(code, answer)

    def _verb(self, call: Call) -> Verb:
        verb = _VERBS.get((self.command, bool(call.request.name)))
        if verb is None:
            raise Refusal(405, "MethodNotAllowed", _METHOD_NOT_ALLOWED)
        watches = call.query.get("watch") in ("1", "true")
        return "watch" if verb == "list" and watches else verb

    def _send(self, code: int, answer: JSON, headers: Mapping[str, str] | None = None) -> None:
        self._send_raw(code, json.dumps(answer).encode(), "application/json", headers)

    def _send_raw(
        self, code: int, body: bytes, kind: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, events: Iterator[JSON]) -> None:
        """One JSON object a line, for as long as both sides want."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            self._send_chunk(json.dumps(event).encode() + b"\n")
        self._send_chunk(b"")

    def _send_chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _is_gone(self) -> bool:
        """Whether the client has closed the connection."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        try:
            return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)
        except OSError:
            return True


def _read(body: bytes) -> JSON | None:
    if not body:
        return None
    try:
        found = json.loads(body)
    except ValueError as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error
    if not isinstance(found, dict):
        raise bad_request("couldn't get version/kind; json parse error: no object")
    return found
