"""/healthz, /readyz and /metrics, without a thread that polls."""

import contextlib
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any

import structlog

Page = Callable[[], tuple[bool, str]]  # whether all is well, and the body

_MAX_REQUESTS = 8  # at once; a probe and a scrape are two
_PAUSE = 0.1  # seconds
_TIMEOUT = 10  # seconds for a client to say what it wants

_log = structlog.get_logger()


class WebServer(ThreadingTCPServer):
    """Serves `pages` by path until `stop`."""

    allow_reuse_address = True
    request_queue_size = 128  # a crowd is turned away at once, and does not make a probe wait
    daemon_threads = True
    block_on_close = False

    def __init__(self, where: tuple[str, int], pages: Mapping[str, Page]) -> None:
        """Raises OSError where the address cannot be had."""
        host, port = where
        both = not host and socket.has_dualstack_ipv6()
        if both or ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), _Handler, bind_and_activate=False)
        if both:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self.pages = pages
        self._open: deque[socket.socket] = deque()  # oldest first
        self._stopping = False
        self._pause = threading.Event()
        try:
            self.server_bind()
            self.server_activate()
        except OSError:
            self.server_close()
            raise
        self._thread = threading.Thread(target=self._serve, name="http", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        port: int = self.server_address[1]
        return port

    def stop(self) -> None:
        self._stopping = True
        self._pause.set()
        self.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread
        self._thread.join()
        self.server_close()

    def get_request(self) -> tuple[Any, Any]:
        try:
            return super().get_request()
        except OSError:  # out of files, mostly: the next try must not come at once
            self._pause.wait(_PAUSE)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Give each a thread, within bounds: a crowd costs the oldest its place.

        Who talks slowly must not keep the kubelet's probes out.
        """
        while len(self._open) >= _MAX_REQUESTS:
            with contextlib.suppress(OSError):
                self._open.popleft().shutdown(socket.SHUT_RDWR)
        self._open.append(request)
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no more threads to be had
            self._forget(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._forget(request)

    def _forget(self, request: socket.socket) -> None:
        with contextlib.suppress(ValueError):  # it has lost its place already
            self._open.remove(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401, ARG002
        """A client that goes away is nothing to log; a page that fails is."""
        if not isinstance(sys.exception(), OSError):
            _log.exception("HTTP request failed")

    def _serve(self) -> None:
        while not self._stopping:
            self.handle_request()


class _Handler(BaseHTTPRequestHandler):
    server: WebServer
    server_version = "device-plugin"
    sys_version = ""
    error_content_type = "text/plain; charset=utf-8"
    error_message_format = "%(code)d %(message)s\n"
    timeout = _TIMEOUT

    def do_GET(self) -> None:
        page = self.server.pages.get(self.path.partition("?")[0])
        if page is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        well, body = page()
        content = body.encode()
        self.send_response(HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Probes come every few seconds: nothing to log."""
