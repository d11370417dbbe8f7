"""What the plugin watcher does when sockets, streams and kubelets come and go (A15)."""

import threading
import time

import pytest

from device_plugin.testing import handshake

X = "example.com/x"


@pytest.mark.parametrize("behaviour", ["1.36", "1.37"])
def test_a_removed_socket_ends_the_registration(watching, plugin, registry, behaviour):
    kubelet = watching(behaviour=behaviour)
    served = plugin()
    found = registry(endpoint=str(served.folder / served.socket))
    kubelet.wait_for(lambda k: k.plugins and k.allocatable(X) == 2)
    found.path.unlink()
    kubelet.wait_for(lambda k: k.allocatable(X) == 0)
    assert kubelet.capacity(X) == 2
    assert kubelet.plugins == {}
    kubelet.wait_for(lambda k: k.registrations[0].stream_ended)


@pytest.mark.parametrize(("behaviour", "left"), [("1.36", 0), ("1.37", 2)])
def test_whom_a_removed_socket_disconnects(watching, plugin, registry, behaviour, left):
    """1.36 goes by the resource and disconnects whoever serves it by now."""
    kubelet = watching(behaviour=behaviour)
    found = registry(also=plugin())
    kubelet.wait_for(lambda k: k.plugins and k.allocatable(X) == 2)
    other = plugin(socket="other.sock")
    other.register()
    kubelet.wait_for(lambda k: len(k.lists(X)) == 2)
    found.path.unlink()
    kubelet.wait_for(lambda k: not k.plugins and len(k.streams(X)) == 1)
    kubelet.wait_for(lambda k: k.allocatable(X) == left)
    [stays] = kubelet.streams(X)
    assert stays.endpoint == (str(found.path) if behaviour == "1.36" else "other.sock")


def test_a_socket_made_anew_is_registered_anew(watching, plugin, registry):
    """The first one is let go before, although what it pointed to still serves."""
    kubelet = watching()
    served = plugin()
    found = registry(endpoint=str(served.folder / served.socket))
    kubelet.wait_for(lambda k: k.plugins and k.allocatable(X) == 2)
    found.stop()
    found.serve()
    kubelet.wait_for(lambda k: len(k.handshakes) == 2)
    kubelet.wait_for(lambda k: k.allocatable(X) == 2)
    assert [one.number for one in kubelet.streams(X)] == [2]
    assert found.told == [(True, ""), (True, "")]


def test_a_stream_that_ends_is_not_opened_again(watching, plugin, registry):
    kubelet = watching()
    served = plugin()
    found = registry(endpoint=str(served.folder / served.socket))
    kubelet.wait_for(lambda k: k.plugins and k.allocatable(X) == 2)
    served.end_streams()
    kubelet.wait_for(lambda k: k.allocatable(X) == 0)
    assert set(kubelet.plugins) == {str(found.path)}  # so it believes
    with pytest.raises(AssertionError, match="not so within"):
        kubelet.wait_for(lambda k: len(k.registrations) > 1, timeout=0.3)
    found.stop()
    found.serve()
    kubelet.wait_for(lambda k: k.allocatable(X) == 2)


def test_sockets_stay_over_a_restart_and_are_registered_again(watching, plugin, registry):
    found = registry(also=plugin())
    kubelet = watching()
    kubelet.wait_for(lambda k: k.plugins)
    inode = found.path.stat().st_ino
    kubelet.restart()
    kubelet.wait_for(lambda k: k.plugins and k.allocatable(X) == 2)
    assert found.path.stat().st_ino == inode
    assert len(found.told) == 2


def test_a_socket_that_went_while_the_kubelet_was_down(watching, plugin, registry):
    found = registry(also=plugin())
    kubelet = watching()
    kubelet.wait_for(lambda k: k.plugins)
    kubelet.stop()
    found.path.unlink()
    kubelet.start()
    assert kubelet.plugins == {}


@pytest.mark.parametrize("step", ["info", "options", "told"])
def test_a_stop_does_not_wait_for_a_plugin(watching, plugin, registry, step, monkeypatch):
    monkeypatch.setattr(handshake, "INFO_TIMEOUT", 60)
    monkeypatch.setattr(handshake, "NOTIFY_TIMEOUT", 60)
    served, here, over = plugin(), threading.Event(), threading.Event()
    found = registry(also=served)

    def hang(context):
        here.set()
        over.wait(10)

    if step == "info":
        found.on_info = hang
    elif step == "options":
        served.on_options = hang
    else:
        found.on_told = hang
    kubelet = watching()
    assert here.wait(5)
    started = time.monotonic()
    kubelet.stop()
    over.set()
    assert time.monotonic() - started < 5
    assert kubelet.plugins == {}


def test_it_looks_once_a_second(kubelet, root, registry):
    early = registry("early.sock", type="DRAPlugin")
    started = kubelet(root=root)
    first = early.outcome(started)
    second = registry("late.sock", type="DRAPlugin").outcome(started)
    assert second.started - first.started > 0.9


def test_without_a_root_nobody_looks(kubelet, folder):
    started = kubelet()
    assert started.plugins == {}
    assert {path.name for path in folder.iterdir()} == {"kubelet.sock"}
