"""Structured logs: JSON for the daemon, aligned text on a terminal; one line a fact."""

import logging
import os
import select
import sys
import threading
import time
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

_FIRST = ("timestamp", "level", "event", "resource", "device")


def configure(level: str, *, as_json: bool, stream: TextIO | None = None) -> None:
    """Send our logs, and what libraries log, to `stream` (stderr) in one form."""
    stream = stream or sys.stderr or open(os.devnull, "w")  # noqa: SIM115 - for the process's life
    sink = Sink(stream)
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _in_reading_order,
    ]
    render: list[Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if as_json
        else [structlog.dev.ConsoleRenderer(colors=stream.isatty(), sort_keys=False)]
    )
    limit = RateLimit()
    structlog.configure(
        processors=[limit, *shared, *render],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(sink),  # type: ignore[arg-type] # a line is one write
    )
    handler = logging.StreamHandler(sink)
    handler.addFilter(limit)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
        )
    )
    logging.raiseExceptions = False  # it would write to stderr itself
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)


class Sink:
    """Takes lines for a stream, and rather loses them than waits or fails.

    Lines come from RPCs that the kubelet waits for: a reader that is stuck or gone, or a full disk,
    must cost the line and nothing else.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._torn = False  # the last line lacks its end
        try:
            self._file = stream.fileno()
        except (OSError, ValueError):  # no file behind it
            self._room: select.poll | None = None
        else:
            self._room = select.poll()
            self._room.register(self._file, select.POLLOUT)

    def write(self, text: str) -> None:
        with self._lock:
            try:
                if self._room is None:
                    self._stream.write(text)
                else:
                    self._write(self._room, text.encode(errors="backslashreplace"))
            except (OSError, ValueError):
                pass  # what was torn stays so

    def flush(self) -> None:
        """Nothing is held back."""

    def _write(self, room: select.poll, line: bytes) -> None:
        if self._torn:
            line = b"\n" + line
        # A pipe that has room at all takes this much without waiting, pipe(7).
        for start in range(0, len(line), select.PIPE_BUF):
            if not room.poll(0):
                return
            piece = line[start : start + select.PIPE_BUF]
            written = os.write(self._file, piece)
            self._torn = start + written < len(line)
            if written < len(piece):
                return


class RateLimit:
    """Keeps a flapping device from filling the disk: a structlog processor, and a logging filter.

    Each (event, resource) has a budget that refills, and each library's logger one; what was
    dropped of our own is counted in the next line that passes.
    """

    BURST = 200.0  # lines
    REFILL = 1.0  # lines a second

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._budgets: dict[tuple[str, str], tuple[float, float, int]] = {}

    def __call__(self, _: WrappedLogger, __: str, event: EventDict) -> EventDict:
        key = (str(event.get("event")), str(event.get("resource", "")))
        dropped = self._take(key)
        if dropped is None:
            raise structlog.DropEvent
        if dropped:
            event["dropped_before"] = dropped
        return event

    def filter(self, record: logging.LogRecord) -> bool:
        return self._take((record.name, "")) is not None

    def _take(self, key: tuple[str, str]) -> int | None:
        """How many were dropped before this one, or None if it is to be dropped too."""
        now = time.monotonic()
        with self._lock:
            budget, then, dropped = self._budgets.get(key, (self.BURST, now, 0))
            budget = min(self.BURST, budget + (now - then) * self.REFILL)
            passes = budget >= 1
            self._budgets[key] = (budget - 1, now, 0) if passes else (budget, now, dropped + 1)
        return dropped if passes else None


def _in_reading_order(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """When, how bad, what, and about which resource and device; then the rest."""
    first = {key: event[key] for key in _FIRST if key in event}
    return {**first, **event}
