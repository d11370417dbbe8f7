"""The status socket: who may ask, and what happens to those who ask badly."""

import json
import socket
import stat
import threading
import time

import pytest

from device_plugin.status import Refusal, StatusServer, Unreachable, ask


def handler(request):
    if request.get("command") == "refuse":
        raise Refusal("no: ask for something else")
    if request.get("command") == "fail":
        raise RuntimeError("a bug")
    return {"got": request, "much": "x" * 3_000_000}


@pytest.fixture
def server(tmp_path):
    made = StatusServer(tmp_path, handler)
    yield made
    made.stop()


def talk(folder, data):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(folder / "status.sock"))
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        return json.loads(b"".join(iter(lambda: client.recv(65536), b"")))


def test_a_question_and_a_long_answer(server, tmp_path):
    answer = ask(tmp_path, {"command": "status"})
    assert answer == {"got": {"command": "status"}, "much": "x" * 3_000_000}


def test_only_the_owner_may_ask(server, tmp_path):
    assert stat.S_IMODE((tmp_path / "status.sock").stat().st_mode) == 0o600


def test_a_refusal_comes_in_the_daemons_words(server, tmp_path):
    with pytest.raises(Refusal, match=r"^no: ask for something else$"):
        ask(tmp_path, {"command": "refuse"})


def test_a_bug_costs_one_answer(server, tmp_path):
    with pytest.raises(Refusal, match="please report: RuntimeError"):
        ask(tmp_path, {"command": "fail"})
    assert ask(tmp_path, {})["got"] == {}


@pytest.mark.parametrize(
    "data", [b"", b"nonsense\n", b"[" * 5000, b"[1]\n", b'{"a": 1}\n', b"x" * 100_000]
)
def test_nonsense_is_refused(server, tmp_path, data):
    try:
        assert "error" in talk(tmp_path, data)
    except (BrokenPipeError, ConnectionResetError):
        assert len(data) > 8192  # it was not read to its end
    assert ask(tmp_path, {})["got"] == {}


def test_without_a_daemon(tmp_path):
    with pytest.raises(Unreachable, match="is it running, and is this its --state-dir"):
        ask(tmp_path, {})


def test_a_dead_daemons_socket_is_taken_over(tmp_path):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "status.sock"))
    with pytest.raises(Unreachable, match="no daemon answers"):
        ask(tmp_path, {})
    server = StatusServer(tmp_path, handler)
    assert ask(tmp_path, {})["got"] == {}
    server.stop()
    assert not (tmp_path / "status.sock").exists()


def test_a_client_that_speaks_slowly_keeps_others_out_for_a_moment_only(server, tmp_path):
    with socket.socket(socket.AF_UNIX) as slow:
        slow.connect(str(tmp_path / "status.sock"))
        over = threading.Event()

        def drip():
            while not over.wait(0.2):
                try:
                    slow.send(b"x")
                except OSError:
                    return

        dripping = threading.Thread(target=drip)
        dripping.start()
        started = time.monotonic()
        assert ask(tmp_path, {})["got"] == {}
        assert time.monotonic() - started < 4
        over.set()
        dripping.join()


def test_stop_does_not_wait_for_a_client_that_says_nothing(server, tmp_path):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(tmp_path / "status.sock"))
        stopper = threading.Thread(target=server.stop)
        stopper.start()
        stopper.join(0.8)
        assert not stopper.is_alive()
    server.stop = lambda: None
