"""`explain`: why a path or a resource is what it is on this node."""

import os
from pathlib import Path

import pytest

from device_plugin import config
from device_plugin.config import Checked
from device_plugin.explain import NothingToExplain, of

TEXT = """
version: 1
resources:
  - name: example.com/null
    devices: [{path: /dev/null, replicas: 3}, {path: "/dev/null{n}"}]
  - name: example.com/random
    devices: [{path: "/dev/{kind}random"}]
  - name: example.com/zero
    devices: [{path: /dev/zero, with: [/dev/no-such-device]}]
  - name: example.com/licence
    devices: [{virtual: {count: 30}}]
  - name: example.com/serial
    devices: [{path: "/dev/serial/*"}]
  - name: example.com/folder
    devices: [{path: /dev/snd}]
"""


CONFIG = config.check(TEXT.encode(), "config.yaml")
SPOILT = config.check(TEXT.replace("replicas: 3", "replica: 3").encode(), "config.yaml")


def lines(what: str, host_root: str | Path = "/", checked: Checked = CONFIG) -> list[str]:
    return of(what, checked, str(host_root)).splitlines()


def test_the_config_is_good():
    assert CONFIG.problems == ()
    assert len(SPOILT.problems) == 1


def test_a_path_has_its_facts_and_a_verdict_of_each_selector():
    said = lines("/dev/null")
    assert said[:3] == [
        "/dev/null",
        "  is a character device, c 1:3",
        f"  owner root (0), group root (0), mode {said[2].rpartition(' ')[2]}",
    ]
    assert said[4].split() == ["RESOURCE", "SELECTOR", "VERDICT"]
    verdicts = [line.split() for line in said[5:] if " (path) " in line or " (virtual) " in line]
    assert [verdict[1] for verdict in verdicts] == ["1", "2", "1", "1", "1", "1", "1"]
    assert "example.com/null has it, as the device null." in said
    assert max(map(len, said)) <= 100


def test_a_path_is_taken_as_people_write_it():
    assert lines("//dev/./net/../null") == lines("/dev/null")


def test_a_path_that_nobody_wants():
    said = lines("/dev/full")
    assert "No resource has it." in said
    assert any("differs at" in line for line in said)
    assert not any(line.startswith("/dev/full:") for line in said)  # nobody can open it


def test_a_resource_that_is_refused_is_not_passed_over_in_silence():
    said = lines("/dev/null", checked=SPOILT)
    assert said[-2:] == [
        "No resource has it.",
        "Not asked, because the config has a mistake in it: example.com/null.",
    ]
    with pytest.raises(NothingToExplain, match=r"^example.com/null is refused, for what is said"):
        lines("example.com/null", checked=SPOILT)


def test_a_device_is_asked_for_by_its_id():
    said = lines("null")
    assert said[:3] == [
        "null is a device of example.com/null, offered.",
        "/dev/null",
        "  is a character device, c 1:3",
    ]
    assert lines("null-r1") == said  # a replica
    assert lines("zero")[0] == (
        "zero is a device of example.com/zero, not offered: /dev/no-such-device does not exist."
    )
    assert len(lines(lines("example.com/licence")[3].split()[0])) == 1  # it has no device node


def test_a_device_that_is_not_offered_says_why():
    said = lines("/dev/zero")
    reason = "/dev/no-such-device does not exist"
    assert f"example.com/zero would have it, as the device zero, but {reason}." in said


def test_a_path_that_does_not_exist():
    assert lines("/dev/no-such-device")[1] == "  does not exist"


def test_what_is_no_device_is_named(tmp_path):
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "null").touch()
    assert lines("/dev/null", tmp_path)[1] == "  is a regular file"


def test_a_resource_lists_devices_and_what_each_selector_lost():
    assert lines("example.com/null") == [
        "example.com/null: 1 device found, 1 offered",
        "",
        "DEVICE  REPLICAS  OFFERED  NODES",
        "null    3         yes      /dev/null",
        "",
        "1. path: /dev/null: 1 device",
        "",
        "2. path: /dev/null{n}: 0 devices",
        "   /dev/null{n} matches nothing",
    ]


def test_a_resource_without_any_device():
    said = lines("example.com/serial")
    assert said[0] == "example.com/serial: 0 devices found, 0 offered"
    assert said[2] == "1. path: /dev/serial/*: 0 devices"


def test_a_device_that_is_found_and_not_offered():
    said = lines("example.com/zero")
    assert said[0] == "example.com/zero: 1 device found, 0 offered"
    assert said[3].split() == ["zero", "1", "no", "/dev/zero"]
    assert said[-2:] == [
        "1. path: /dev/zero: 1 device",
        "   zero: /dev/no-such-device does not exist",
    ]


def test_many_devices_are_cut_short():
    said = lines("example.com/licence")
    assert said[0] == "example.com/licence: 30 devices found, 30 offered"
    assert "   and 10 more" in said


@pytest.mark.parametrize("what", ["example.com/nul", "dev/null", "nul", ""])
def test_what_is_neither_a_path_nor_a_resource_nor_an_id_is_said(what):
    with pytest.raises(NothingToExplain, match=r"begin it with /.* which has example.com/null, "):
        lines(what)


def node(root: Path, path: str, mode: int, uid: int = 0, gid: int = 0) -> None:
    at = root / path.lstrip("/")
    at.parent.mkdir(parents=True, exist_ok=True)
    os.mknod(at, 0o20600, os.makedev(1, 3))
    os.chown(at, uid, gid)
    at.chmod(mode)


@pytest.mark.root
@pytest.mark.parametrize(
    ("mode", "needs", "ownership"),
    [
        (0o666, "every user may read and write it", False),
        (0o660, "needs its group: securityContext: {supplementalGroups: [20]}.", True),
        (0o600, "run as its owner: securityContext: {runAsUser: 7}.", True),
        (0o640, "its mode lets no group read and write it", True),
        (0o646, "every user may read and write it", False),
    ],
)
def test_what_a_container_needs_that_is_not_root(tmp_path, mode, needs, ownership):
    node(tmp_path, "/dev/null", mode, 7, 20)
    said = lines("/dev/null", tmp_path)
    assert said[2].startswith("  owner 7, group 20, mode c")  # names are not the host's
    text = " ".join(said)
    assert needs in text
    assert ("device_ownership_from_security_context" in text) == ownership


@pytest.mark.root
def test_a_link_is_followed_inside_the_host_root(tmp_path):
    node(tmp_path, "/dev/ttyUSB0", 0o660)
    (tmp_path / "dev" / "serial").mkdir()
    (tmp_path / "dev" / "serial" / "stick").symlink_to("/dev/ttyUSB0")
    said = lines("/dev/serial/stick", tmp_path)
    assert said[1] == "  leads to /dev/ttyUSB0"
    assert any(line.startswith("example.com/serial has it, as the device") for line in said)
    assert lines("/dev/ttyUSB0", tmp_path)[-7:-6] == said[-7:-6]  # the same owner
    assert str(tmp_path) not in "".join(said)


@pytest.mark.root
def test_a_folder_tells_of_the_nodes_in_it(tmp_path):
    for name in ("timer", "seq"):
        node(tmp_path, f"/dev/snd/{name}", 0o660, gid=29)
    (tmp_path / "dev" / "snd" / "by-path").mkdir()
    said = lines("/dev/snd", tmp_path)
    assert said[1] == "  is a folder"
    assert "example.com/folder has it, as the device snd." in said
    assert "/dev/snd/seq, /dev/snd/timer: a container that is not root needs its group:" in said
    assert "securityContext: {supplementalGroups: [29]}." in said
    assert " ".join(said).count("device_ownership_from_security_context") == 1


@pytest.mark.root
def test_a_folder_with_devices_of_several_resources(tmp_path):
    """Each has some of it, which is not the folder; what leads nowhere is no reason to stop."""
    for name in ("null", "urandom", "other"):
        node(tmp_path, f"/dev/{name}", 0o666)
    (tmp_path / "dev" / "stick").symlink_to("gone")
    (tmp_path / "dev" / "stdin").symlink_to("null")
    said = lines("/dev/", tmp_path)
    assert said[1] == "  is a folder"
    assert "example.com/null has /dev/null, as the device null." in said
    assert "example.com/random has /dev/urandom, as the device urandom." in said
    assert "/dev/null, /dev/urandom: every user may read" in " ".join(said)
    assert "/dev/other" not in " ".join(said)


@pytest.mark.root
def test_what_is_copied_from_an_answer_is_in_one_piece(tmp_path):
    (tmp_path / "dev").mkdir()
    for number in range(1, 10):
        node(tmp_path, f"/dev/{'x' * number}random", 0o660, gid=number)
    said = lines("/dev", tmp_path)
    assert sum("securityContext: {supplementalGroups: [" in line for line in said) == 9
    assert max(map(len, said)) <= 100


SANDBOXED = """
version: 1
resources:
  - name: example.com/boxed
    runtimes: [runc, kata, runsc]
    devices: [{path: "/dev/[ksv]*"}, {path: /dev/fuse}]
"""
BOXED = config.check(SANDBOXED.encode(), "config.yaml")


@pytest.fixture
def boxed(tmp_path):
    """A host with devices for sandboxes, good and bad."""
    for name in ("kvm", "vga", "fuse"):
        node(tmp_path, f"/dev/{name}", 0o666)
    os.mknod(tmp_path / "dev" / "sda", 0o60600, os.makedev(8, 0))
    return tmp_path


@pytest.mark.root
@pytest.mark.parametrize(
    ("what", "kata", "runsc"),
    [
        ("example.com/boxed", "/dev/kvm, /dev/vga do", "/dev/kvm, /dev/sda, /dev/vga do"),
        ("/dev/kvm", "/dev/kvm does", "/dev/kvm does"),
        ("kvm", "/dev/kvm does", "/dev/kvm does"),
        ("/dev/sda", None, "/dev/sda does"),
        ("/dev/fuse", None, None),
    ],
)
def test_what_does_not_work_with_the_runtimes_of_its_resource(what, kata, runsc, boxed):
    names = "which example.com/boxed names in `runtimes`"
    no_way = "only block devices and VFIO groups reach its virtual machine"
    no_driver = "the sandbox has no driver for it, so it cannot be opened"
    expected = [
        f"{kata} not work with kata, {names}: {no_way}.",
        f"{runsc} not work with runsc, {names}: {no_driver}.",
    ]
    parts = "\n".join(lines(what, boxed, BOXED)).split("\n\n")
    said = [" ".join(part.split()) for part in parts if " not work with " in part]
    assert said == [line for line in expected if not line.startswith("None")]


def test_a_runtime_with_the_hosts_kernel_has_all_of_it():
    plain = config.check(
        TEXT.replace("name: ex", "runtimes: [runc, crun]\n    name: ex").encode(), ""
    )
    assert plain.problems == ()
    assert lines("example.com/null", checked=plain) == lines("example.com/null")


@pytest.mark.root
@pytest.mark.parametrize(
    ("more", "by_mode", "by_name"),
    [
        ("", True, False),
        ("runtimes: [crun, kata]", True, False),
        ("runtimes: [kata]", False, False),
        ("container: {cdi: true}", False, True),
        ("container: {cdi: true}, runtimes: [runsc, runc]", False, True),
        ("container: {cdi: true}, runtimes: [kata]", False, False),
    ],
)
@pytest.mark.parametrize("what", ["/dev/sda", "sda"])
def test_modes_count_where_a_container_opens_the_hosts_node(what, more, by_mode, by_name, tmp_path):
    """By a CDI name it belongs to the container's user; a virtual machine has a node of its own."""
    node(tmp_path, "/dev/sda", 0o600)
    text = f"{{name: example.com/disk, devices: [{{path: /dev/sda}}], {more}}}"
    checked = config.check(f"version: 1\nresources: [{text}]".encode(), "config.yaml")
    assert checked.problems == ()
    said = " ".join(" ".join(lines(what, tmp_path, checked)).split())
    assert ("/dev/sda: its mode lets no group" in said) == by_mode
    assert ("in a container, /dev/sda will belong to its user" in said) == by_name


@pytest.mark.root
def test_what_is_below_vfio_may_be_a_tpu(tmp_path):
    """Then it is right for gVisor; `check` says the same."""
    node(tmp_path, "/dev/vfio/7", 0o600)
    node(tmp_path, "/dev/vfio/vfio", 0o666)
    tpu = "{vfio: {vendor: '1ae0'}}, {path: '/dev/vfio/*'}"
    for devices, warned in ((tpu, False), ("{path: '/dev/vfio/*'}", True)):
        text = f"{{name: example.com/a, devices: [{devices}], runtimes: [runsc]}}"
        checked = config.check(f"version: 1\nresources: [{text}]".encode(), "config.yaml")
        assert checked.problems == ()
        said = " ".join("\n".join(lines("example.com/a", tmp_path, checked)).split())
        assert ("/dev/vfio/7 does not work with runsc" in said) == warned


@pytest.mark.root
@pytest.mark.parametrize("what", ["example.com/a", "/dev/nvidia0", "nvidia0"])
@pytest.mark.parametrize(("to", "works"), [("", True), (", to: /dev/gpu", False)])
def test_gvisor_goes_by_the_name_in_the_container(what, to, works, tmp_path):
    node(tmp_path, "/dev/nvidia0", 0o666)
    device = f"{{path: /dev/nvidia0{to}}}"
    text = f"{{name: example.com/a, devices: [{device}], runtimes: [runsc]}}"
    checked = config.check(f"version: 1\nresources: [{text}]".encode(), "config.yaml")
    said = " ".join("\n".join(lines(what, tmp_path, checked)).split())
    assert ("does not work with runsc" not in said) == works
    assert (checked.doubts == ()) == works
