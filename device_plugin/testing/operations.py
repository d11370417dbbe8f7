"""One thing at a time for each socket, and ever longer pauses after failures (A15)."""

import threading
import time
from collections.abc import Callable

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 122.0  # seconds; doubling


class Backoff:
    """When a socket may be tried again; only a success makes it forget."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pauses: dict[str, tuple[float, float]] = {}  # path: pause, until when

    def allows(self, path: str) -> bool:
        return path not in self._pauses or self._clock() > self._pauses[path][1]

    def succeeded(self, path: str) -> None:
        self._pauses.pop(path, None)

    def failed(self, path: str) -> None:
        before, _ = self._pauses.get(path, (FIRST_PAUSE / 2, 0.0))
        pause = min(2 * before, LONGEST_PAUSE)
        self._pauses[path] = (pause, self._clock() + pause)


class Operations:
    """Runs an operation for a socket in a thread of its own, unless one runs or a pause does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._backoff = Backoff()
        self._threads: dict[str, threading.Thread] = {}

    def run(self, path: str, operation: Callable[[], bool]) -> None:
        """Start an operation, which tells whether it was well."""
        with self._lock:
            if path in self._threads or not self._backoff.allows(path):
                return
            thread = threading.Thread(target=self._do, args=(path, operation), daemon=True)
            self._threads[path] = thread
            thread.start()

    def join(self) -> None:
        """Wait until all are done."""
        with self._lock:
            threads = list(self._threads.values())
        for thread in threads:
            thread.join()

    def _do(self, path: str, operation: Callable[[], bool]) -> None:
        well = False
        try:
            well = operation()
        finally:
            with self._lock:
                del self._threads[path]
                if well:
                    self._backoff.succeeded(path)
                else:
                    self._backoff.failed(path)
