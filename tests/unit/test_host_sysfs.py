"""Reading sysfs: within bounds, as text that nobody can do harm with, and without watches."""

import os

import pytest

from device_plugin.host import Absent, Host, Unusable, printable


def write(tree, path, data):
    tree.file(path)
    tree.at(path).write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"0x10de\n", "0x10de"),
        (b" 2.00\n", "2.00"),
        (b"", ""),
        (b"\n", ""),
        (b"a\x00b\x1b[2Jc\x7f", "ab[2Jc"),
        (b"one\ntwo\r\n", "onetwo"),
        (b"\xff\xfeab\xc3", "ab"),
        ("Söhne \u202eevil\u200b".encode(), "Söhne evil"),
        (b"\xed\xa0\x80x", "x"),
        (bytes(range(256)), "".join(map(chr, range(0x20, 0x7F))).strip()),
    ],
)
def test_an_attribute_is_printable_text(tree, data, text):
    look = tree.host.look()
    assert look.read(write(tree, "/sys/devices/a/x", data)) == text
    assert text.isprintable()
    assert printable(data) == text


def test_of_a_huge_one_only_the_beginning_is_read(tree):
    path = write(tree, "/sys/devices/a/x", b"9" * 3_000_000)
    assert tree.host.look().read(path) == "9" * 4096
    assert tree.host.look().lines(path) == ["9" * 4096]


def test_lines(tree):
    path = write(tree, "/sys/devices/a/uevent", b"MAJOR=4\n\nDEVNAME=tty\x1b0 \r\n")
    assert tree.host.look().lines(path) == ["MAJOR=4", "", "DEVNAME=tty0"]


@pytest.mark.parametrize("read", ["read", "lines", "link", "subfolders"])
def test_what_is_not_there_is_said(tree, read):
    with pytest.raises(Absent, match="does not exist"):
        getattr(tree.host.look(), read)("/sys/devices/a/x")


def test_what_cannot_be_read_is_said(tree):
    look = tree.host.look()
    tree.link("/sys/devices/a/link", "elsewhere")
    for path in (tree.folder("/sys/devices/a/folder"), "/sys/devices/a/link"):
        with pytest.raises(Unusable, match="cannot be looked at"):
            look.read(path)
    with pytest.raises(Unusable, match="cannot be looked at"):
        look.link("/sys/devices/a/folder")


def test_a_pipe_does_not_make_it_wait(tree):
    tree.folder("/sys/devices/a")
    os.mkfifo(tree.at("/sys/devices/a/x"))
    assert tree.host.look().read("/sys/devices/a/x") == ""


def test_a_link_is_what_it_says(tree):
    tree.link("/sys/bus/pci/devices/a", "../../../devices/pci0000:00/a")
    tree.link("/sys/devices/loop", "loop")
    look = tree.host.look()
    assert look.link("/sys/bus/pci/devices/a") == "../../../devices/pci0000:00/a"
    assert look.link("/sys/devices/loop") == "loop"


def test_folders_in_a_folder(tree):
    tree.folder("/sys/devices/a/below")
    tree.file("/sys/devices/a/dev")
    tree.link("/sys/devices/a/subsystem", "below")
    look = tree.host.look()
    assert look.subfolders("/sys/devices/a") == ["below"]
    assert look.subfolders("/sys/devices/a/below") == []


def test_nothing_in_sys_is_watched_for_no_event_comes_from_there(tree):
    tree.folder("/dev")
    tree.file("/sys/devices/a/x")
    tree.link("/sys/bus/usb/devices/a", "../../../devices/a")
    look = tree.host.look()
    look.names("/sys/bus/usb/devices")
    look.entry("/sys/bus/usb/devices/a")
    look.read("/sys/devices/a/x")
    for path in ("/sys/nothing/there", "/sys"):
        with pytest.raises(Unusable):
            look.entry(f"{path}/x")
    assert look.folders == set()
    look.watch("/dev")
    look.watch("/system")
    assert look.folders == {"/dev", "/system"}


def test_what_drivers_say_in_proc_is_the_same_for_every_process(tree, tmp_path):
    path = "/proc/driver/nvidia/gpus/0000:01:00.0/information"
    assert tree.host.local(path) == path
    tree.folder("/proc/driver")
    assert tree.host.local(path) == f"{tmp_path}{path}"
    assert tree.host.local("/proc/cpuinfo") == f"{tmp_path}/proc/cpuinfo"
    assert Host("/").local(path) == path
