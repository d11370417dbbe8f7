"""The unix socket in the state folder: what the daemon knows, and devices taken out of service.

Who holds what is nobody's business but root's, so it is not served over HTTP. One request a
connection: a JSON object in a line, answered by one. Only the standard library: the commands that
ask must not load the daemon.
"""

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

_NAME = "status.sock"
_MODE = 0o600
_TIMEOUT = 10.0  # seconds that who asks waits for the answer
_DEADLINE = 2.0  # seconds to ask in, and to take the answer in: others wait meanwhile
_REQUEST_LIMIT = 8192  # bytes
_CHUNK = 65536

Answer = dict[str, object]
Handler = Callable[[dict[str, str]], Answer]


class Unreachable(Exception):  # noqa: N818 - an answer: what to do next
    """Why the daemon cannot be asked."""


class Refusal(Exception):  # noqa: N818
    """Why the daemon does not do as it was asked."""


def ask(state_dir: Path, request: dict[str, str]) -> Answer:
    """Ask the running daemon. Raises Unreachable, or Refusal with the daemon's own words."""
    path = state_dir / _NAME
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(_TIMEOUT)
            client.connect(os.fspath(path))
            client.sendall(json.dumps(request).encode() + b"\n")
            client.shutdown(socket.SHUT_WR)
            answer: Answer = json.loads(_read_all(client))
    except (FileNotFoundError, ConnectionRefusedError):
        raise Unreachable(
            f"no daemon answers at {path}: is it running, and is this its --state-dir?"
        ) from None
    except PermissionError:
        raise Unreachable(f"{path}: permission denied: ask as root, or as its owner") from None
    except (OSError, ValueError) as error:
        raise Unreachable(f"{path}: {error}") from None
    if "error" in answer:
        raise Refusal(str(answer["error"]))
    return answer


def _read_all(client: socket.socket) -> bytes:
    pieces = []
    while piece := client.recv(_CHUNK):
        pieces.append(piece)
    return b"".join(pieces)


class StatusServer:
    """Answers on the socket until `stop`; one after the other, on a thread of its own."""

    def __init__(self, state_dir: Path, handler: Handler) -> None:
        """`handler` may raise Refusal. Raises OSError where there can be no socket."""
        self._path = state_dir / _NAME
        self._handler = handler
        # Served before it is seen; the state folder is ours alone, so what is there is a leftover.
        fresh = self._path.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            os.fchmod(self._socket.fileno(), _MODE)  # before it can be found
            self._socket.bind(os.fspath(fresh))
            self._socket.listen()
            fresh.rename(self._path)
        except OSError:
            self._socket.close()
            raise
        self._client: socket.socket | None = None
        self._stopping = False
        self._thread = threading.Thread(target=self._serve, name="status", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        for open_socket in (self._socket, self._client):  # wakes the thread
            if open_socket is not None:
                with contextlib.suppress(OSError):  # it has just been closed
                    open_socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(1)
        self._socket.close()
        self._path.unlink(missing_ok=True)

    def _serve(self) -> None:
        pause = threading.Event()
        while not self._stopping:
            try:
                client, _ = self._socket.accept()
            except OSError:  # out of files, mostly, or we stop
                pause.wait(0.1)
                continue
            self._client = client
            if self._stopping:  # asked after the client can be found
                client.close()
                return
            with client, contextlib.suppress(OSError):  # who goes away is nothing to log
                self._answer(client)
            self._client = None

    def _answer(self, client: socket.socket) -> None:
        try:
            answer = self._handler(_parsed(_read_line(client)))
        except Refusal as why:
            answer = {"error": str(why)}
        except Exception as error:  # noqa: BLE001 - a bug must not end the thread
            answer = {"error": f"failed, please report: {error!r}"}
        client.settimeout(_DEADLINE)
        client.sendall(json.dumps(answer).encode())


def _read_line(client: socket.socket) -> bytes:
    """Raises OSError where it takes too long, however busily."""
    line, deadline = b"", time.monotonic() + _DEADLINE
    while b"\n" not in line and len(line) < _REQUEST_LIMIT:
        client.settimeout(max(0.001, deadline - time.monotonic()))
        piece = client.recv(_REQUEST_LIMIT)
        if not piece:
            break
        line += piece
    return line


def _parsed(line: bytes) -> dict[str, str]:
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        raise Refusal("the request is no JSON object in one line") from None
    if not isinstance(request, dict) or not all(isinstance(v, str) for v in request.values()):
        raise Refusal("a request is a JSON object of strings")
    return request
