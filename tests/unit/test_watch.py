"""Watched folders: what is told of them to whom."""

import threading

import pytest

from device_plugin.watch import Folders, Watch


@pytest.fixture
def watch():
    one = Watch()
    yield one
    one.close()


@pytest.mark.parametrize("order", ["contents last", "contents first"])
def test_two_may_watch_one_folder_and_each_is_told_what_it_asked_for(watch, tmp_path, order):
    """The kernel has one watch for both: the second must not take events from the first."""
    file = tmp_path / "config.yaml"
    file.touch()
    written, changed = threading.Event(), threading.Event()
    clients = [Folders(watch, changed.set), Folders(watch, written.set, contents=True)]
    for client in clients if order == "contents last" else reversed(clients):
        assert client.set([str(tmp_path)])
    file.write_text("new")
    assert written.wait(5)
    changed.clear()
    file.unlink()
    assert changed.wait(5)
