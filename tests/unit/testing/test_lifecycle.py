"""The folder, the socket, the kubelet's comings and goings (A1)."""

import json
import os
import socket
import stat

import grpc
import pytest

from device_plugin.testing import FakeKubelet

X = "example.com/x"


def listen(path):
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()
    return server


def connect(path):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


def test_start_removes_every_socket_at_the_top_and_nothing_else(folder):
    (folder / "file").write_text("kept")
    (folder / "dangling").symlink_to(folder / "nowhere")
    (folder / "sub").mkdir()
    with listen(folder / "sub" / "deep.sock"), listen(folder / "plugin.sock"):
        (folder / "link").symlink_to(folder / "sub" / "deep.sock")
        with FakeKubelet(folder):
            found = {path.name for path in folder.iterdir()}
            assert found == {"file", "dangling", "sub", "kubelet.sock"}
            assert (folder / "sub" / "deep.sock").exists()


@pytest.fixture
def usual_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_the_folder_is_made(folder, usual_umask):
    with FakeKubelet(folder / "new"):
        assert stat.S_IMODE((folder / "new").stat().st_mode) == 0o755
        connect(folder / "new" / "kubelet.sock")


def test_the_stopped_kubelet_leaves_a_refusing_socket_behind(kubelet, folder):
    started = kubelet()
    inode = (folder / "kubelet.sock").stat().st_ino
    started.stop()
    assert (folder / "kubelet.sock").stat().st_ino == inode
    with pytest.raises(ConnectionRefusedError):
        connect(folder / "kubelet.sock")


def test_a_restart_makes_a_new_socket_and_removes_the_plugins(running, folder):
    kubelet, plugin = running()
    # Keep the old inode in use, else the new file may get its number.
    os.link(folder / "kubelet.sock", folder.parent / f"{folder.name}.old")
    try:
        inode = (folder / "kubelet.sock").stat().st_ino
        kubelet.restart(times=2)
        assert (folder / "kubelet.sock").stat().st_ino != inode
        assert not (folder / plugin.socket).exists()
        connect(folder / "kubelet.sock")
    finally:
        (folder.parent / f"{folder.name}.old").unlink()


def test_a_stop_drops_the_connections(running):
    kubelet, plugin = running()
    kubelet.stop()
    with plugin._changed:
        assert plugin._changed.wait_for(lambda: plugin.streams == 0, timeout=5)


def test_a_late_kubelet(folder, plugin):
    late = FakeKubelet(folder)
    made = plugin()
    code, _ = made.refused(timeout=0.5)
    assert code is grpc.StatusCode.UNAVAILABLE
    with late:
        made.stop()  # its socket is gone by now
        made.serve().register()
        late.wait_for(lambda k: k.allocatable(X) == 2)


def test_a_replaced_socket_leaves_the_streams_alone(running, folder):
    kubelet, plugin = running()
    kubelet.replace_socket(times=3)
    assert kubelet.is_streaming(X)
    plugin.send(a="Healthy")
    kubelet.wait_for(lambda k: k.capacity(X) == 1)
    plugin.register(endpoint=plugin.socket, resource_name="example.com/y")
    assert (folder / plugin.socket).exists()


def test_a_deleted_plugin_socket(running, folder):
    kubelet, plugin = running()
    kubelet.delete_socket(X)
    assert not (folder / plugin.socket).exists()
    assert kubelet.is_streaming(X)


def test_the_checkpoint_is_written_and_kept(running, folder):
    kubelet, _ = running()
    checkpoint = folder / "kubelet_internal_checkpoint"
    kubelet.wait_for(lambda k: checkpoint.exists())
    kubelet.restart()
    written = json.loads(checkpoint.read_text())
    assert sorted(written["Data"]["RegisteredDevices"]) == [X]


def test_it_says_so_when_used_in_the_wrong_state(kubelet):
    started = kubelet()
    with pytest.raises(RuntimeError, match="running already"):
        started.start()
    started.stop()
    with pytest.raises(RuntimeError, match="not running"):
        started.stop()


def test_an_unknown_release_is_refused(folder):
    with pytest.raises(ValueError, match=r"1\.36"):
        FakeKubelet(folder, behaviour="1.35")  # type: ignore[arg-type]


def test_a_start_that_fails_is_no_start(folder):
    kubelet = FakeKubelet(folder)
    (folder / "kubelet.sock").mkdir()
    with pytest.raises(RuntimeError):
        kubelet.start()
    assert not kubelet.running
    (folder / "kubelet.sock").rmdir()
    kubelet.start()
    kubelet.stop()
