"""Devices by name: what the runtime reads is there before the kubelet is told, and stays true."""

import json
import os
import shutil
import stat
import subprocess
import sys

import pytest

from device_plugin.testing import AdmissionError

X, Y = "example.com/x", "example.com/y"
NULL, ZERO, FULL = (1, 3), (1, 5), (1, 7)
READ_ONLY = 'mount -t tmpfs -o ro none "$1" && shift && exec "$@"'


class Cdi:
    """The folder of specs, and what a runtime makes of the names that it is given."""

    def __init__(self, node):
        self.node, self.folder = node, node.folder / "cdi"

    def start(self, resources, **more):
        within = (*more.pop("within", ()), "env", f"DEVICE_PLUGIN_CDI_DIR={self.folder}")
        return self.node.start(resources, within=within, **more)

    def file(self, name="x"):
        return self.folder / f"device-plugin-example.com_{name}.json"

    def names(self):
        return [f"{kind}={device['name']}" for kind, device in self._devices()]

    def nodes(self, created):
        """Path inside and number of each node that a container gets; links are not followed."""
        found = {f"{kind}={device['name']}": device for kind, device in self._devices()}
        edits = [found[name]["containerEdits"] for name in created.cdi_devices]
        return {node["path"]: self._number(node) for one in edits for node in one["deviceNodes"]}

    def _devices(self):
        for file in self.folder.glob("*.json"):
            spec = json.loads(file.read_bytes())
            for device in spec["devices"]:
                yield spec["kind"], device

    def _number(self, node):
        path = node.get("hostPath", node["path"])
        status = os.lstat(path if self.node.host_root == "/" else self.node.at(path))
        assert stat.S_ISCHR(status.st_mode)
        return os.major(status.st_rdev), os.minor(status.st_rdev)


@pytest.fixture
def cdi(node):
    return Cdi(node)


def by_name(*selectors, **more):
    return {"devices": list(selectors), "container": {"cdi": True}, **more}


def test_names_of_which_the_runtime_knows_all(node, kubelet, cdi):
    number = node.add("/dev/x0").stat().st_rdev
    selector = {"path": node.path("/dev/x{n}"), "to": "/dev/in-{n}", "replicas": 2}
    container = {"cdi": True, "env": {"WHERE": "{path}"}}
    cdi.start({"x": {"devices": [selector], "container": container}})
    kubelet.healthy(X, 2)
    _, created = kubelet.run(X, 2)
    assert not created.devices
    assert list(created.cdi_devices) == cdi.names()
    assert cdi.nodes(created) == {"/dev/in-0": (os.major(number), os.minor(number))}
    assert set(created.envs["WHERE"].split(",")) == {"/dev/in-0"}


def test_a_device_without_nodes(node, kubelet, cdi):
    cdi.start({"x": by_name({"virtual": {"count": 2}})})
    kubelet.healthy(X, 2)
    _, created = kubelet.run(X, 2)
    assert sorted(created.cdi_devices) == sorted(cdi.names())


@pytest.mark.root
def test_a_restarted_container_gets_the_right_node_after_renumbering(node, kubelet, cdi):
    node.at("/dev/serial/by-id").mkdir(parents=True)
    link = node.at("/dev/serial/by-id/stick")
    node.add("/dev/ttyUSB0", NULL)
    link.symlink_to("../../ttyUSB0")
    selector = {"path": "/dev/serial/by-id/*", "to": "/dev/stick"}
    cdi.start({"x": by_name(selector, per_container={"max": 1})})
    (id_,) = kubelet.healthy(X)
    pod, created = kubelet.run(X)
    assert cdi.nodes(created) == {"/dev/stick": NULL}

    link.unlink()  # another one takes its number, before it is back
    node.add("/dev/ttyUSB1", ZERO)
    kubelet.until(X, {id_: "Unhealthy"})
    assert cdi.names() == []  # no container rather than one with another one's node
    link.symlink_to("../../ttyUSB1")
    kubelet.until(X, {id_: "Healthy"})
    created = kubelet.restart_container(pod, "main")
    assert cdi.nodes(created) == {"/dev/stick": ZERO}


@pytest.mark.root
def test_a_link_that_leads_elsewhere_at_once(node, kubelet, cdi, eventually):
    """The kubelet need not know: nothing of it is in the list."""
    for name, number in (("a", NULL), ("b", ZERO)):
        node.add(f"/dev/{name}", number)
    node.at("/dev/x").symlink_to("a")
    cdi.start({"x": by_name({"path": "/dev/x"})})
    kubelet.healthy(X)
    pod, _ = kubelet.run(X)
    node.at("/dev/x.new").symlink_to("b")
    node.at("/dev/x.new").rename(node.at("/dev/x"))
    eventually(lambda: "/dev/b" in cdi.file().read_text())
    assert cdi.nodes(kubelet.restart_container(pod, "main")) == {"/dev/x": ZERO}
    assert len(kubelet.lists(X)) == 1


@pytest.mark.root
def test_a_name_has_no_number_that_could_be_another_one(node, kubelet, cdi):
    node.add("/dev/x", NULL)
    daemon = cdi.start({"x": by_name({"path": "/dev/x"}), "y": [{"path": "/dev/y"}]})
    kubelet.healthy(X)
    pod, _ = kubelet.run(X)
    node.add("/dev/x.new", FULL).rename(node.at("/dev/x"))
    node.add("/dev/y")  # seen later than the change before
    kubelet.healthy(Y)
    assert cdi.nodes(kubelet.restart_container(pod, "main")) == {"/dev/x": FULL}
    assert not daemon.log("device unhealthy", resource=X)


def test_a_restart_leaves_the_spec_alone(node, kubelet, cdi):
    node.add("/dev/x")
    resources = {"x": by_name({"path": node.path("/dev/x")})}
    first = cdi.start(resources)
    kubelet.healthy(X)
    inode = cdi.file().stat().st_ino
    first.kill()
    cdi.start(resources)
    kubelet.accepted(X, 2)
    assert cdi.file().stat().st_ino == inode


@pytest.mark.parametrize("end", ["end", "kill"])
def test_after_a_reboot_the_spec_is_there_before_the_list(node, kubelet, cdi, end):
    node.add("/dev/x")
    resources = {"x": by_name({"path": node.path("/dev/x")})}
    first = cdi.start(resources)
    kubelet.healthy(X)
    getattr(first, end)()
    shutil.rmtree(cdi.folder)
    cdi.start(resources)
    kubelet.wait_for(lambda k: len(k.lists(X)) == 2)
    assert len(cdi.names()) == 1


def test_what_others_remove_is_there_again_after_the_audit(node, kubelet, cdi, eventually):
    node.add("/dev/x")
    cdi.start({"x": by_name({"path": node.path("/dev/x")})}, audit_interval="100ms")
    kubelet.healthy(X)
    shutil.rmtree(cdi.folder)
    eventually(cdi.names)
    assert len(kubelet.lists(X)) == 1


def test_what_the_config_dropped_while_nobody_ran(node, kubelet, cdi):
    """What a container has a name of stays, all else goes; another daemon's is not ours."""
    for name in ("x", "y", "z"):
        node.add(f"/dev/{name}")
    resources = {name: by_name({"path": node.path(f"/dev/{name}")}) for name in "xyz"}
    other = cdi.start({"z": resources.pop("z")}, state="other")
    first = cdi.start(resources)
    kubelet.healthy(X)
    kubelet.healthy(Y)
    kubelet.healthy("example.com/z")
    kubelet.run(X)
    before = cdi.file("x").read_bytes()
    first.end()
    second = cdi.start({"other": [{"virtual": {"count": 1}}]})
    second.wait_log("removed a CDI spec of an earlier process", resource=Y)
    kubelet.wait_for(lambda k: list(k.devices(X).values()) == ["Unhealthy"] and k.settled(X))
    assert cdi.file("x").read_bytes() == before
    assert not cdi.file("y").exists()
    assert cdi.file("z").exists()
    other.end()


def test_a_resource_that_is_served_no_more_has_no_spec(node, kubelet, cdi):
    kubelet.ids_may_leave = True  # the second process has never heard of it
    record = node.folder / "state" / "cdi.json"
    one = [{"virtual": {"count": 1}}]
    first = cdi.start({"x": by_name(*one)})
    kubelet.healthy(X)
    first.end()
    assert json.loads(record.read_text()) == [X]
    daemon = cdi.start({"x": by_name({"path": node.path("/dev/none")}), "y": one})
    kubelet.until(X, {})
    assert cdi.names() == []
    node.configure({"y": one})
    daemon.wait_log("no longer served", resource=X)
    assert json.loads(record.read_text()) == []


def test_names_from_the_moment_that_the_config_asks_for_them(node, kubelet, cdi):
    selector = {"virtual": {"count": 3}}
    cdi.start({"x": [selector]})
    kubelet.healthy(X, 3)
    _, first = kubelet.run(X, name="first")
    node.configure({"x": by_name(selector), "y": [selector]})
    kubelet.healthy(Y, 3)  # the sign that the config was read
    pod, second = kubelet.run(X, name="second")
    node.configure({"x": [selector], "z": [selector]})
    kubelet.healthy("example.com/z", 3)
    _, third = kubelet.run(X, name="third")
    assert [len(one.cdi_devices) for one in (first, second, third)] == [0, 1, 0]
    assert set(kubelet.restart_container(pod, "main").cdi_devices) < set(cdi.names())


def test_a_folder_that_cannot_be_written(node, kubelet, cdi):
    node.add("/dev/x")
    cdi.folder.touch()
    resources = {"x": by_name({"path": node.path("/dev/x")}), "y": [{"virtual": {"count": 1}}]}
    daemon = cdi.start(resources, audit_interval="100ms")
    kubelet.healthy(Y)
    line = daemon.wait_log("device unhealthy", resource=X)
    assert line["reason"] == (
        f"cannot write {cdi.file()}: Not a directory: mount its folder, or drop container.cdi"
    )
    kubelet.until(X, {line["device"]: "Unhealthy"})
    with pytest.raises(AdmissionError):
        kubelet.run(X)
    cdi.folder.unlink()
    kubelet.until(X, {line["device"]: "Healthy"})
    assert len(cdi.names()) == 1
    assert len(daemon.log("device unhealthy", resource=X)) == 1


@pytest.mark.root
def test_a_folder_that_is_read_only(node, kubelet, cdi):
    node.add("/dev/x")
    cdi.folder.mkdir()
    alone = ("unshare", "--mount", "sh", "-c", READ_ONLY, "sh", cdi.folder)
    daemon = cdi.start({"x": by_name({"path": "/dev/x"})}, audit_interval="100ms", within=alone)
    kubelet.until(X, {"x": "Unhealthy"})
    daemon.wait_log("device unhealthy", reason=f"{cdi.file()}: Read-only file system: ")
    there = ["nsenter", "--mount", "--target", str(daemon.process.pid)]
    subprocess.run([*there, "mount", "-o", "remount,rw", cdi.folder], check=True)
    kubelet.until(X, {"x": "Healthy"})


def test_the_dry_run_shows_names(tmp_path):
    config = tmp_path / "config.yaml"
    resource = {"name": X, **by_name({"virtual": {"count": 1}})}
    config.write_text(json.dumps({"version": 1, "resources": [resource]}))
    command = [sys.executable, "-m", "device_plugin", "allocate", "--config", config, X]
    shown = {
        form: subprocess.run([*command, "-o", form], capture_output=True, text=True, check=True)
        for form in ("json", "table")
    }
    [device] = json.loads(shown["json"].stdout)["cdiDevices"]
    assert device["name"].startswith(f"{X}=")
    assert f"BY CDI   {device['name']}" in shown["table"].stdout
