"""Devices that programs list, in a daemon: no look waits for one, and none outlives it."""

import json
import os
import signal
import time

import pytest

X, Y = "example.com/x", "example.com/y"


class Program:
    """A program that does what its file `does` says, and notes the processes that it was."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.path = folder / "list"
        self.path.write_text('#!/bin/sh\ncd "${0%/*}"; echo $$ >> pids; . ./does\n')
        self.path.chmod(0o755)

    def prints(self, *devices):
        text = json.dumps({"devices": devices})
        self.does(f"echo '{text}'")

    def does(self, script):
        new = self.folder / "new"
        new.write_text(script)
        new.rename(self.folder / "does")

    @property
    def pids(self):
        pids = self.folder / "pids"
        return [int(pid) for pid in pids.read_text().split()] if pids.exists() else []

    def selector(self, interval="1s", timeout="60s", **rest):
        command = [str(self.path)]
        return {"exec": {"command": command, "interval": interval, "timeout": timeout}, **rest}


@pytest.fixture
def program(node):
    return Program(node.folder / "probes")


def alive(pid):
    """Whether it is a process; a zombie whose parent is gone as well is none."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_what_it_lists_is_handed_out(node, kubelet, program):
    node.add("/dev/a")
    where = {"host_path": node.path("/dev/a"), "to": "/dev/probe"}
    program.prints(
        {"id": "SN 1", "nodes": [where], "attributes": {"serial": "SN 1", "ok": True}},
        {"id": "SN 2", "attributes": {"serial": "SN 2", "ok": False}},
    )
    selector = program.selector(where=[{"key": "ok", "operator": "In", "values": ["true"]}])
    container = {"env": {"SERIAL": "{attribute.serial}", "AT": "{path}"}}
    node.start({"x": {"devices": [selector], "container": container}})
    (id_,) = kubelet.healthy(X)
    assert id_.startswith("sn-1-")
    _, created = kubelet.run(X)
    assert [device.container_path for device in created.devices] == ["/dev/probe"]
    assert (created.envs["SERIAL"], created.envs["AT"]) == ("SN 1", "/dev/probe")


def test_a_new_run_brings_what_is_new(node, kubelet, program):
    program.prints({"id": "a"})
    node.start({"x": [program.selector()]})
    (first,) = kubelet.healthy(X)
    program.prints({"id": "a"}, {"id": "b"})
    assert first in kubelet.healthy(X, 2)
    program.prints({"id": "b"})
    kubelet.wait_for(lambda k: k.devices(X).get(first) == "Unhealthy")


def test_a_node_that_comes_and_goes_needs_no_run(node, kubelet, program):
    program.prints({"id": "a", "nodes": [{"host_path": node.path("/dev/a")}]})
    node.start({"x": [program.selector(interval="1h")]})
    kubelet.until(X, {})
    made = node.add("/dev/a")
    (id_,) = kubelet.healthy(X)
    made.unlink()
    kubelet.until(X, {id_: "Unhealthy"})
    node.add("/dev/a")
    kubelet.healthy(X)
    assert len(program.pids) == 1


def test_failing_its_devices_stay_for_a_while(node, kubelet, program):
    program.prints({"id": "a"})
    daemon = node.start({"x": [program.selector()]})
    (id_,) = kubelet.healthy(X)
    program.does("echo 'no bus' >&2; exit 3")
    reason = f"{program.path} ended with status 3: no bus"
    said = daemon.wait_log("not offered", reason=f"{reason}; its last list stays")
    assert kubelet.devices(X) == {id_: "Healthy"}
    turned = daemon.wait_log("device unhealthy", device=id_, reason=reason, timeout=20)
    assert turned["timestamp"] > said["timestamp"]
    kubelet.until(X, {id_: "Unhealthy"})
    program.prints({"id": "a"})
    kubelet.healthy(X)


def test_no_look_waits_for_it(node, kubelet, program):
    program.does("sleep 600")
    daemon = node.start({"x": [program.selector()], "y": [{"path": node.path("/dev/y")}]})
    kubelet.until(Y, {})
    node.add("/dev/y")
    kubelet.healthy(Y)
    assert kubelet.devices(X) == {}
    daemon.wait_page("/healthz", 200)


@pytest.mark.parametrize("script", ["sleep 600", "trap '' TERM; sleep 600 & wait"])
def test_it_ends_with_the_daemon(node, kubelet, program, script, eventually):
    program.does(script)
    daemon = node.start({"x": [program.selector()]})
    kubelet.until(X, {})
    (pid,) = eventually(lambda: program.pids)
    group = os.getpgid(pid)
    assert group == pid
    assert daemon.end() < 1
    assert not alive(pid)
    eventually(lambda: not members(group))


def test_it_ends_when_the_config_drops_it(node, kubelet, program, eventually):
    program.prints({"id": "a"})
    daemon = node.start({"x": [program.selector()], "y": [{"virtual": {"count": 1}}]})
    (id_,) = kubelet.healthy(X)
    runs = len(program.pids)
    program.does("sleep 600")
    eventually(lambda: len(program.pids) > runs)
    node.configure({"x": [{"virtual": {"count": 1}}], "y": [{"virtual": {"count": 1}}]})
    daemon.process.send_signal(signal.SIGHUP)
    kubelet.wait_for(lambda k: sorted(k.devices(X).values()) == ["Healthy", "Unhealthy"])
    daemon.wait_log("device unhealthy", device=id_, reason="not in config")
    eventually(lambda: not alive(program.pids[-1]))


def test_a_new_interval_is_no_news_for_its_devices(node, kubelet, program, eventually):
    program.prints({"id": "a"})
    daemon = node.start({"x": [program.selector(interval="1h")]})
    kubelet.healthy(X)
    node.configure({"x": [program.selector(interval="30m")]})
    daemon.wait_log("config applied")
    eventually(lambda: len(program.pids) == 2)
    kubelet.healthy(X)
    assert not daemon.log("device unhealthy")


def test_a_killed_daemon_lists_them_again(node, kubelet, program):
    program.prints({"id": "a"})
    daemon = node.start({"x": [program.selector(interval="1h")]})
    (id_,) = kubelet.healthy(X)
    kubelet.run(X)
    daemon.kill()
    kubelet.wait_for(lambda k: not k.is_streaming(X))
    started = time.monotonic()
    node.start({"x": [program.selector(interval="1h")]})
    assert kubelet.healthy(X) == [id_]
    assert time.monotonic() - started < 5


def members(group):
    """The processes of a group that are not dead."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as stat:
                state, _, of = stat.read().rpartition(")")[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(of) == group and state != "Z":
            found.append(int(name))
    return found
