"""The programs of the kind `exec`, each on a thread of its own: no look waits for one."""

import os
import select
import threading
import time
from collections.abc import Callable

from msgspec import structs

from device_plugin.config import Config, Exec
from device_plugin.discovery.program import Answer, ask, runner
from device_plugin.host import Host
from device_plugin.runner import Stopped

_MOST = 32  # programs
_TOO_MANY = Answer(problem=f"is not run: the config names more than {_MOST} programs")
_ENDING = 1.0  # seconds


class Programs:
    """Runs what the config names. Selectors with the same `command` share its runs.

    How often and for how long is what the first of them says. `news` runs on a program's thread,
    and must only pass the word on.
    """

    def __init__(self, host: Host, news: Callable[[], None]) -> None:
        self._host = host
        self._news = news
        self._running: dict[tuple[str, ...], _Program] = {}

    def serve(self, config: Config) -> None:
        """Run what this config names and nothing else; what stays keeps its answer."""
        wanted: dict[tuple[str, ...], Exec] = {}
        for selector in (one for resource in config.resources for one in resource.devices):
            if selector.exec is not None and len(wanted) < _MOST:
                wanted.setdefault(selector.exec.command, selector.exec)
        before, self._running = self._running, {}
        changed = [one for one in before.values() if wanted.get(one.wanted.command) != one.wanted]
        _stop(changed)
        for command, one in wanted.items():
            old = before.get(command)
            if old is None or old in changed:
                answer = old.answer if old is not None else Answer()
                old = _Program(one, self._host, answer, self._news)
                old.start()
            self._running[command] = old

    def answer(self, wanted: Exec) -> Answer:
        """What is known of a program now."""
        program = self._running.get(wanted.command)
        if program is not None:
            return program.answer
        return _TOO_MANY if len(self._running) == _MOST else Answer()

    def wait(self, timeout: float) -> None:
        """Wait until each has run once, but not longer than so many seconds."""
        deadline = time.monotonic() + timeout
        for program in self._running.values():
            program.ran.wait(max(0, deadline - time.monotonic()))

    def close(self) -> None:
        """Kill those that are running."""
        _stop(list(self._running.values()))


class _Program(threading.Thread):
    def __init__(self, wanted: Exec, host: Host, answer: Answer, news: Callable[[], None]) -> None:
        super().__init__(name="exec", daemon=True)
        self.wanted = wanted
        self.answer = answer
        self.ran = threading.Event()
        self._runner = runner(wanted, host)
        self._news = news
        self._stopping = os.eventfd(0)

    def run(self) -> None:
        rest = select.poll()
        rest.register(self._stopping, select.POLLIN)
        while True:
            try:
                answer = ask(self._runner, self.answer, self._stopping)
            except Stopped:
                break
            except Exception as error:  # noqa: BLE001 - a bug must not end the thread
                answer = structs.replace(self.answer, problem=f"failed, please report: {error!r}")
            # While it fails, time alone makes its devices unhealthy.
            news = bool(answer.problem) or not answer.says_the_same_as(self.answer)
            self.answer = answer
            self.ran.set()
            if news:
                self._news()
            if rest.poll(self.wanted.interval * 1000):
                break
        os.close(self._stopping)

    def stop(self) -> None:
        """Once only."""
        os.eventfd_write(self._stopping, 1)


def _stop(programs: list[_Program]) -> None:
    for program in programs:
        program.stop()
    deadline = time.monotonic() + _ENDING
    for program in programs:
        program.join(max(0, deadline - time.monotonic()))
