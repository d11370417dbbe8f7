"""Start and end of the process: what it leaves behind, and what it finds."""

import os
import signal
import socket

import pytest

X = "example.com/x"
ONE = {"x": [{"virtual": {"count": 1}}]}
EIGHT = {f"r{n}": [{"virtual": {"count": 2}}] for n in range(8)}


def sockets(node):
    return {path.name for path in node.plugins.iterdir() if path.is_socket()}


def bound(path, *, listening):
    """Make somebody else's socket; the file stays when it is closed."""
    end = socket.socket(socket.AF_UNIX)
    end.bind(str(path))
    if listening:
        end.listen()
    return end


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_streams_and_takes_the_sockets_away(node, kubelet, signum):
    daemon = node.start(EIGHT)
    for name in EIGHT:
        kubelet.healthy(f"example.com/{name}", 2)
    assert daemon.end(signum) < 1
    assert sockets(node) == {"kubelet.sock"}
    kubelet.wait_for(lambda k: not any(one.streaming for one in k.registrations))
    assert {one.stream_error for one in kubelet.registrations} == {None}, "dropped, not ended"


def test_a_signal_that_comes_twice_at_once_is_one(node, kubelet):
    daemon = node.start(EIGHT)
    kubelet.healthy(f"example.com/{next(iter(EIGHT))}", 2)
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.end() < 1
    assert sockets(node) == {"kubelet.sock"}


@pytest.mark.parametrize("where", ["arrival", "reply"])
def test_sigterm_while_register_hangs(node, kubelet, where):
    kubelet.hold_registration(where)
    daemon = node.start(EIGHT)
    kubelet.wait_for(lambda k: len(k.registrations) == len(EIGHT))
    assert daemon.end() < 1
    assert sockets(node) == {"kubelet.sock"}


def test_sigterm_while_the_kubelet_is_down(node):
    kubelet = node.kubelet()
    kubelet.stop()  # leaves a socket that refuses
    daemon = node.start(EIGHT)
    daemon.wait_log("not registered", reason="nobody answers", times=len(EIGHT))
    assert daemon.end() < 1
    assert sockets(node) == {"kubelet.sock"}


def test_sigterm_while_there_is_no_folder(node):
    daemon = node.start(EIGHT)
    daemon.wait_log("not registered", reason="does not exist", times=len(EIGHT))
    assert daemon.end() < 1
    assert not node.plugins.exists(), "it is the kubelet's to make"


def test_after_sigkill_our_leftovers_go_and_nobody_elses(node, kubelet):
    first = node.start(ONE)
    kubelet.healthy(X)
    (ours,) = sockets(node) - {"kubelet.sock"}
    first.kill()
    assert ours in sockets(node)
    bound(node.plugins / "other-dead.sock", listening=False).close()
    (node.plugins / "py-device-plugin-note.sock").write_text("a file, not a socket")
    with (
        bound(node.plugins / "py-device-plugin-alive.sock", listening=True),
        bound(node.plugins / "other-alive.sock", listening=True),
    ):
        second = node.start(ONE)
        second.wait_log("removed a socket of an earlier process", socket=ours)
        kubelet.healthy(X)
        left = {"other-dead.sock", "other-alive.sock", "py-device-plugin-alive.sock"}
        assert left < sockets(node)
        assert (node.plugins / "py-device-plugin-note.sock").exists()
    assert len(second.log("removed a socket of an earlier process")) == 1
    assert ours not in sockets(node)


def test_a_pod_keeps_its_device_over_sigkill(node, kubelet):
    node.add("/dev/x")
    resources = {"x": [{"path": node.path("/dev/x"), "replicas": 3}]}
    first = node.start(resources)
    ids = kubelet.healthy(X, 3)
    pod, before = kubelet.run(X)
    first.kill()
    kubelet.wait_for(lambda k: not k.is_streaming(X))
    node.start(resources)
    assert kubelet.healthy(X, 3) == ids
    assert kubelet.restart_container(pod, "main") == before


def test_the_second_daemon_on_a_state_folder_says_so(node, kubelet):
    first = node.start(ONE)
    kubelet.healthy(X)
    second = node.start(ONE)
    assert second.wait() == 1
    (line,) = second.log("cannot start")
    assert f"another daemon uses the state folder {node.folder}/state" in line["reason"]
    assert len(kubelet.registrations) == 1
    first.end()
    node.start(ONE)
    kubelet.healthy(X)


def test_a_state_folder_that_cannot_be_made(node):
    (node.folder / "file").write_text("")
    daemon = node.start(ONE, state="file/state")
    assert daemon.wait() == 1
    (line,) = daemon.log("cannot start")
    assert "--state-dir" in line["reason"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_not_ours_to_write_in(node):
    node.plugins.mkdir()
    bound(node.plugins / "py-device-plugin-dead.sock", listening=False).close()
    node.plugins.chmod(0o555)
    try:
        daemon = node.start(ONE)
        daemon.wait_log("not registered", reason="is not writable: run as root")
        daemon.wait_page("/readyz", 503, "is not writable")
    finally:
        node.plugins.chmod(0o755)
    node.kubelet().healthy(X)
