"""Which files of plugins_registry count as sockets, and when one is another (A15)."""

import os
import shutil
import socket

import pytest

from device_plugin.testing.operations import LONGEST_PAUSE, Backoff
from device_plugin.testing.plugin_sockets import PluginSockets


def make(path):
    """Make a socket file; nobody listens."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
    return path


@pytest.fixture
def look(root):
    sockets = PluginSockets(str(root))

    def names():
        return {os.path.relpath(path, root): number for path, number in sockets.look().items()}

    yield names
    sockets.close()


def test_sockets_at_any_depth_and_links_to_them(look, root):
    (root / "a" / "b").mkdir(parents=True)
    make(root / "top.sock")
    make(root / "a" / "b" / "deep.sock")
    (root / "link").symlink_to(root / "top.sock")
    (root / "file.sock").write_text("")
    (root / "dangling").symlink_to(root / "nowhere")
    os.mkfifo(root / "fifo")
    assert set(look()) == {"top.sock", "a/b/deep.sock", "link"}


def test_dots_hide_sockets(look, root):
    make(root / ".hidden.sock")
    (root / "new").mkdir()
    make(root / "new" / ".hidden.sock")
    assert look() == {}
    (root / ".hidden.sock").rename(root / "seen.sock")  # how one publishes a socket that serves
    assert set(look()) == {"seen.sock"}


def test_folders_with_dots_count_at_the_start_and_in_a_new_folder_only(look, root):
    (root / ".early").mkdir()
    make(root / ".early" / "a.sock")
    assert set(look()) == {".early/a.sock"}
    (root / ".late").mkdir()
    make(root / ".late" / "b.sock")
    (root / "new" / ".within").mkdir(parents=True)
    make(root / "new" / ".within" / "c.sock")
    make(root / ".early" / "d.sock")
    expected = {".early/a.sock", "new/.within/c.sock", ".early/d.sock"}
    assert set(look()) == expected
    assert set(look()) == expected


def test_a_socket_made_anew_is_another(look, root):
    path = make(root / "x.sock")
    first = look()
    assert look() == first
    path.chmod(0o600)
    assert look() == first
    path.unlink()
    make(path)
    second = look()
    assert set(second) == {"x.sock"}
    assert second != first
    make(root / ".new").rename(path)
    assert look() not in (first, second)


def test_a_removed_socket_is_gone(look, root):
    make(root / "x.sock")
    (root / "sub").mkdir()
    make(root / "sub" / "y.sock")
    assert len(look()) == 2
    (root / "x.sock").unlink()
    shutil.rmtree(root / "sub")
    assert look() == {}


def test_a_socket_that_is_renamed_away_stays(look, root):
    path = make(root / "x.sock")
    number = look()["x.sock"]
    path.rename(root / "y.sock")
    assert look()["x.sock"] == number
    assert set(look()) == {"x.sock", "y.sock"}
    (root / "y.sock").unlink()
    assert set(look()) == {"x.sock"}  # nobody hears of it any more
    make(path)
    assert look()["x.sock"] != number
    path.unlink()
    assert look() == {}


def test_a_link_whose_socket_is_gone_stays(look, root):
    make(root / ".target")
    (root / "link").symlink_to(root / ".target")
    found = look()
    (root / ".target").unlink()
    assert look() == found
    (root / "link").unlink()
    assert look() == {}


def test_no_handle_is_left_open(root):
    def count():
        return len(os.listdir("/proc/self/fd"))

    before = count()
    sockets = PluginSockets(str(root))
    for number in range(3):
        path = make(root / "x.sock")
        make(root / f"{number}.sock")
        sockets.look()
        path.unlink()
        (root / f"{number}.sock").rename(root / f".{number}")
        sockets.look()
        assert count() == before
    make(root / "x.sock")
    sockets.look()
    sockets.close()
    assert count() == before


def test_a_folder_that_is_not_there(look, root):
    root.rmdir()
    assert look() == {}
    root.mkdir()
    make(root / "x.sock")
    assert set(look()) == {"x.sock"}


def test_pauses_double_and_only_a_success_ends_them():
    now = 0.0
    backoff = Backoff(clock=lambda: now)
    pauses = []
    for _ in range(10):
        assert backoff.allows("x")
        backoff.failed("x")
        assert backoff.allows("y")
        pause = 0.0
        while not backoff.allows("x"):
            pause += 0.25
            now += 0.25
        pauses.append(pause - 0.25)  # over when it is later, not when it is as late
    assert pauses == [0.5, 1, 2, 4, 8, 16, 32, 64, LONGEST_PAUSE, LONGEST_PAUSE]
    backoff.succeeded("x")
    backoff.failed("x")
    now += 0.75
    assert backoff.allows("x")
