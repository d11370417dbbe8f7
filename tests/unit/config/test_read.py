"""Reading the file: bounded, and never an exception."""

import os
import socket
from pathlib import Path

import pytest

from device_plugin.config import read

GOOD = "version: 1\nresources: [{name: example.com/a, devices: [{path: /dev/x}]}]\n"


def problem(path: Path) -> str:
    checked = read(path)
    assert checked.config is None
    (only,) = checked.problems
    assert only.resource is None
    return str(only).removeprefix(f"{path}:")


def test_file(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(GOOD)
    checked = read(file)
    assert checked.problems == ()
    assert checked.config is not None
    assert checked.config.resources[0].devices[0].path == "/dev/x"


def test_link_as_kubernetes_mounts_config_maps(tmp_path):
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data" / "config.yaml").write_text(GOOD)
    link = tmp_path / "config.yaml"
    link.symlink_to("..data/config.yaml")
    assert read(link).problems == ()


def test_the_file_is_named_as_it_was_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text("version: 1\nresources: []\n")
    assert [str(one) for one in read(Path("c.yaml")).problems] == [
        "c.yaml:2:12: `resources` is empty; there is nothing to offer"
    ]


def test_absent(tmp_path):
    assert problem(tmp_path / "no") == "1:1: cannot read the file: No such file or directory"


@pytest.mark.timeout(5)
def test_pipe_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert problem(tmp_path / "pipe") == "1:1: this is a pipe, not a file"


def test_socket(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("s")
        assert problem(Path("s")) == "1:1: this is a socket, not a file"


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/tty"])
def test_device_is_not_opened(device):
    assert problem(Path(device)) == "1:1: this is a device, not a file"


def test_link_to_itself(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    assert problem(tmp_path / "loop").startswith("1:1: cannot read the file: Too many levels")


def test_unreadable(tmp_path, monkeypatch):
    file = tmp_path / "config.yaml"
    file.write_text(GOOD)

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)  # root reads everything
    assert problem(file) == "1:1: cannot read the file: Permission denied"


def test_nul_in_the_name():
    (only,) = read(Path("a\0b")).problems
    assert str(only).startswith("'a\\x00b':1:1: cannot read the file: ")


def test_kernel_file_without_a_size():
    assert read(Path("/proc/self/status")).config is None


def test_too_large(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_bytes(b"#" * (1 << 20) + b"\n")
    assert problem(file) == "1:1: the file is larger than 1 MiB"
    file.write_bytes(b"#" * ((1 << 20) - 1) + b"\n")
    assert problem(file) == "1:1: the file holds only comments"


def test_huge_and_sparse_is_not_read(tmp_path):
    file = tmp_path / "config.yaml"
    with file.open("wb") as sparse:
        sparse.truncate(1 << 40)
    assert problem(file) == "1:1: the file is larger than 1 MiB"
