"""Runs a program for what it prints: no shell, and no more time and output than it is given.

`subprocess` cannot do it: the daemon blocks signals in all of its threads, children inherit that,
and nothing but posix_spawn undoes it for the child alone.
"""

import contextlib
import os
import select
import signal
import time
from collections.abc import Mapping

_LIMIT = 1024 * 1024  # bytes, of each of stdout and stderr
_PIECE = 64 * 1024
_DYING = 0.5  # seconds that a killed process may take; one in the midst of I/O takes longer
_SHOWN = 200  # characters of what it says
_SEARCHED = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)  # by Python, and so by its children if left so


class Failed(Exception):  # noqa: N818 - an answer, which admins read
    """Why a program was of no use; the text completes "PROGRAM ..."."""


class Stopped(Exception):  # noqa: N818 - nobody waits for it any more
    """The run was ended from outside."""


class Runner:
    """One program, which is run again and again, but never twice at once."""

    def __init__(
        self, command: tuple[str, ...], timeout: float, environment: Mapping[str, str]
    ) -> None:
        """`timeout` in seconds; all that the program gets besides `environment` is a PATH."""
        self._command = command
        self._timeout = timeout
        self._environment = {"PATH": _SEARCHED, **environment}
        self._left: _Child | None = None  # killed, but not gone yet

    def run(self, stopping: int | None = None) -> bytes:
        """Return what it prints on stdout; its whole process group is dead by then.

        Raises Failed. `stopping` is a descriptor: once it is readable, the program is killed, and
        Stopped raised.
        """
        if self._left is not None and not self._left.reap(0):
            raise Failed(f"hangs in the kernel: its process {self._left.pid} cannot be killed")
        try:
            child = _Child(self._command, self._environment)
        except (OSError, ValueError) as error:
            raise Failed(f"cannot be started: {getattr(error, 'strerror', error)}") from None
        try:
            child.follow(time.monotonic() + self._timeout, stopping)
        except TimeoutError:
            raise Failed(f"took longer than {self._timeout:g} s{child.last_words}") from None
        finally:
            child.kill()
            self._left = None if child.reap(_DYING) else child
            child.close()
        if child.code:
            raise Failed(f"{_ended(child.code)}{child.last_words}")
        return bytes(child.stdout.data)


class _Pipe:
    """Something that a child writes to, and what it wrote."""

    def __init__(self) -> None:
        self.data = bytearray()

    def open(self, closing: contextlib.ExitStack, closing_childs: contextlib.ExitStack) -> None:
        self.end, self.childs_end = os.pipe()
        closing.callback(os.close, self.end)
        closing_childs.callback(os.close, self.childs_end)
        os.set_blocking(self.end, False)

    def take(self) -> bool:
        """Read what is there; returns whether more may come. Raises Failed if it is too much."""
        while len(self.data) <= _LIMIT:
            try:
                piece = os.read(self.end, _PIECE)
            except BlockingIOError:
                return True
            if not piece:
                return False
            self.data += piece
        raise Failed("printed more than 1 MiB")


class _Child:
    """A process that leads a group of its own."""

    def __init__(self, command: tuple[str, ...], environment: Mapping[str, str]) -> None:
        """Raises OSError."""
        self.code: int | None = None
        with contextlib.ExitStack() as undo, contextlib.ExitStack() as once_spawned:
            self.stdout, self.stderr = _Pipe(), _Pipe()
            for pipe in (self.stdout, self.stderr):
                pipe.open(undo, once_spawned)
            self.pid = _spawn(command, environment, self.stdout, self.stderr)
            try:
                self._process = os.pidfd_open(self.pid)
            except OSError:
                self.kill()
                os.waitpid(self.pid, 0)
                raise
            undo.pop_all()

    def follow(self, deadline: float, stopping: int | None) -> None:
        """Read what it prints until it has ended. Raises TimeoutError, Failed, Stopped."""
        news = select.poll()
        pipes = {pipe.end: pipe for pipe in (self.stdout, self.stderr)}
        for descriptor in (*pipes, self._process, *([] if stopping is None else [stopping])):
            news.register(descriptor, select.POLLIN)
        ready: set[int] = set()
        while self._process not in ready:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            ready = {descriptor for descriptor, _ in news.poll(left * 1000)}
            if stopping in ready:
                raise Stopped
            for descriptor in ready & pipes.keys():
                if not pipes[descriptor].take():
                    news.unregister(descriptor)
        for pipe in pipes.values():  # what came last; nobody waits for what else has them open
            pipe.take()

    def kill(self) -> None:
        """Kill the group; while its leader is not reaped, no other has its number."""
        with contextlib.suppress(OSError):  # nobody left, or somebody else by its own doing
            os.killpg(self.pid, signal.SIGKILL)

    def reap(self, timeout: float) -> bool:
        """Whether it is gone, within so many seconds."""
        if self.code is None:
            ended = select.poll()
            ended.register(self._process, select.POLLIN)
            if ended.poll(timeout * 1000):
                self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
                os.close(self._process)
                self._reap_orphans()
        return self.code is not None

    def _reap_orphans(self) -> None:
        """Where we are PID 1, what it left behind became our child; it is killed, too."""
        deadline = time.monotonic() + _DYING
        with contextlib.suppress(ChildProcessError):
            while time.monotonic() < deadline:
                if os.waitpid(-self.pid, os.WNOHANG) == (0, 0):
                    time.sleep(0.001)

    def close(self) -> None:
        os.close(self.stdout.end)
        os.close(self.stderr.end)

    @property
    def last_words(self) -> str:
        """The last line of stderr, made fit to follow a reason."""
        lines = self.stderr.data.decode(errors="replace").strip().splitlines()
        line = "".join(char for char in lines[-1] if char.isprintable()) if lines else ""
        return f": {line[:_SHOWN]}" if line else ""


def _spawn(
    command: tuple[str, ...], environment: Mapping[str, str], stdout: _Pipe, stderr: _Pipe
) -> int:
    return os.posix_spawn(
        command[0],
        command,
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, stdout.childs_end, 1),
            (os.POSIX_SPAWN_DUP2, stderr.childs_end, 2),
            *((os.POSIX_SPAWN_CLOSE, descriptor) for descriptor in _inheritable()),
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=_IGNORED,
    )


def _inheritable() -> list[int]:
    """What a library has opened without O_CLOEXEC."""
    found = []
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):  # that of the listing itself
            if descriptor > 2 and os.get_inheritable(descriptor):  # noqa: PLR2004
                found.append(descriptor)
    return found


def _ended(code: int) -> str:
    if code > 0:
        return f"ended with status {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal
        return f"was killed by signal {-code}"
