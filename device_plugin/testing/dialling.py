"""Finding out whether somebody speaks HTTP/2 at a socket, as grpc-go does when it dials (A3).

gRPC for Python tells it only through a thread that polls five times a second; a socket tells at
once. The connection is given up then: the channel proper makes its own.
"""

import socket
import threading
import time

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))  # and SETTINGS
_FRAME_HEADER, _TYPE, _SETTINGS = 9, 3, 4
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 1.0  # seconds between attempts, doubling


class Dialling:
    """One dial: `run` blocks until somebody answers, the time is over, or it is `abandon`ed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._abandoned = threading.Event()
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    @property
    def abandoned(self) -> bool:
        return self._abandoned.is_set()

    def run(self, timeout: float) -> bool:
        """Whether somebody answered. Refused connections are tried again in silence."""
        deadline, pause = time.monotonic() + timeout, _FIRST_PAUSE
        while (left := deadline - time.monotonic()) > 0 and not self.abandoned:
            if self._try(left):
                return not self.abandoned
            self._abandoned.wait(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE)
        return False

    def abandon(self) -> None:
        with self._lock:
            self._abandoned.set()
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)  # wakes who waits for an answer

    def _try(self, timeout: float) -> bool:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(timeout)
            try:
                connection.connect(self._path)
                with self._lock:
                    self._socket = connection
                if self.abandoned:
                    return False
                connection.sendall(_PREFACE)
                return _is_settings(connection)
            except OSError:
                return False
            finally:
                with self._lock:
                    self._socket = None


def _is_settings(connection: socket.socket) -> bool:
    """Whether the first frame is the one that an HTTP/2 server begins with."""
    header = b""
    while len(header) < _FRAME_HEADER:
        piece = connection.recv(_FRAME_HEADER - len(header))
        if not piece:
            return False
        header += piece
    return header[_TYPE] == _SETTINGS
