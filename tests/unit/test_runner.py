"""Programs are run within bounds, and nothing of them is left. Real processes."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from device_plugin.runner import Failed, Runner, Stopped

SH = "/bin/sh"
ROOT = Path(__file__).parents[2]


def run(script, *, timeout=20, stopping=None, **environment):
    return Runner((SH, "-c", script), timeout, environment).run(stopping)


def why(script, **options):
    with pytest.raises(Failed) as failed:
        run(script, **options)
    return str(failed.value)


def gone(pid):
    """Whether a process has ended, waited for a moment."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            with open(f"/proc/{pid}/stat") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "Z":
                    return True  # whose parent has not looked yet
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


@pytest.fixture
def no_leaks():
    before = set(os.listdir("/proc/self/fd"))
    yield
    assert set(os.listdir("/proc/self/fd")) == before


@pytest.mark.usefixtures("no_leaks")
class TestRun:
    def test_stdout_is_the_answer(self):
        assert run("printf yes; echo no >&2") == b"yes"

    def test_no_shell_reads_the_arguments(self):
        command = ("/bin/echo", "$HOME", "a b; false")
        assert Runner(command, 20, {}).run() == b"$HOME a b; false\n"

    def test_the_environment_is_what_is_said(self, monkeypatch):
        monkeypatch.setenv("SECRET", "x")
        printed = run("env", MINE="1")
        assert b"MINE=1\n" in printed
        assert b"PATH=/" in printed
        assert b"SECRET" not in printed

    def test_stdin_is_empty(self):
        assert run("cat; echo end") == b"end\n"

    def test_it_inherits_no_descriptor(self):
        opened = os.open("/", os.O_RDONLY)
        os.set_inheritable(opened, True)
        try:
            assert run(f"test -e /proc/self/fd/{opened} || echo closed") == b"closed\n"
        finally:
            os.close(opened)

    def test_signals_reach_it_though_we_block_them(self):
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        try:
            assert "SIGTERM" in why("kill -TERM $$; echo survived")
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def test_a_broken_pipe_ends_it(self):
        assert run("yes | head -n 1") == b"y\n"

    def test_much_is_read(self):
        assert len(run("head -c 1048576 /dev/zero; head -c 1000000 /dev/zero >&2")) == 1024 * 1024

    @pytest.mark.parametrize("stream", [1, 2])
    def test_too_much_is_a_failure(self, stream):
        assert why(f"cat /dev/zero >&{stream}") == "printed more than 1 MiB"
        assert why(f"head -c 1048577 /dev/zero >&{stream}") == "printed more than 1 MiB"

    def test_the_status_and_the_last_line_of_stderr_are_the_reason(self):
        assert why("echo first >&2; echo 'no such bus' >&2; exit 3") == (
            "ended with status 3: no such bus"
        )
        assert why("exit 1") == "ended with status 1"
        assert why("kill -KILL $$") == "was killed by SIGKILL"
        assert why("kill -40 $$") == "was killed by signal 40"

    def test_the_reason_is_short_and_printable(self):
        reason = why(r"printf '\033[2J\377%5000d' 1 >&2; exit 1")
        assert reason.isprintable()
        assert len(reason) < 250

    @pytest.mark.parametrize(
        ("program", "reason"),
        [
            ("/gone", "cannot be started: No such file or directory"),
            ("/", "cannot be started: Permission denied"),
            ("/a\0b", "cannot be started: "),
        ],
    )
    def test_what_cannot_be_started_says_why(self, program, reason):
        with pytest.raises(Failed, match=reason):
            Runner((program,), 20, {}).run()

    def test_it_may_not_take_longer(self):
        started = time.monotonic()
        assert why("echo waiting >&2; sleep 60", timeout=0.5) == ("took longer than 0.5 s: waiting")
        assert time.monotonic() - started < 20

    @pytest.mark.parametrize("then", ["exit 0", "exit 1", "wait"])
    def test_its_children_die_with_it(self, then, tmp_path):
        script = f"sleep 600 & echo $! > {tmp_path}/pid; {then}"
        if then == "exit 0":
            assert run(script) == b""  # though the child still has stdout
        else:
            why(script, timeout=0.5)
        assert gone(int((tmp_path / "pid").read_text()))

    def test_what_escaped_is_not_waited_for(self, tmp_path):
        script = f"setsid sleep 600 & echo $! > {tmp_path}/pid; sleep 0.2; echo done"
        try:
            assert run(script) == b"done\n"
        finally:
            os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)

    def test_closing_its_output_is_not_its_end(self):
        assert why("exec >&- 2>&-; sleep 0.2; exit 4") == "ended with status 4"

    def test_it_ends_when_told(self, tmp_path):
        stopping = os.eventfd(0)
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo)

        def stop():
            with fifo.open() as told:  # it runs by then
                pids.append(int(told.readline()))
            os.eventfd_write(stopping, 1)

        pids: list[int] = []
        thread = threading.Thread(target=stop)
        thread.start()
        with pytest.raises(Stopped):
            run(f"trap '' TERM; echo $$ > {fifo}; sleep 600", timeout=60, stopping=stopping)
        thread.join()
        os.close(stopping)
        assert gone(pids[0])


def test_what_it_leaves_behind_is_no_zombie():
    """In a container we are PID 1, to whom orphans come: so is a subreaper."""
    script = """
import ctypes, os
from device_plugin.runner import Runner
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER
Runner(("/bin/sh", "-c", "sleep 600 & sleep 600 & exit 0"), 20, {}).run()
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("none")
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, cwd=ROOT)
    assert ran.stdout == b"none\n"


def test_one_that_cannot_be_killed_is_not_run_again(monkeypatch, tmp_path):
    """A process in the midst of I/O: here one that SIGKILL is kept from."""
    monkeypatch.setattr("device_plugin.runner.os.killpg", lambda *_: None)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    runner = Runner((sys.executable, "-c", f"open({str(fifo)!r}).read()"), 0.1, {})
    with pytest.raises(Failed, match="took longer"):
        runner.run()
    with pytest.raises(Failed, match=r"hangs in the kernel: its process [0-9]+ cannot be killed"):
        runner.run()
    left = runner._left
    fifo.write_text("")
    assert left is not None
    assert left.reap(20)
    with pytest.raises(Failed, match="took longer"):  # it is run again
        runner.run()
    fifo.write_text("")
    assert runner._left is not None
    assert runner._left.reap(20)
