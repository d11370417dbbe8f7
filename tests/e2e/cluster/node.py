"""The node: one PID and mount namespace. Its first process is its life: killed, all is gone."""

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from cluster.places import HERE, RUN, CannotStart

_PIDS = RUN / "pids"
_LOGS = RUN / "logs"
_POLL = 0.02


def wait_for(fact: Callable[[], object], timeout: float, otherwise: Callable[[], str]) -> None:
    """Return once `fact` holds. Raises CannotStart with what `otherwise` says."""
    deadline = time.monotonic() + timeout
    while not fact():
        if time.monotonic() > deadline:
            raise CannotStart(otherwise())
        time.sleep(_POLL)


class Process:
    """A program in the node, found again by its name from any later process of ours."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.log = _LOGS / f"{name}.log"
        self._file = _PIDS / name

    def start(self, argv: Iterable[str], path: Iterable[Path] = ()) -> None:
        """Start it in the node's namespaces; its output goes to the end of its log."""
        enter = ["nsenter", "--target", str(_init().pid), "--mount", "--pid", "--"]
        self._spawn([*enter, *argv], path)

    def start_namespaces(self, argv: Iterable[str]) -> None:
        self._spawn(list(argv), ())

    def _spawn(self, argv: list[str], path: Iterable[Path]) -> None:
        # Not subprocess: the process outlives us, and nobody is to wait for it.
        environment = dict(os.environ)
        environment["PATH"] = ":".join([*map(str, path), environment["PATH"]])
        program = shutil.which(argv[0])
        assert program is not None, argv[0]
        output = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        null = os.open(os.devnull, os.O_RDONLY)
        try:
            pid = os.posix_spawn(
                program,
                argv,
                environment,
                file_actions=[(os.POSIX_SPAWN_DUP2, null, 0)]
                + [(os.POSIX_SPAWN_DUP2, output, fd) for fd in (1, 2)],
                setsid=True,
            )
        finally:
            os.close(output)
            os.close(null)
        self._file.write_text(f"{pid} {_started(pid)}")

    @property
    def outer(self) -> int | None:
        """The process that we started: nsenter or unshare; None when it is no more."""
        try:
            pid, started = self._file.read_text().split()
        except (OSError, ValueError):
            return None
        return int(pid) if started and _started(int(pid)) == started else None

    @property
    def pid(self) -> int | None:
        """The program itself, as numbered outside of the node."""
        outer = self.outer
        if outer is None:
            return None
        with contextlib.suppress(OSError):
            children = Path(f"/proc/{outer}/task/{outer}/children").read_text().split()
            return int(children[0]) if children else None
        return None

    def stop(self, signum: int = signal.SIGTERM, timeout: float = 30) -> None:
        """Send the signal and wait until the program is gone."""
        pid = self.pid
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signum)
        wait_for(lambda: self.outer is None, timeout, lambda: f"{self.name} does not stop")

    def last_lines(self, count: int = 8) -> str:
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except OSError:
            return "no log"
        return "\n".join(line[:400] for line in lines[-count:])


def _init() -> Process:
    return Process("node")


def start() -> None:
    """Make the namespaces. `stop` must have been called before."""
    for folder in (_PIDS, _LOGS):
        folder.mkdir(parents=True, exist_ok=True)
    process = _init()
    unshare = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--propagation", "private"]
    process.start_namespaces([*unshare, sys.executable, "-I", str(HERE / "node_init.py"), str(RUN)])
    wait_for(
        lambda: (RUN / "node.ready").exists() or process.outer is None,
        10,
        lambda: f"the node's namespaces do not come up: {process.last_lines()}",
    )
    if process.outer is None:
        raise CannotStart(f"no namespaces here: {process.last_lines()}")


def running() -> bool:
    return _init().outer is not None and (RUN / "node.ready").exists()


def stop() -> None:
    """Kill all that lives in the node. Without a node: nothing."""
    process = _init()
    if process.outer is not None:
        process.stop(signal.SIGKILL)
    for pid in _strays():  # of a run that was killed before it could note the number
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _strays() -> list[int]:
    """Processes that are the first one of our node."""
    arguments = [os.fsencode(HERE / "node_init.py"), os.fsencode(RUN)]
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if entry.read_bytes().split(b"\0")[-3:-1] == arguments:
                found.append(int(entry.parent.name))
    return found


def _started(pid: int) -> str:
    """When the process began, which tells it from a later one of the same number; "" if gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]
