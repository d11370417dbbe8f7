"""Who reads the log, and whether anybody does, is nothing to the kubelet."""

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from device_plugin.testing import Container, FakeKubelet, Pod

X = "example.com/x"
CONFIG = f"version: 1\nresources:\n- {{name: {X}, devices: [{{path: /dev/null}}]}}\n"


@contextmanager
def daemon(stderr: int, *flags: str) -> Iterator[tuple[subprocess.Popen[bytes], FakeKubelet]]:
    with tempfile.TemporaryDirectory(prefix="out") as name:
        folder = Path(name)
        (folder / "c.yaml").write_text(CONFIG)
        command = [sys.executable, "-m", "device_plugin", "run", "--config", "c.yaml"]
        command += ["--device-plugin-dir", "plugins", "--state-dir", "state", "--http", "off"]
        with FakeKubelet(folder / "plugins") as kubelet:
            process = subprocess.Popen([*command, *flags], stderr=stderr, cwd=folder)
            try:
                yield process, kubelet
            finally:
                process.kill()
                process.wait()


def serves_and_stops(process: subprocess.Popen[bytes], kubelet: FakeKubelet) -> None:
    """A Pod gets its device, a kubelet restart is survived, and SIGTERM works."""
    kubelet.wait_for(lambda k: k.allocatable(X) == 1, timeout=20)
    kubelet.remove(kubelet.admit(Pod("p", containers=[Container("main", limits={X: 1})])))
    kubelet.restart()
    kubelet.wait_for(lambda k: k.is_streaming(X) and k.allocatable(X) == 1, timeout=20)
    started = time.monotonic()
    process.terminate()
    assert process.wait(timeout=5) == 0
    assert time.monotonic() - started < 1


def test_a_reader_that_reads_nothing_holds_up_nobody():
    reads, writes = os.pipe()
    os.write(writes, b"x" * fcntl.fcntl(writes, fcntl.F_GETPIPE_SZ))  # all that it holds
    with daemon(writes) as (process, kubelet):
        serves_and_stops(process, kubelet)
    os.close(reads)
    os.close(writes)


def test_a_reader_that_is_gone_is_not_missed():
    reads, writes = os.pipe()
    with daemon(writes) as (process, kubelet):
        os.close(writes)
        kubelet.wait_for(lambda k: k.allocatable(X) == 1, timeout=20)
        os.close(reads)
        serves_and_stops(process, kubelet)


def test_a_full_disk_under_the_log_is_nothing_to_devices():
    with Path("/dev/full").open("wb") as full, daemon(full.fileno()) as (process, kubelet):
        serves_and_stops(process, kubelet)


def test_without_stderr_it_runs_all_the_same():
    closed = [
        sys.executable,
        "-c",
        "import os, sys; os.close(2); os.execv(sys.argv[1], sys.argv[1:])",
    ]
    with tempfile.TemporaryDirectory(prefix="out") as name:
        folder = Path(name)
        (folder / "c.yaml").write_text(CONFIG)
        flags = ["--config", "c.yaml", "--device-plugin-dir", "p", "--state-dir", "s"]
        command = [sys.executable, "-m", "device_plugin", "run", *flags, "--http", "off"]
        with FakeKubelet(folder / "p") as kubelet:
            process = subprocess.Popen([*closed, *command], cwd=folder)
            serves_and_stops(process, kubelet)


def test_relative_folders_that_come_later_are_waited_for(tmp_path):
    (tmp_path / "c.yaml").write_text(CONFIG)
    flags = ["--config", "c.yaml", "--device-plugin-dir", "a/b", "--state-dir", "s"]
    command = [sys.executable, "-m", "device_plugin", "run", *flags, "--http", "off"]
    with tempfile.TemporaryDirectory(prefix="out") as short:
        (Path(short) / "c.yaml").write_text(CONFIG)
        process = subprocess.Popen(command, cwd=short, stderr=subprocess.PIPE)
        assert process.stderr is not None
        assert any(b"does not exist" in line for line in process.stderr)
        with FakeKubelet(Path(short) / "a" / "b") as kubelet:
            serves_and_stops(process, kubelet)
        process.stderr.close()


@pytest.mark.parametrize("flag", ["--device-plugin-dir", "--state-dir", "--host-root"])
def test_an_empty_folder_is_refused(tmp_path, flag):
    (tmp_path / "c.yaml").write_text(CONFIG)
    command = [
        sys.executable,
        "-m",
        "device_plugin",
        "run",
        "--config",
        tmp_path / "c.yaml",
        flag,
        "",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 2
    assert "it is empty: name a folder" in done.stderr


@pytest.mark.parametrize("after", [0.12, 0.16, 0.2, 0.24, 0.28, 0.32])
def test_a_signal_at_any_moment_of_the_start_ends_it_within_a_second(after):
    with daemon(subprocess.DEVNULL) as (process, _):
        time.sleep(after)  # no fact can be waited for: the moment itself is the case
        started = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=5) in {
            0,
            -signal.SIGTERM,
        }  # as Python itself starts, the latter
        assert time.monotonic() - started < 1
