"""`path`: which files are devices, what they are called, what belongs to them."""

import os
import random

import pytest

from device_plugin.config import Companion, Selector
from device_plugin.device import Node
from device_plugin.discovery import path as discovery
from device_plugin.host import Host


def find(tree, path, **options):
    return discovery.find(tree.host.look(), Selector(path=path, **options))


def devices(tree, path, **options):
    return [candidate.device for candidate in find(tree, path, **options).candidates]


def paths(tree, path, **options):
    """The primary node's path of every whole device."""
    found = find(tree, path, **options).candidates
    return [candidate.device.nodes[0].host_path for candidate in found if not candidate.problem]


def problem(tree, path, **options):
    (candidate,) = find(tree, path, **options).candidates
    return candidate.problem


def nodes(tree, path, **options):
    (candidate,) = find(tree, path, **options).candidates
    assert not candidate.problem
    return list(candidate.device.nodes)


def test_a_path_in_full_is_one_device(tree):
    tree.node("/dev/fuse")
    (found,) = find(tree, "/dev/fuse", replicas=3, permissions="r").candidates
    assert found.device.id == "fuse"
    assert found.device.replicas == 3
    assert found.device.nodes == (Node("/dev/fuse", "", "r"),)
    assert found.owned == ("/dev/fuse",)


def test_nothing_there_is_a_note_and_no_candidate(tree):
    found = find(tree, "/dev/gone")
    assert (found.candidates, found.note) == ((), "/dev/gone matches nothing")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("/dev/tty?", ["tty1", "tty2"]),
        ("/dev/tty*", ["tty1", "tty2", "tty10"]),
        ("/dev/tty[!1]*", ["tty2"]),
        ("/dev/*/tun", ["net/tun"]),
        ("/d*/n?t/*", ["net/tap3", "net/tun"]),
        ("/dev/tty{n}", ["tty1", "tty2", "tty10"]),
        ("/dev/gone*", []),
        ("/dev/tty1/*", []),
        ("/gone/*/x", []),
    ],
)
def test_patterns_find_nodes_in_natural_order(tree, pattern, expected):
    for name in ("tty10", "tty1", "tty2", "net/tun", "net/tap3"):
        tree.node(f"/dev/{name}")
    assert paths(tree, pattern) == [f"/dev/{name}" for name in expected]


def test_a_capture_means_the_same_in_every_component(tree):
    for path in ("/dev/card0/render0", "/dev/card0/render1", "/dev/card1/render1", "/dev/x/render"):
        tree.node(path)
    assert paths(tree, "/dev/card{n}/render{n}") == ["/dev/card0/render0", "/dev/card1/render1"]
    assert [dict(d.values) for d in devices(tree, "/dev/card{n}/render{m}")] == [
        {"n": "0", "m": "0"},
        {"n": "0", "m": "1"},
        {"n": "1", "m": "1"},
    ]


def test_hidden_names_must_be_named(tree):
    tree.node("/dev/.hidden")
    tree.node("/dev/.hidden2/x")
    assert paths(tree, "/dev/*") == []
    assert paths(tree, "/dev/{name}") == []
    assert paths(tree, "/dev/.h*") == ["/dev/.hidden"]
    assert paths(tree, "/dev/*/x") == []


@pytest.mark.parametrize("bad", ["a\nb", "a\x1b[2Jb", os.fsdecode(b"a\xff"), "a\u202eb", "a\x7f"])
def test_an_unprintable_name_is_passed_over_and_said(tree, bad):
    tree.node(f"/dev/{bad}")
    tree.node(f"/dev/dir{bad}/x")
    tree.node("/dev/ok")
    found = find(tree, "/dev/*")
    assert [candidate.device.id for candidate in found.candidates] == ["ok"]
    assert "passed over: unprintable characters in its name" in found.note
    assert found.note.isprintable()
    assert find(tree, "/dev/dir*/x").note.isprintable()


def test_a_glob_means_nodes_and_with_a_slash_folders(tree):
    tree.node("/dev/x1")
    tree.node("/dev/x2/node")
    assert paths(tree, "/dev/x*") == ["/dev/x1"]
    assert paths(tree, "/dev/x*/") == ["/dev/x2/node"]
    assert paths(tree, "/dev/x{n}") == ["/dev/x1"]
    assert paths(tree, "/dev/x1/") == []
    assert paths(tree, "/dev/x2/") == paths(tree, "/dev/x2") == ["/dev/x2/node"]


@pytest.mark.parametrize("pattern", ["/dev/thing", "/dev/th*"])
def test_what_is_there_but_no_device_is_a_problem(tree, pattern):
    tree.file("/dev/thing")
    assert problem(tree, pattern) == "/dev/thing is a regular file, not a device node"
    tree.at("/dev/thing").unlink()
    os.mkfifo(tree.at("/dev/thing"))
    assert problem(tree, pattern) == "/dev/thing is a FIFO, not a device node"
    tree.at("/dev/thing").unlink()
    tree.link("/dev/thing", "gone")
    assert problem(tree, pattern) == "/dev/thing is a link to /dev/gone, which does not exist"


def test_a_link_is_the_device_and_its_end_is_claimed(tree):
    tree.node("/dev/ttyUSB3")
    tree.link("/dev/serial/by-id/usb-A_1-if00", "../../ttyUSB3")
    (found,) = find(tree, "/dev/serial/by-id/usb-A_*").candidates
    assert found.device.nodes == (Node("/dev/serial/by-id/usb-A_1-if00"),)
    assert found.owned == ("/dev/ttyUSB3",)


@pytest.mark.parametrize(
    ("path", "id_"),
    [
        ("/dev/kvm", "kvm"),
        ("/dev/net/tun", "net-tun-097969f1"),
        ("/dev/ttyUSB0", "ttyusb0-8acffaea"),
        ("/dev/serial/by-id/usb-SIMCOM_Modem-if00-port0", "usb-simcom-modem-if00-port0-225324a0"),
        ("/opt/kvm", "opt-kvm-a20e8ee7"),
    ],
)
def test_ids_are_what_they_were(tree, path, id_):
    tree.node(path)
    (device,) = devices(tree, path)
    assert device.id == id_


def test_links_of_one_name_in_two_folders_are_two_devices(tree):
    for number, folder in enumerate(("disk/by-label", "disk/by-partlabel")):
        tree.node(f"/dev/sda{number}")
        tree.link(f"/dev/{folder}/data", f"../../sda{number}")
    tree.node("/dev/data")
    ids = [device.id for p in ("/dev/disk/*/data", "/dev/data") for device in devices(tree, p)]
    assert len(set(ids)) == 3


def test_companions_share_the_captures_and_come_behind(tree):
    for name in ("controlC0", "controlC1", "pcmC0D0c", "pcmC1D0c", "timer"):
        tree.node(f"/dev/snd/{name}")
    with_ = ("/dev/snd/pcmC{card}D0c", Companion("/dev/snd/timer", "/dev/t", "r"))
    found = find(tree, "/dev/snd/controlC{card}", with_=with_, to="/dev/c").candidates
    assert [candidate.device.nodes for candidate in found] == [
        (
            Node(f"/dev/snd/controlC{card}", "/dev/c"),
            Node(f"/dev/snd/pcmC{card}D0c"),
            Node("/dev/snd/timer", "/dev/t", "r"),
        )
        for card in (0, 1)
    ]
    assert [candidate.owned for candidate in found] == [
        ("/dev/snd/controlC0",),
        ("/dev/snd/controlC1",),
    ]


def test_a_companion_that_lacks_is_a_problem_unless_optional(tree):
    tree.node("/dev/a")
    assert problem(tree, "/dev/a", with_=("/dev/b",)) == "/dev/b does not exist"
    assert nodes(tree, "/dev/a", with_=(Companion("/dev/b", optional=True),)) == [Node("/dev/a")]
    tree.file("/dev/b")
    assert problem(tree, "/dev/a", with_=("/dev/b", "/dev/c")).startswith("/dev/b is a regular")
    assert nodes(tree, "/dev/a", with_=(Companion("/dev/b", optional=True),)) == [Node("/dev/a")]


def test_a_companion_may_be_a_folder(tree):
    tree.node("/dev/a")
    tree.node("/dev/more/1")
    tree.node("/dev/more/2")
    expected = [Node("/dev/a"), Node("/dev/more/1", "/x/1"), Node("/dev/more/2", "/x/2")]
    for path in ("/dev/more", "/dev/more/"):
        assert nodes(tree, "/dev/a", with_=(Companion(path, "/x"),)) == expected


def test_nobodys_order_of_listing_matters(tree, monkeypatch):
    for name in ("x1", "x01", "x001", "X1", "x10", "x2", "é", "y"):
        tree.node(f"/dev/{name}")
        tree.node(f"/dev/d/{name}")
    selectors = ("/dev/*", "/dev/x{n}", "/dev/d/")
    expected = [find(tree, path) for path in selectors]
    listdir = os.listdir

    def shuffled(folder):
        return random.sample(names := listdir(folder), len(names))

    monkeypatch.setattr("os.listdir", shuffled)
    for _ in range(20):
        assert [find(tree, path) for path in selectors] == expected


def test_a_folder_that_cannot_be_listed_is_said(tree, monkeypatch):
    tree.node("/dev/a/x")

    def listdir(folder):
        raise PermissionError(13, "Permission denied", folder)

    monkeypatch.setattr("os.listdir", listdir)
    assert find(tree, "/dev/a/*").note == (
        "/dev/a cannot be looked at: Permission denied; /dev/a/* matches nothing"
    )


def test_real_nodes_are_found_where_they_are(tmp_path):
    (tmp_path / "link").symlink_to("/dev/null")
    (tmp_path / "zero").symlink_to("/dev/zero")
    found = discovery.find(Host().look(), Selector(path=f"{tmp_path}/*")).candidates
    assert [candidate.owned for candidate in found] == [("/dev/null",), ("/dev/zero",)]
    assert not any(candidate.problem for candidate in found)
