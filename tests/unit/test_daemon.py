"""What becomes of a daemon that does not come to run, and of a server that does not start."""

import threading

import pytest

from device_plugin import config
from device_plugin.cdi import Specs
from device_plugin.daemon import CannotStart, Daemon, Options
from device_plugin.inventory import Inventory
from device_plugin.metrics import Metrics
from device_plugin.reload import ConfigInUse
from device_plugin.server import Server
from device_plugin.serving import Serving

TEXT = "version: 1\nresources: [{name: example.com/a, devices: [{virtual: {count: 1}}]}]\n"


@pytest.fixture
def make(tmp_path):
    """Put a daemon together; each has the same state folder."""
    path = tmp_path / "config.yaml"
    path.write_text(TEXT)
    (tmp_path / "plugins").mkdir()

    def made():
        options = Options(
            device_plugin_dir=tmp_path / "plugins",
            kubelet_root=tmp_path,
            state_dir=tmp_path / "state",
            cdi_dir=tmp_path / "cdi",
            http=None,
        )
        return Daemon(ConfigInUse(path, config.read(path)), options)

    return made


def test_one_that_never_started_gives_the_state_folder_back(make):
    for _ in range(2):
        one = make()
        with pytest.raises(CannotStart, match="another daemon uses the state folder"):
            make()
        one.close()


def test_a_start_that_fails_leaves_nothing_behind(make, tmp_path, monkeypatch):
    """A thread that goes on would keep the process, registered and without a loop."""
    before = set(threading.enumerate())

    def fail(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("device_plugin.daemon.PodResources.wait", lambda *_: fail(None))
    one = make()
    with pytest.raises(RuntimeError):
        one.start()
    one.close()
    assert [one for one in set(threading.enumerate()) - before if not one.daemon] == []
    assert list((tmp_path / "plugins").iterdir()) == []
    make().close()


def test_a_step_of_the_end_that_fails_does_not_keep_the_others(make, monkeypatch):
    one = make()
    one.start()

    def fail(_):
        raise OSError("any")

    with monkeypatch.context() as now:
        now.setattr("device_plugin.daemon.Programs.close", fail)
        with pytest.raises(OSError, match="any"):
            one.close()
    make().close()


@pytest.fixture
def serving(short_folder, tmp_path):
    inventory = Inventory(["example.com/a"])
    specs = Specs(tmp_path / "cdi", tmp_path)
    return Serving(short_folder, inventory, specs, Metrics(), lambda *_: pytest.fail("a plugin"))


def test_a_server_whose_thread_cannot_be_started_is_tried_again(serving, monkeypatch):
    read = config.check(TEXT.encode(), "c.yaml").config
    assert read is not None
    left = [RuntimeError("can't start new thread")]
    started: list[str] = []

    def start(server):
        if left:
            raise left.pop()
        started.append(server.resource)

    monkeypatch.setattr(Server, "start", start)
    with pytest.raises(RuntimeError):
        serving.follow(read)
    assert serving.servers == []
    serving.stop()  # there is nothing to be joined
    serving.follow(read)
    assert started == ["example.com/a"]


def test_no_server_is_without_a_problem_before_it_is_registered(short_folder):
    """Also between two registrations: /readyz says ok where nothing has one."""
    server = Server("example.com/a", short_folder, lambda *_: pytest.fail("a plugin"), Metrics())
    server._problem = ""  # it was registered, and its socket is gone
    assert server.problem == "not registered yet"
