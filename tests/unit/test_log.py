"""Logs: one line a fact, in one form, and never so many that they fill the disk."""

import errno
import io
import json
import logging
import os
import select
import threading

import pytest
import structlog

from device_plugin import log
from device_plugin.log import RateLimit


class Stream(io.StringIO):
    """Remembers what was written at a time."""

    def __init__(self):
        super().__init__()
        self.writes = []

    def write(self, text):
        self.writes.append(text)
        return super().write(text)

    def facts(self):
        return [json.loads(line) for line in self.getvalue().splitlines()]


@pytest.fixture
def stream():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield Stream()
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def logger(stream):
    log.configure("info", as_json=True, stream=stream)
    return structlog.get_logger()


NASTY = ["\n", "\r\n", "\x00\x1b[2J\x7f", "\u2028\u2029\x85", '"}\n{"a": "', "\udcff\ud800", "é😀"]


@pytest.mark.parametrize("text", NASTY)
def test_whatever_is_logged_is_one_json_object_a_line(logger, stream, text):
    logger.warning(text, device=text, more={text: [text]})
    logging.getLogger("watchdog").warning("%s", text)
    assert stream.getvalue().isascii()
    ours, theirs = stream.facts()
    assert ours["event"] == ours["device"] == theirs["event"] == text


def test_lines_begin_with_what_a_reader_looks_for(logger, stream):
    logger.info("allocated", devices=["a"], resource="example.com/r")
    (facts,) = stream.facts()
    assert list(facts) == ["timestamp", "level", "event", "resource", "devices"]
    assert facts["timestamp"].endswith("Z")
    assert facts["level"] == "info"


def test_an_exception_is_in_the_line(logger, stream):
    try:
        raise ValueError("first\nsecond")  # noqa: TRY301
    except ValueError:
        logger.exception("failed")
        logging.getLogger("grpc._server").exception("Exception calling application: %s", "x\ny")
    logging.getLogger("x").error("with stack", stack_info=True)
    ours, theirs, stacked = stream.facts()
    for facts in (ours, theirs):
        assert facts["level"] == "error"
        assert facts["exception"].endswith("ValueError: first\nsecond")
        assert "Traceback" in facts["exception"]
    assert theirs["event"] == "Exception calling application: x\ny"
    assert "Stack (most recent call last)" in stacked["stack_info"]


def test_what_libraries_only_mention_is_left_out(logger, stream):
    logging.getLogger("grpc").info("hello")
    logging.getLogger("odd").log(35, "between the levels")
    assert [facts["event"] for facts in stream.facts()] == ["between the levels"]


class Odd:
    def __repr__(self):
        return "odd\nthing"


def test_values_of_any_kind_are_shown(logger, stream):
    logger.info("x", a=Odd(), b=b"\xff", c={1}, d=(1, None), e=OSError(2, "no\n"), f=1e400)
    logging.getLogger("x").warning(Odd())
    ours, theirs = stream.facts()
    assert ours["a"] == theirs["event"] == "odd\nthing"


def test_levels_below_the_chosen_one_are_left_out(stream):
    for level, count in (("debug", 4), ("info", 3), ("warning", 2), ("error", 1)):
        log.configure(level, as_json=True, stream=stream)
        before = len(stream.facts())
        for name in ("debug", "info", "warning", "error"):
            getattr(structlog.get_logger(), name)("x")
        assert len(stream.facts()) - before == count


def test_every_line_is_written_in_one_piece(logger, stream):
    logger.info("ours")
    logging.getLogger("x").warning("theirs")
    assert all(text.endswith("\n") for text in stream.writes)


def test_threads_do_not_write_into_each_others_lines(logger, stream):
    def say(name):
        for i in range(50):
            logger.info(name, i=i)
            logging.getLogger(name).warning("%s %d", name, i)

    threads = [threading.Thread(target=say, args=(f"t{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stream.facts()) == 800


def test_on_a_terminal_it_is_text(stream):
    log.configure("info", as_json=False, stream=stream)
    structlog.get_logger().info("registered", resource="example.com/r", took_ms=3)
    logging.getLogger("x").warning("theirs")
    ours, theirs = stream.getvalue().splitlines()
    assert "registered" in ours
    assert "took_ms=3" in ours
    assert "theirs" in theirs


def test_a_terminal_is_safe_from_what_is_logged(stream):
    log.configure("info", as_json=False, stream=stream)
    structlog.get_logger().info("x", reason="a\x1b[2Jb\nc")
    assert len(stream.getvalue().splitlines()) == 1
    assert "\x1b" not in stream.getvalue()


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 1000.0

        def monotonic(self):
            return self.now

    made = Clock()
    monkeypatch.setattr("device_plugin.log.time", made)
    return made


def passed(limit, count=1, event="flap", **facts):
    """The lines that passed, of so many."""
    lines = []
    for _ in range(count):
        try:
            lines.append(limit(None, "info", {"event": event, **facts}))
        except structlog.DropEvent:
            continue
    return lines


def test_a_burst_passes_and_then_one_a_second(clock):
    limit = RateLimit()
    assert len(passed(limit, 1000)) == 200
    for _ in range(3):
        clock.now += 1
        assert len(passed(limit, 50)) == 1
    clock.now += 10.5
    assert len(passed(limit, 50)) == 10
    clock.now += 1e9
    assert len(passed(limit, 1000)) == 200


def test_what_was_dropped_is_counted_in_the_next_line(clock):
    limit = RateLimit()
    assert all("dropped_before" not in line for line in passed(limit, 207))
    clock.now += 2
    first, second = passed(limit, 2)
    assert first["dropped_before"] == 7
    assert "dropped_before" not in second


def test_events_and_resources_have_budgets_of_their_own(clock):
    limit = RateLimit()
    passed(limit, 300, resource="a")
    assert passed(limit, 1, resource="a") == []
    assert len(passed(limit, 1, resource="b")) == 1
    assert len(passed(limit, 1, event="other", resource="a")) == 1
    assert len(passed(limit, 1)) == 1


def test_a_flood_of_ours_is_limited_and_says_so(logger, stream, clock):
    for _ in range(300):
        logger.warning("flap", resource="a")
    assert len(stream.facts()) == 200
    clock.now += 1
    logger.warning("flap", resource="a")
    assert stream.facts()[-1]["dropped_before"] == 100


def test_a_flood_of_a_library_is_limited_too(logger, stream, clock):
    for i in range(300):
        logging.getLogger("grpc").error("%d", i)
    logging.getLogger("watchdog").error("another one")
    assert len(stream.facts()) == 201


def test_a_line_that_was_torn_is_ended_before_the_next(tmp_path, monkeypatch):
    """A disk that is full in the midst of a line, or for a while after it."""
    long, write = "x" * 2 * select.PIPE_BUF, os.write
    results: list[int | OSError] = []

    def limited(file, data):
        left = results.pop(0) if results else len(data)
        if isinstance(left, OSError):
            raise left
        return write(file, data[:left])

    full = OSError(errno.ENOSPC, "full")
    troubles: list[list[int | OSError]] = [[10], [10, full], [select.PIPE_BUF, full]]
    troubles += [[select.PIPE_BUF, 5, full]]
    for trouble in troubles:
        with (tmp_path / "log").open("w+") as file:
            sink = log.Sink(file)
            monkeypatch.setattr(os, "write", limited)
            results[:] = trouble
            while results:
                sink.write(f"{long}\n")
            sink.write("whole\n")
            monkeypatch.undo()
            assert (tmp_path / "log").read_text().splitlines()[-1] == "whole"
