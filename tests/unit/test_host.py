"""Where paths lead: links resolve inside the root, and every dead end has a reason."""

import os
import socket

import pytest

from device_plugin.host import Absent, Entry, Host, Unusable, shown


def why(tree, path):
    with pytest.raises(Unusable) as reason:
        tree.host.look().entry(path)
    return str(reason.value)


def is_absent(tree, path):
    try:
        tree.host.look().entry(path)
    except Absent:
        return True
    except Unusable:
        return False
    return False


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/dev/link", "node"),
        ("/dev/link", "/dev/node"),
        ("/dev/link", "//dev///node"),
        ("/dev/link", "./../dev/./node"),
        ("/dev/by/id/link", "../../node"),
        ("/dev/link", "../../../../dev/node"),  # the root's parent is the root
        ("/dev/link", "/../dev/node"),
        ("/a", "dev/node"),
    ],
)
def test_a_link_leads_to_its_end_inside_the_root(tree, path, target):
    tree.node("/dev/node", 7)
    tree.link(path, target)
    entry = tree.host.look().entry(path)
    assert (entry.path, entry.real, entry.number) == (path, "/dev/node", "c 188:7")
    assert entry.is_node
    assert entry.by_link


def test_links_to_links_and_through_linked_folders_are_followed(tree):
    tree.node("/dev/node", 7)
    tree.link("/dev/one", "two")
    tree.link("/dev/two", "/elsewhere/three")
    tree.link("/elsewhere", "/else")
    tree.link("/else/three", "../dev/node")
    assert tree.host.look().entry("/dev/one").real == "/dev/node"
    assert tree.host.look().entry("/elsewhere/three").real == "/dev/node"


def test_dots_behind_a_linked_folder_count_from_where_it_leads(tree):
    tree.node("/far/node", 1)
    tree.node("/dev/node", 2)
    tree.folder("/far/away")
    tree.link("/dev/away", "/far/away")
    tree.link("/dev/link", "away/../node")
    assert tree.host.look().entry("/dev/link").real == "/far/node"


def test_a_link_out_of_the_root_stays_in_it(tree, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "file"
    outside.touch()
    tree.link("/dev/link", str(outside))
    assert why(tree, "/dev/link") == f"is a link to {outside}, which does not exist"


def test_a_plain_path_is_no_link(tree):
    tree.node("/dev/node")
    assert not tree.host.look().entry("/dev/node").by_link


@pytest.mark.parametrize("targets", [["a"], ["b", "a"], ["b", "c", "a"], ["a/x"], ["../dev/a"]])
def test_a_cycle_of_links_has_an_end(tree, targets):
    for name, target in zip("abc", targets, strict=False):
        tree.link(f"/dev/{name}", target)
    assert why(tree, "/dev/a") == "is a link cycle"
    assert why(tree, "/dev/a/below") == "is a link cycle"


def test_as_many_links_as_the_kernel_follows(tree):
    tree.node("/dev/0")
    for i in range(1, 42):
        tree.link(f"/dev/{i}", str(i - 1))
    assert tree.host.look().entry("/dev/40").is_node
    assert why(tree, "/dev/41") == "is a link cycle"


def test_a_maze_of_deep_links_is_walked_without_recursing_into_it(tree):
    deep = "/x" * 98
    tree.folder(deep)
    for i in range(39):
        tree.link(f"/l{i}", f"/l{i + 1}{deep}")
    assert why(tree, f"/l0{deep}") == "is a link to /l39" + deep + ", which does not exist"


def test_links_that_double_at_every_level_are_followed_once_each(tree):
    tree.folder("/0")
    for i in range(1, 40):
        tree.link(f"/{i}", "/" + f"{i - 1}/../" * 2 + f"{i - 1}")
    assert tree.host.look().entry("/39").real == "/0"


@pytest.mark.parametrize("path", ["/dev/x", "/dev/x/y/z", "/x/y", "/dev/node/x", "/dev/node/"])
def test_nothing_there_is_absent(tree, path):
    tree.node("/dev/node")
    assert is_absent(tree, path)


@pytest.mark.parametrize("target", ["gone", "node/x", "gone/../node", "other", "node/"])
def test_a_link_that_leads_nowhere_is_there(tree, target):
    tree.node("/dev/node")
    tree.link("/dev/other", "gone")
    tree.link("/dev/link", target)
    assert not is_absent(tree, "/dev/link")
    aim = "gone" if target == "other" else os.path.normpath(target)
    assert why(tree, "/dev/link") == f"is a link to /dev/{aim}, which does not exist"


def test_a_file_absent_from_a_linked_folder_is_absent(tree):
    tree.folder("/far")
    tree.link("/dev/far", "/far")
    assert is_absent(tree, "/dev/far/x")


def test_what_is_no_device_has_a_name(tree):
    tree.file("/dev/file")
    tree.folder("/dev/folder")
    os.mkfifo(tree.at("/dev/fifo"))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(tree.at("/dev/socket")))
    look = tree.host.look()
    kinds = {name: look.entry(f"/dev/{name}").kind for name in look.names("/dev")}
    assert kinds == {
        "file": "a regular file",
        "folder": "a folder",
        "fifo": "a FIFO",
        "socket": "a socket",
    }
    assert not any(look.entry(f"/dev/{name}").is_node for name in kinds)


def test_real_device_nodes_are_recognised():
    entry = Host().look().entry("/dev/null")
    assert (entry.number, entry.kind, entry.real) == ("c 1:3", "a character device", "/dev/null")


@pytest.mark.root
def test_a_block_device_is_not_a_character_device(tmp_path):
    os.mknod(tmp_path / "disk", 0o60600, os.makedev(7, 3))
    entry = Host(str(tmp_path)).look().entry("/disk")
    assert (entry.number, entry.kind) == ("b 7:3", "a block device")


@pytest.mark.parametrize(
    "path", ["/" + "x" * 4095, "/dev/" + "x" * 256, "/dev" + "/." * 2045 + "/x" * 99]
)
def test_paths_as_long_as_can_be_have_an_answer(tree, path):
    tree.folder("/dev")
    assert why(tree, path) in ("does not exist", "cannot be looked at: File name too long")


def test_folders_nested_deeper_than_any_path_have_an_answer(tree):
    tree.link("/deep", "deep2" + "/x" * 2000)
    tree.folder("/deep2" + "/x" * 100)
    assert "does not exist" in why(tree, "/deep")
    assert tree.host.look().entry("/deep2" + "/x" * 100).is_folder


def test_any_name_that_a_file_can_have_is_found(tree):
    names = ["new\nline", os.fsdecode(b"\xff\xfe"), "é", " ", "\x7f", "a" * 255, "{x}", "..."]
    for name in names:
        tree.file(f"/dev/{name}")
    look = tree.host.look()
    assert sorted(look.names("/dev")) == sorted(names)
    assert all(look.entry(f"/dev/{name}").real == f"/dev/{name}" for name in names)


@pytest.mark.parametrize("path", ["\0", "/dev/\0", "/dev/\ud800"])
def test_text_that_no_file_can_be_called_is_an_answer_too(tree, path):
    tree.folder("/dev")
    assert why(tree, path) == "cannot be a path"


@pytest.mark.parametrize("path", ["", "/", "//", ".", "/..", "/dev/.."])
def test_the_root_is_a_folder(tree, path):
    tree.folder("/dev")
    assert tree.host.look().entry(path).real == "/"
    assert tree.host.look().names(path) == ["dev"]


def test_a_reason_holds_no_control_characters(tree):
    tree.link("/dev/link", "evil\n\x1b[2J\udcff")
    assert why(tree, "/dev/link").isprintable()
    assert shown("/dev/é x") == "/dev/é x"


def test_names_need_a_folder(tree):
    tree.node("/dev/node")
    look = tree.host.look()
    with pytest.raises(Unusable, match=r"^is a character device, not a folder$"):
        look.names("/dev/node")
    with pytest.raises(Absent, match=r"^does not exist$"):
        look.names("/dev/gone")


def test_one_look_gives_one_answer(tree):
    tree.node("/dev/node", 1)
    look = tree.host.look()
    before = look.entry("/dev/node"), why(tree, "/dev/gone")
    tree.at("/dev/node").unlink()
    tree.node("/dev/gone")
    assert look.entry("/dev/node") == before[0]
    assert not is_absent(tree, "/dev/gone")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look everywhere")
def test_a_folder_that_may_not_be_searched_is_no_absence(tree):
    tree.node("/dev/closed/node")
    tree.at("/dev/closed").chmod(0)
    assert why(tree, "/dev/closed/node") == "cannot be looked at: Permission denied"
    tree.at("/dev/closed").chmod(0o100)
    assert tree.host.look().entry("/dev/closed/node").is_node
    with pytest.raises(Unusable, match=r"^cannot be looked at: Permission denied$"):
        tree.host.look().names("/dev/closed")
    tree.at("/dev/closed").chmod(0o700)


def test_the_root_of_a_host_may_be_spelt_anyhow(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Host(".").local("/dev/x") == f"{tmp_path}/dev/x"
    assert Host(f"{tmp_path}/").local("/dev/x") == f"{tmp_path}/dev/x"
    assert Host("/").local("/dev/x") == "/dev/x" == Host("//").local("/dev/x")


def test_under_a_root_only_dev_and_sys_are_the_hosts(tmp_path):
    assert Host().sees("/opt/gpu")
    assert Host(str(tmp_path)).sees("/dev/x")
    assert Host(str(tmp_path)).sees("/sys/x")
    assert not Host(str(tmp_path)).sees("/opt/gpu")


def test_an_entry_says_whether_it_was_reached_by_a_link():
    assert Entry("/a", "/b", 0, "").by_link
    assert not Entry("/a", "/a", 0, "").by_link


def test_the_number_of_a_node_that_stands_at_a_path_itself(tree):
    tree.node("/dev/node", 5)
    tree.link("/dev/link", "node")
    tree.file("/dev/file")
    assert tree.host.node("/dev/node")[0] == "c 188:5"
    for path in ("/dev/link", "/dev/file", "/dev", "/dev/gone", "/dev/node/x"):
        assert tree.host.node(path) == ("", 0)
