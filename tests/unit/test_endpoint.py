"""Sockets in the kubelet's folder: their names, whose they are, which of them are left over."""

import os
import socket
import stat
import tempfile
import threading
import time
from pathlib import Path
from unittest.mock import create_autospec

import grpc
import pytest

from device_plugin import endpoint
from device_plugin._api.deviceplugin.v1beta1 import deviceplugin_pb2 as pb
from device_plugin._api.deviceplugin.v1beta1 import deviceplugin_pb2_grpc as pb_grpc
from device_plugin.endpoint import PREFIX, Endpoint, remove_leftovers, socket_name
from device_plugin.listener import identity, is_dead
from device_plugin.plugin import Plugin

KUBELETS = Path("/var/lib/kubelet/device-plugins")
SUN_PATH = 107


@pytest.fixture
def folder():
    """A short path: a socket's has 107 bytes."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        yield Path(made)


@pytest.fixture
def listen():
    sockets = []

    def make(path):
        sockets.append(socket.socket(socket.AF_UNIX))
        sockets[-1].bind(os.fspath(path))
        sockets[-1].listen()
        return path

    yield make
    for one in sockets:
        one.close()


def leave(path):
    """The socket of a process that was killed."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.fspath(path))
    return path


RESOURCES = ["example.com/fuse", "example.com/" + "x" * 63, "a/B_c.d", "a/-", "x" * 244 + "/y"]


@pytest.mark.parametrize("resource", RESOURCES)
@pytest.mark.parametrize("length", [1, 32, 40, 60, 64, 65, 66, 67])
def test_a_socket_fits_into_its_path_and_says_whose_it_is(resource, length):
    folder = Path("/" + "d" * (length - 1))
    name = socket_name(folder, resource)
    assert name.startswith(PREFIX)
    assert name.endswith(".sock")
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-")
    assert len(os.fsencode(folder / name)) <= SUN_PATH


def test_the_kubelets_folder_leaves_room_to_read():
    name = socket_name(KUBELETS, "example.com/zigbee.stick_2")
    assert name.startswith("py-device-plugin-zigbee-stick-2-")
    assert len(os.fsencode(KUBELETS / socket_name(KUBELETS, "a/" + "x" * 63))) <= SUN_PATH


def test_the_longest_path_can_be_bound(listen):
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="é" * 20) as made:
        folder = Path(made)
        path = folder / socket_name(folder, "example.com/" + "x" * 63)
        assert not is_dead(listen(path))


def test_a_folder_that_leaves_no_room_says_by_how_much():
    longest = max(n for n in range(30, 107) if fits(Path("/" + "d" * (n - 1))))
    with pytest.raises(
        OSError, match=r"^the path /d+ is 1 bytes too long for a unix socket in it$"
    ):
        socket_name(Path("/" + "d" * longest), "example.com/x")
    with pytest.raises(OSError, match="bytes too long"):
        socket_name(Path("/" + "é" * (longest // 2 + 1)), "example.com/x")


def fits(folder):
    try:
        return socket_name(folder, "example.com/x")
    except OSError:
        return ""


def test_no_name_comes_twice_and_none_belongs_to_another_resource():
    names = {socket_name(KUBELETS, "example.com/x") for _ in range(1000)}
    assert len(names) == 1000
    stems = {endpoint._stem(KUBELETS, r) for r in ("a.com/x", "b.com/x", "a.com/x-y", "a.com/x.y")}
    assert len(stems) == 4
    assert not any(a != b and a.startswith(b) for a in stems for b in stems)


def test_an_identity_is_that_of_one_socket(folder, listen):
    path = folder / "s"
    assert identity(path) is None
    first = identity(listen(path))
    assert first is not None
    path.chmod(0o600)
    assert identity(path) == first
    path.unlink()
    assert identity(path) is None
    os.utime(listen(path), ns=(0, first[2] + 1))  # if the inode's number is used again
    assert identity(path) != first


def test_only_sockets_have_an_identity(folder, listen):
    (folder / "file").touch()
    os.mkfifo(folder / "fifo")
    (folder / "dangling").symlink_to("gone")
    (folder / "loop").symlink_to("loop")
    assert [identity(folder / name) for name in ("file", "fifo", "dangling", "loop", ".")] == [
        None
    ] * 5
    (folder / "link").symlink_to("s")
    assert identity(listen(folder / "s")) == identity(folder / "link")


def test_a_socket_that_nobody_listens_on_is_dead(folder, listen):
    assert is_dead(leave(folder / "dead"))
    assert not is_dead(listen(folder / "alive"))
    assert not is_dead(folder / "gone")
    assert not is_dead(folder / ("x" * 200))


def test_a_socket_too_busy_to_answer_is_not_dead(folder):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.fspath(folder / "busy"))
        server.listen(0)
        with socket.socket(socket.AF_UNIX) as first:
            first.connect(os.fspath(folder / "busy"))
            assert not is_dead(folder / "busy")


def test_only_our_own_dead_sockets_are_removed(folder, listen):
    dead = leave(folder / f"{PREFIX}x-0-1.sock")
    listen(folder / f"{PREFIX}x-0-2.sock")
    leave(folder / "other.sock")
    leave(folder / f"{PREFIX}x.socket")
    leave(folder / "kubelet.sock")
    (folder / f"{PREFIX}file.sock").touch()
    (folder / f"{PREFIX}folder.sock").mkdir()
    leave(folder / f"{PREFIX}folder.sock" / f"{PREFIX}below.sock")
    (folder / f"{PREFIX}dangling.sock").symlink_to("gone")
    (folder / f"{PREFIX}link.sock").symlink_to("other.sock")
    before = set(folder.iterdir())
    assert remove_leftovers(folder) == [dead.name]
    assert before - set(folder.iterdir()) == {dead}
    assert remove_leftovers(folder) == []


def test_a_folder_that_is_not_there_has_no_leftovers(folder):
    assert remove_leftovers(folder / "gone") == []


def test_leftovers_that_others_remove_meanwhile_are_no_trouble(folder, monkeypatch):
    for i in range(3):
        leave(folder / f"{PREFIX}{i}.sock")

    def is_dead_and_all_gone(_):
        for path in folder.iterdir():
            path.unlink()
        return True

    monkeypatch.setattr(endpoint, "is_dead", is_dead_and_all_gone)
    assert remove_leftovers(folder) == []


def test_leftovers_that_may_not_be_removed_stay(folder, monkeypatch):
    path = leave(folder / f"{PREFIX}x.sock")

    def unlink(path):
        raise PermissionError(1, "Operation not permitted", path)

    monkeypatch.setattr(Path, "unlink", unlink)
    assert remove_leftovers(folder) == []
    assert stat.S_ISSOCK(path.lstat().st_mode)


def plugin(resource):
    """As much of one as an endpoint needs."""
    made = create_autospec(Plugin, instance=True, resource=resource)
    made.GetDevicePluginOptions.side_effect = lambda *_: pb.DevicePluginOptions()
    return made


def test_a_thread_that_cannot_be_started_does_not_end_the_server(folder, monkeypatch):
    """gRPC would take no call any more, while its socket looks as if."""
    made = Endpoint(folder, plugin("example.com/a"))
    left, start = [RuntimeError("can't start new thread")], threading.Thread.start

    def fail_once(thread):
        if thread.name.startswith("example.com/a") and left:
            raise left.pop()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", fail_once)
    try:
        with grpc.insecure_channel(f"unix:{folder / made.name}") as channel:
            ask = pb_grpc.DevicePluginStub(channel).GetDevicePluginOptions
            waits = ask.future(pb.Empty(), timeout=20)
            while left:
                time.sleep(0.01)
            for _ in range(3):
                ask(pb.Empty(), timeout=20)
            waits.result()  # it had only to wait for the thread of the next one
    finally:
        made.stop()
