"""What the container runtime makes of a config; it needs no kubelet."""

import os
import socket

import pytest

from device_plugin.testing import (
    ContainerConfig,
    DeviceConfig,
    MountConfig,
    Runtime,
    RuntimeRefusal,
)


def devices(*entries):
    return ContainerConfig(devices=[DeviceConfig(*entry) for entry in entries])


def mounts(*entries):
    return ContainerConfig(mounts=[MountConfig(*entry) for entry in entries])


@pytest.fixture
def root(tmp_path):
    """A fake host, whose plain files stand in for device nodes."""
    (tmp_path / "dev" / "snd").mkdir(parents=True)
    (tmp_path / "dev" / "tty0").touch()
    (tmp_path / "dev" / "snd" / "pcm").touch()
    return tmp_path


@pytest.fixture
def runtime(root):
    return Runtime(root, files_as_devices=True)


def test_a_device_node():
    [made] = Runtime().create(devices(("/dev/in", "/dev/null", "rwm"))).devices
    assert (made.container_path, made.host_path, made.real_path) == (
        "/dev/in",
        "/dev/null",
        "/dev/null",
    )
    assert (made.type, made.major, made.minor, made.permissions) == ("c", 1, 3, "rwm")


def test_links_are_resolved_inside_the_root(root, runtime):
    (root / "dev" / "by-id").mkdir()
    (root / "dev" / "by-id" / "rel").symlink_to("../tty0")
    (root / "dev" / "abs").symlink_to("/dev/by-id/rel")
    (root / "dev" / "up").symlink_to("../../../../dev/tty0")
    for name in ("by-id/rel", "abs", "up"):
        [made] = runtime.create(devices(("/dev/in", f"/dev/{name}", "r"))).devices
        assert (made.host_path, made.real_path) == (f"/dev/{name}", "/dev/tty0")


@pytest.mark.parametrize(
    ("host_path", "text"),
    [
        ("/dev/gone", "no such file or directory"),
        ("/dev/dangling", "no such file or directory"),
        ("/dev/loop", "too many links"),
        ("dev/tty0", "not absolute"),
        ("", "not absolute"),
        ("/dev/sock", "not a device node"),
    ],
)
def test_refused_devices(root, runtime, monkeypatch, host_path, text):
    (root / "dev" / "dangling").symlink_to("/dev/gone")
    (root / "dev" / "loop").symlink_to("/dev/loop")
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(root / "dev")  # a short path for the socket
        server.bind("sock")
        with pytest.raises(RuntimeRefusal, match=text):
            runtime.create(devices(("/dev/in", host_path, "rw")))


def test_empty_permissions_are_refused(runtime):
    with pytest.raises(RuntimeRefusal, match="field cannot be empty"):
        runtime.create(devices(("/dev/in", "/dev/tty0", "")))


def test_a_plain_file_is_no_device(root):
    with pytest.raises(RuntimeRefusal, match="not a device node"):
        Runtime(root).create(devices(("/dev/in", "/dev/tty0", "rw")))


def test_a_relative_container_path_is_refused(runtime):
    with pytest.raises(RuntimeRefusal, match="not absolute"):
        runtime.create(devices(("in", "/dev/tty0", "rw")))


def test_a_missing_container_path_is_the_device_s_own(runtime):
    created = runtime.create(devices(("", "/dev/tty0", "rw")))
    assert created.devices[0].container_path == "/dev/tty0"
    assert "no container path" in created.remarks[0]


def test_a_directory_stands_for_the_nodes_below_it(root, runtime):
    (root / "dev" / "snd" / "by-path").mkdir()
    (root / "dev" / "snd" / "by-path" / "ctl").touch()
    (root / "dev" / "snd" / "link").symlink_to("pcm")
    (root / "dev" / "snd" / "pts").mkdir()
    (root / "dev" / "snd" / "pts" / "0").touch()
    (root / "dev" / "snd" / "console").touch()
    os.mkfifo(root / "dev" / "snd" / "pipe")
    created = runtime.create(devices(("/dev/in", "/dev/snd", "rw")))
    assert [(made.container_path, made.host_path) for made in created.devices] == [
        ("/dev/in/by-path/ctl", "/dev/snd/by-path/ctl"),
        ("/dev/in/pcm", "/dev/snd/pcm"),
    ]


def test_a_directory_may_be_empty(root, runtime):
    (root / "dev" / "empty").mkdir()
    created = runtime.create(devices(("/dev/in", "/dev/empty", "rw")))
    assert created.devices == ()
    assert "without device nodes" in created.remarks[0]


def test_strange_permissions_mean_nothing_and_are_told(runtime):
    created = runtime.create(devices(("/dev/in", "/dev/tty0", "rwx ")))
    assert created.remarks == ("device /dev/tty0: permissions ' x' mean nothing",)


def test_a_missing_mount_would_become_a_directory(root, runtime):
    created = runtime.create(mounts(("/in", "/opt/gone", True), ("/snd", "/dev/snd", False)))
    assert created.remarks == (
        "mount /opt/gone does not exist: it would be created as a directory",
    )
    assert not (root / "opt").exists()


@pytest.mark.parametrize("entry", [("in", "/dev", True), ("/in", "dev", True), ("", "/dev", True)])
def test_relative_mounts_are_refused(runtime, entry):
    with pytest.raises(RuntimeRefusal, match="not absolute"):
        runtime.create(mounts(entry))


def test_duplicates_are_told(runtime):
    config = devices(("/dev/in/pcm", "/dev/tty0", "r"), ("/dev/in", "/dev/snd", "r"))
    config.mounts = [MountConfig("/dev/in/../in/pcm", "/dev", True)]
    told = "container path /dev/in/pcm is given more than once"
    assert runtime.create(config).remarks == (told, told)


@pytest.mark.parametrize(
    "name", ["vendor.com/class=name", "v/c=0", "a-b_c.d/e-f=x:y.z-1_2", "nvidia.com/gpu=all"]
)
def test_good_cdi_names(runtime, name):
    assert runtime.create(ContainerConfig(cdi_devices=[name])).cdi_devices == (name,)


@pytest.mark.parametrize(
    "name", ["", "name", "vendor.com/class", "/c=n", "v/=n", "v/c=", "1v/c=n", "v-/c=n", "v/c=n:"]
)
def test_bad_cdi_names(runtime, name):
    with pytest.raises(RuntimeRefusal, match="invalid device name"):
        runtime.create(ContainerConfig(cdi_devices=[name]))
