"""The unix socket in the state folder: what the daemon knows, and devices taken out of service.

Who holds what is nobody's business but root's, so it is not served over HTTP. One request a
connection: a JSON object in a line, answered by one. Only the standard library: the commands that
ask must not load the daemon.
"""

import json
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

_NAME = "status.sock"
_MODE = 0o600
_TIMEOUT = 10.0  # seconds for the one side, or the other, to say its word
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
        self._path.unlink(missing_ok=True)  # the state folder is ours alone: it is a leftover
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            os.fchmod(self._socket.fileno(), _MODE)  # before it can be found
            self._socket.bind(os.fspath(self._path))
            self._socket.listen()
        except OSError:
            self._socket.close()
            raise
        self._stopping = False
        self._thread = threading.Thread(target=self._serve, name="status", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread
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
            with client:
                try:
                    self._answer(client)
                except OSError:  # a client that goes away is nothing to log
                    continue

    def _answer(self, client: socket.socket) -> None:
        client.settimeout(_TIMEOUT)
        try:
            answer = self._handler(_parsed(client))
        except Refusal as why:
            answer = {"error": str(why)}
        except Exception as error:  # noqa: BLE001 - a bug must not end the thread
            answer = {"error": f"failed, please report: {error!r}"}
        client.sendall(json.dumps(answer).encode())


def _parsed(client: socket.socket) -> dict[str, str]:
    with client.makefile("rb") as stream:
        line = stream.readline(_REQUEST_LIMIT)
    try:
        request = json.loads(line)
    except ValueError:
        raise Refusal("the request is no JSON object in one line") from None
    if not isinstance(request, dict) or not all(isinstance(v, str) for v in request.values()):
        raise Refusal("a request is a JSON object of strings")
    return request
