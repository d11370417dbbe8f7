"""The journal of what containers were given, and who is another device since then."""

import errno
import json
import os
import stat
import threading

import pytest

from device_plugin.allocation import Refused, Share
from device_plugin.device import Candidate, Device, Node
from device_plugin.health import check_moved, check_nodes
from device_plugin.state import HandedOut, Observed

FILE = "handed-out.jsonl"


@pytest.fixture
def opened(tmp_path):
    """Open the journal as often as a process would start."""
    journals = []

    def make():
        journals.append(HandedOut(tmp_path))
        return journals[-1]

    yield make
    for journal in journals:
        journal.close()


def note(journal, handed, resource="example.com/x"):
    journal.remember(resource, [Observed(Device(id_), numbers) for id_, numbers in handed.items()])


def remembered(journal, *ids):
    return {id_: journal.numbers(id_) for id_ in ids}


def test_what_was_handed_out_survives_the_process(opened):
    first = opened()
    note(first, {"a": {"/dev/a": "c 1:1"}, "b": {}})
    note(first, {"a": {"/dev/a": "c 1:2", '/dev/"\u2028é': "b 7:0"}})
    expected = {"a": {"/dev/a": "c 1:2", '/dev/"\u2028é': "b 7:0"}, "b": {}, "c": None}
    for journal in (first, opened(), opened()):
        assert remembered(journal, "a", "b", "c") == expected


def test_all_ids_of_a_device_are_known_by_resource(opened):
    journal = opened()
    journal.remember("example.com/x", [Observed(Device("a", replicas=3)), Observed(Device("b"))])
    note(journal, {"c": {}}, resource="example.com/y")
    for one in (journal, opened()):
        assert [h.ids for h in one.of("example.com/x")] == [["a", "a-r1", "a-r2"], ["b"]]
        assert one.resources == {"example.com/x", "example.com/y"}


def test_replicas_that_were_handed_out_once_are_not_lost_with_fewer(opened):
    journal = opened()
    journal.remember("example.com/x", [Observed(Device("a", replicas=3))])
    journal.remember("example.com/x", [Observed(Device("a", replicas=1))])
    for one in (journal, opened()):
        assert [h.ids for h in one.of("example.com/x")] == [["a", "a-r1", "a-r2"]]


def test_a_full_disk_at_start_forgets_nothing(opened, monkeypatch):
    note(opened(), {"a": {"/dev/a": "c 1:1"}})

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("device_plugin.state.replace", full)
    journal = opened()
    assert "No space left" in journal.problem
    assert remembered(journal, "a") == {"a": {"/dev/a": "c 1:1"}}
    note(journal, {"b": {}})
    assert remembered(journal, "a", "b") == {"a": {"/dev/a": "c 1:1"}, "b": {}}


def test_only_the_owner_may_read_it(opened, tmp_path):
    os.umask(umask := os.umask(0))
    try:
        os.umask(0)
        opened()
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600


def test_what_is_free_is_forgotten_for_good(opened):
    journal = opened()
    note(journal, {"a": {"/dev/a": "c 1:1"}, "b": {}})
    journal.forget([one for one in journal.of("example.com/x") if one.id == "a"])
    for one in (journal, opened()):
        assert remembered(one, "a", "b") == {"a": None, "b": {}}


def test_what_was_handed_out_anew_meanwhile_is_not_forgotten(opened):
    journal = opened()
    note(journal, {"a": {"/dev/a": "c 1:1"}})
    free = journal.of("example.com/x")
    note(journal, {"a": {"/dev/a": "c 1:1"}})
    journal.forget(free)
    for one in (journal, opened()):
        assert remembered(one, "a") == {"a": {"/dev/a": "c 1:1"}}


def test_the_journal_does_not_grow_without_bounds(opened, tmp_path, monkeypatch):
    monkeypatch.setattr("device_plugin.state._COMPACT", 2000)
    journal = opened()
    note(journal, {"stays": {"/dev/a": "c 1:1"}})
    for i in range(200):
        note(journal, {f"d{i}": {}})
        journal.forget([one for one in journal.of("example.com/x") if one.id != "stays"])
        assert (tmp_path / FILE).stat().st_size < 4000
        assert not os.get_inheritable(journal._file)
    for one in (journal, opened()):
        assert [handed.id for handed in one.of("example.com/x")] == ["stays"]


def test_others_may_append_while_the_journal_is_written_anew(opened, monkeypatch):
    monkeypatch.setattr("device_plugin.state._COMPACT", 500)
    journal = opened()

    def hand_out(name):
        for i in range(300):
            note(journal, {f"{name}{i}": {"/dev/a": f"c 1:{i}"}})

    threads = [threading.Thread(target=hand_out, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        note(journal, {"mine": {}})
        journal.forget([one for one in journal.of("example.com/x") if one.id == "mine"])
    for thread in threads:
        thread.join()
    expected = {f"{name}{i}" for name in "ab" for i in range(300)}
    for one in (journal, opened()):
        assert {handed.id for handed in one.of("example.com/x")} == expected


def test_nothing_new_is_not_written_again(opened, tmp_path):
    journal = opened()
    note(journal, {"a": {"/dev/a": "c 1:1"}, "b": {}})
    size = (tmp_path / FILE).stat().st_size
    for _ in range(3):
        note(journal, {"a": {"/dev/a": "c 1:1"}})
        note(journal, {"b": {}})
        note(journal, {})
    assert (tmp_path / FILE).stat().st_size == size


def test_a_start_leaves_one_line_a_device(opened, tmp_path):
    journal = opened()
    for minor in range(100):
        note(journal, {"a": {"/dev/a": f"c 1:{minor}"}})
    opened()
    assert len((tmp_path / FILE).read_text().split()) < 10
    assert os.listdir(tmp_path) == [FILE]


def test_another_boot_makes_it_void(opened, monkeypatch, tmp_path):
    note(opened(), {"a": {"/dev/a": "c 1:1"}})
    boot = tmp_path / "boot_id"
    boot.write_text("another\n")
    monkeypatch.setattr("device_plugin.state._BOOT_ID", boot)
    assert opened().numbers("a") is None
    note(opened(), {"b": {}})
    assert remembered(opened(), "a", "b") == {"a": None, "b": {}}


@pytest.mark.parametrize("cut", range(1, 25))
def test_a_torn_last_line_costs_only_itself(opened, tmp_path, cut):
    journal = opened()
    note(journal, {"a": {"/dev/a": "c 1:1"}})
    note(journal, {"b": {"/dev/b": "c 1:2"}})
    os.truncate(tmp_path / FILE, (tmp_path / FILE).stat().st_size - cut)
    again = opened()
    assert again.numbers("a") == {"/dev/a": "c 1:1"}
    assert again.numbers("b") in (None, {"/dev/b": "c 1:2"})
    note(again, {"c": {}})
    assert remembered(opened(), "a", "c") == {"a": {"/dev/a": "c 1:1"}, "c": {}}


def test_a_line_torn_by_a_full_disk_is_written_again(opened, monkeypatch):
    journal = opened()
    write = os.write
    monkeypatch.setattr("os.write", lambda file, data: write(file, data[:10]))
    with pytest.raises(OSError, match="No space left"):
        note(journal, {"a": {"/dev/a": "c 1:1"}})
    monkeypatch.undo()
    note(journal, {"b": {"/dev/b": "c 1:2"}})
    assert remembered(journal, "a", "b") == {"a": {"/dev/a": "c 1:1"}, "b": {"/dev/b": "c 1:2"}}
    assert remembered(opened(), "a", "b") == {"a": {"/dev/a": "c 1:1"}, "b": {"/dev/b": "c 1:2"}}


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\0" * 1000,
        bytes(range(256)) * 4,
        b"\xff\xfe",
        b"[]\n",
        b'"' + b"x" * 100_000,
        b"[" * 100_000,
    ],
)
def test_a_file_of_garbage_is_as_good_as_none(opened, tmp_path, garbage):
    (tmp_path / FILE).write_bytes(garbage)
    assert opened().numbers("a") is None
    note(opened(), {"a": {}})
    assert opened().numbers("a") == {}


LINES = ["", "null", "1", "[]", '["a"]', '["a", "r", 1, null]', '"ab"', "{}", "[" * 100_000]


@pytest.mark.parametrize("line", LINES)
def test_a_line_of_garbage_costs_only_itself(opened, tmp_path, line):
    note(opened(), {"b": {"/dev/b": "c 1:2"}})
    with (tmp_path / FILE).open("a") as file:
        file.write(f'{line}\n["c", "example.com/x", 1, {{}}]\n')
    assert remembered(opened(), "a", "b", "c") == {"a": None, "b": {"/dev/b": "c 1:2"}, "c": {}}


def test_threads_lose_nothing(opened, tmp_path):
    journal = opened()
    begin = threading.Barrier(8)

    def remember(thread):
        begin.wait()
        for i in range(100):
            note(journal, {f"{thread}-{i}": {f"/dev/{i}": f"c {thread}:{i}"}, "shared": {}})

    threads = [threading.Thread(target=remember, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = {f"{n}-{i}": {f"/dev/{i}": f"c {n}:{i}"} for n in range(8) for i in range(100)}
    for one in (journal, opened()):
        assert remembered(one, *expected) == expected
    assert all(json.loads(line) for line in (tmp_path / FILE).read_text().splitlines() if line)


def test_a_folder_that_is_not_there_or_not_writable_is_a_problem(tmp_path):
    assert "No such file" in HandedOut(tmp_path / "gone").problem
    if os.geteuid():
        tmp_path.chmod(0o500)
        assert "Permission denied" in HandedOut(tmp_path).problem


def test_what_cannot_be_written_holds_while_the_process_lives(opened):
    journal = opened()
    file, journal._file = journal._file, os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(OSError, match="No space left"):
        note(journal, {"a": {"/dev/a": "c 1:1"}})
    os.close(file)
    assert journal.numbers("a") == {"/dev/a": "c 1:1"}


def test_numbers_are_of_the_nodes_that_no_link_leads_to(tree):
    tree.node("/dev/a", 1)
    tree.node("/dev/b", 2)
    tree.link("/dev/by-id/b", "../b")
    device = Device("x", (Node("/dev/a"), Node("/dev/by-id/b")))
    virtual = Device("virtual")
    shares = [Share(one.id, one, 0) for one in (device, device, virtual)]
    inode = os.stat(tree.at("/dev/a")).st_ino
    expected = [Observed(device, {"/dev/a": "c 188:1"}, ("/dev/a", inode)), Observed(virtual)]
    assert check_nodes(tree.host, "example.com/x", shares) == expected


@pytest.mark.parametrize(
    ("make", "why"),
    [
        ("nothing", "/dev/a does not exist"),
        ("file", "/dev/a is a regular file, not a device node"),
        ("folder", "/dev/a is a folder, not a device node"),
        ("link", "/dev/a is a link to /dev/gone, which does not exist"),
    ],
)
def test_what_is_no_node_is_named(tree, make, why):
    tree.node("/dev/ok")
    if make == "link":
        tree.link("/dev/a", "gone")
    elif make != "nothing":
        getattr(tree, make)("/dev/a")
    device = Device("x", (Node("/dev/ok"), Node("/dev/a")))
    with pytest.raises(Refused) as reason:
        check_nodes(tree.host, "example.com/x", [Share("x", device, 0)])
    assert str(reason.value) == f"device x of example.com/x: {why}"


class Given(HandedOut):
    """What containers were given, without a file."""

    def __init__(self, **numbers):
        self._given = numbers

    def numbers(self, device):
        return self._given.get(device)


A = Candidate(Device("a", (Node("/dev/a"),)))


def moved(tree, candidate=A, **given):
    return check_moved(tree.host.look(), candidate, Given(**given))


def test_a_device_that_nobody_was_given_may_be_anything(tree):
    assert moved(tree) is A
    broken = Candidate(A.device, "broken")
    assert moved(tree, broken) is broken


def test_a_device_that_is_still_what_it_was_is_held_and_well(tree):
    tree.node("/dev/a", 1)
    checked = moved(tree, a={"/dev/a": "c 188:1"})
    assert checked.problem == ""


def test_a_node_that_is_another_device_now_is_moved_until_it_is_again(tree):
    given = {"/dev/a": "c 188:1"}
    tree.node("/dev/a", 2)
    problem = "moved: /dev/a was c 188:1 when a container got it and is c 188:2 now"
    assert moved(tree, a=given).problem == problem
    tree.node("/dev/a", 1)
    assert moved(tree, a=given).problem == ""


@pytest.mark.parametrize(
    ("make", "why"),
    [
        ("nothing", "moved: /dev/a, handed to a container, does not exist"),
        ("file", "moved: /dev/a was c 188:1 when a container got it and is a regular file now"),
        ("folder", "moved: /dev/a was c 188:1 when a container got it and is a folder now"),
    ],
)
def test_a_node_that_is_none_any_more_is_moved(tree, make, why):
    if make != "nothing":
        getattr(tree, make)("/dev/a")
    assert moved(tree, a={"/dev/a": "c 188:1"}).problem == why


def test_a_node_that_has_become_a_link_is_followed_anew(tree):
    tree.node("/dev/b", 2)
    tree.link("/dev/a", "b")
    assert moved(tree, a={"/dev/a": "c 188:1"}).problem == ""


def test_nodes_that_the_device_no_longer_has_count_too(tree):
    tree.node("/dev/a", 1)
    given = {"/dev/a": "c 188:1", "/dev/a2": "c 188:2"}
    assert moved(tree, a=given).problem == "moved: /dev/a2, handed to a container, does not exist"


def test_another_problem_stays_the_reason(tree):
    checked = moved(tree, Candidate(A.device, "broken"), a={"/dev/a": "c 188:1"})
    assert checked.problem == "broken"


def test_where_it_was_looked_is_watched(tree):
    tree.node("/dev/sub/a", 1)
    look = tree.host.look()
    check_moved(look, A, Given(a={"/dev/sub/a": "c 188:1"}))
    assert look.folders == {"/dev/sub"}


def test_paths_that_can_be_none_are_moved_and_no_crash(tree):
    for path in ("\0", "/dev/\0", "\ud800"):
        assert moved(tree, a={path: "c 188:1"}).problem


def test_what_could_not_be_written_is_written_later(opened, monkeypatch):
    """A full disk must not make us forget, after a restart, what containers were given."""
    journal, write = opened(), os.write
    monkeypatch.setattr("os.write", lambda file, data: write(file, data[:3]))
    for name in ("a", "b"):
        with pytest.raises(OSError, match="No space left"):
            note(journal, {name: {f"/dev/{name}": "c 1:1"}})
    with pytest.raises(OSError, match="No space left"):
        journal.save()
    monkeypatch.undo()
    note(journal, {"b": {"/dev/b": "c 1:1"}})  # nothing new
    assert remembered(opened(), "a", "b") == {"a": {"/dev/a": "c 1:1"}, "b": {"/dev/b": "c 1:1"}}
    size = os.fstat(journal._file).st_size
    journal.save()
    assert os.fstat(journal._file).st_size == size
