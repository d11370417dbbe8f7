"""`exec`: what a program prints, what becomes of it, and when it is run."""

import json
import threading
import time
from pathlib import Path

import msgspec
import pytest

from device_plugin import config
from device_plugin.attribute import Quantity, Version
from device_plugin.config import Config, Exec, Requirement, Resource, Selector
from device_plugin.device import Node
from device_plugin.discovery import discover
from device_plugin.discovery import program as program_module
from device_plugin.discovery.printed import Listing, decode, schema
from device_plugin.discovery.program import Answer, find
from device_plugin.host import Host
from device_plugin.programs import Programs
from device_plugin.runner import Failed

R = "example.com/r"
ROOT = Path(__file__).parents[2]
LIST = Exec(("/probes/list",), interval=10)


def printed(*devices):
    return json.dumps({"devices": devices}).encode()


def good(*devices, age=0.0, problem=""):
    return Answer(decode(printed(*devices)), problem, time.monotonic() - age)


def found(tree, answer, resource=R, **options):
    selector = Selector(exec=LIST, **options)
    return find(tree.host.look(), selector, LIST, resource, answer)


def only(tree, device, **options):
    (candidate,) = found(tree, good(device), **options).candidates
    return candidate


class TestDevices:
    def test_what_is_listed_is_a_device(self, tree):
        tree.node("/dev/a")
        tree.node("/dev/b")
        candidate = only(
            tree,
            {
                "id": "A/1",
                "nodes": [
                    {"host_path": "/dev/a", "to": "/dev/{x}", "permissions": "r"},
                    {"host_path": "/dev/b"},
                    {"host_path": "/dev/gone", "optional": True},
                ],
                "attributes": {
                    "text": "x y",
                    "number": 7,
                    "flag": True,
                    "firmware": {"version": "1.2.3"},
                    "memory": {"quantity": "80Gi"},
                },
                "numa_nodes": [1, 0, 1],
            },
            replicas=3,
        )
        device = candidate.device
        assert candidate.problem == ""
        assert candidate.owned == ("/dev/a",)
        assert device.id.startswith("a-1-")
        assert device.nodes == (Node("/dev/a", "/dev/{{x}}", "r"), Node("/dev/b"))
        assert device.replicas == 3
        assert device.numa_nodes == (0, 1)
        assert device.attributes == {
            "text": "x y",
            "number": 7,
            "flag": True,
            "firmware": Version.parse("1.2.3"),
            "memory": Quantity.parse("80Gi"),
        }

    def test_its_id_is_unique_over_resources_and_always_the_same(self, tree):
        ids = [only(tree, {"id": "x"}, resource=name).device.id for name in (R, "b.c/r", R)]
        assert ids[0] == ids[2] != ids[1]
        assert only(tree, {"id": "X"}).device.id not in ids

    @pytest.mark.parametrize(
        ("make", "problem"),
        [
            (lambda tree: None, "/dev/x does not exist"),
            (lambda tree: tree.file("/dev/x"), "/dev/x is a regular file, not a device node"),
            (lambda tree: tree.folder("/dev/x"), "/dev/x is a folder, not a device node"),
        ],
    )
    def test_its_nodes_must_be_there(self, tree, make, problem):
        tree.node("/dev/y")
        make(tree)
        nodes = [{"host_path": "/dev/x"}, {"host_path": "/dev/y"}]
        assert only(tree, {"id": "x", "nodes": nodes}).problem == problem

    def test_it_is_as_healthy_as_the_program_says(self, tree):
        assert only(tree, {"id": "x", "health": "Unhealthy", "reason": "hot"}).problem == "hot"
        assert only(tree, {"id": "x", "health": "Unhealthy"}).problem == "the program says so"
        assert only(tree, {"id": "x", "health": "Healthy", "reason": "ok"}).problem == ""

    def test_where_chooses(self, tree):
        where = (Requirement("size", "AtLeast", ("2",)),)
        answer = good(*({"id": f"x{n}", "attributes": {"size": n}} for n in range(4)))
        taken = found(tree, answer, where=where)
        assert [c.device.attributes["size"] for c in taken.candidates] == [2, 3]
        assert [one.reason for one in taken.lost] == [
            "size is 0, and must be at least 2",
            "size is 1, and must be at least 2",
        ]

    def test_an_empty_list_is_a_note(self, tree):
        assert found(tree, good()).note == "exec: /probes/list matches nothing"


class TestFailing:
    def test_before_its_first_end_there_is_nothing_to_say(self, tree):
        assert found(tree, Answer()) == found(tree, Answer(problem=""))
        assert (found(tree, Answer()).candidates, found(tree, Answer()).note) == ((), "")

    def test_before_a_good_run_there_are_no_devices(self, tree):
        bad = found(tree, Answer(problem="ended with status 1: no bus"))
        assert (bad.candidates, bad.note) == ((), "/probes/list ended with status 1: no bus")

    def test_its_last_devices_stay_and_turn_unhealthy_after_a_grace(self, tree):
        note = "/probes/list ended with status 1; its last list stays"
        for age, problem in ((29, ""), (31, "/probes/list ended with status 1")):
            failing = found(tree, good({"id": "x"}, age=age, problem="ended with status 1"))
            assert [c.problem for c in failing.candidates] == [problem]
            assert failing.note == note

    def test_age_alone_is_no_failure(self, tree):
        """The next run may simply take its time."""
        assert [c.problem for c in found(tree, good({"id": "x"}, age=1e6)).candidates] == [""]


class TestOutput:
    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            (b"", "truncated"),
            (b"nonsense", "malformed"),
            (b"[]", "Expected `object`"),
            (b"{}", "missing required field `devices`"),
            (b'{"devices": [], "more": 1}', "unknown field `more`"),
            (b'{"devices": []} {}', "trailing"),
            (b'{"devices": [{"id": "\xff"}]}', "utf-8"),
            (b'{"devices": [{"id": "\\ud800 and more"}]}', "surrogate"),
            (b"[" * 100_000, "Expected `object`"),
            (b'{"x": ' + b"[" * 100_000, "unknown field"),
            (b'{"\\u001b[2J": 1}', "unknown field `?[2J`"),
        ],
    )
    def test_what_is_no_such_json_is_refused(self, text, reason):
        with pytest.raises(Failed) as failed:
            decode(text)
        assert str(failed.value).startswith("printed no list of devices: ")
        assert reason.lower() in str(failed.value).lower()
        assert str(failed.value).isprintable()

    @pytest.mark.parametrize(
        ("device", "reason"),
        [
            ({}, "missing required field `id` - at `$.devices[0]`"),
            ({"id": ""}, "length >= 1"),
            ({"id": "x" * 254}, "length <= 253"),
            ({"id": 7}, "Expected `str`, got `int` - at `$.devices[0].id`"),
            ({"id": "a\nb"}, "unprintable characters"),
            ({"id": "x", "reason": "a\x1b[2J"}, "unprintable characters"),
            ({"id": "x", "reason": "r" * 257}, "length <= 256"),
            ({"id": "x", "health": "healthy"}, "health"),
            ({"id": "x", "more": 1}, "unknown field `more`"),
            ({"id": "x", "numa_nodes": [-1]}, ">= 0"),
            ({"id": "x", "numa_nodes": [True]}, "Expected `int`"),
            ({"id": "x", "numa_nodes": list(range(65))}, "length <= 64"),
            ({"id": "x", "attributes": {"a": 1.5}}, "attributes"),
            ({"id": "x", "attributes": {"a": None}}, "attributes"),
            ({"id": "x", "attributes": {"a": 2**63}}, "attributes"),
            ({"id": "x", "attributes": {"a-b": "c"}}, "no attribute name"),
            ({"id": "x", "attributes": {"a\n": "c"}}, "unprintable"),
            ({"id": "x", "attributes": {"a": "c\td"}}, "unprintable characters"),
            ({"id": "x", "attributes": {"a": "../etc"}}, "`..`"),
            ({"id": "x", "attributes": {"a": "c" * 257}}, "length <= 256"),
            ({"id": "x", "attributes": {f"a{n}": 1 for n in range(65)}}, "length <= 64"),
            ({"id": "x", "attributes": {"a": {"version": "v1"}}}, "'v1' is no version"),
            ({"id": "x", "attributes": {"a": {"quantity": "much"}}}, "'much' is no quantity"),
            ({"id": "x", "attributes": {"a": {"quantity": ""}}}, "'' is no quantity"),
            ({"id": "x", "attributes": {"a": {}}}, "either"),
            ({"id": "x", "attributes": {"a": {"version": "1.2.3", "quantity": "1"}}}, "either"),
            ({"id": "x", "nodes": [{"to": "/dev/x"}]}, "host_path"),
            ({"id": "x", "nodes": [{"host_path": "dev/x"}]}, "nodes[0].host_path"),
            ({"id": "x", "nodes": [{"host_path": "/dev/../x"}]}, "`..`"),
            ({"id": "x", "nodes": [{"host_path": "/dev/a\nb"}]}, "unprintable"),
            ({"id": "x", "nodes": [{"host_path": "/dev/x", "to": ""}]}, "nodes[0].to"),
            ({"id": "x", "nodes": [{"host_path": "/dev/x", "to": "/"}]}, "mounted over"),
            ({"id": "x", "nodes": [{"host_path": "/dev/x", "permissions": "x"}]}, "permissions"),
            ({"id": "x", "nodes": [{"host_path": "/dev/x", "permissions": "rr"}]}, "permissions"),
            ({"id": "x", "nodes": [{"host_path": "/dev/x"}] * 2}, "another one is at its place"),
            (
                {"id": "x", "nodes": [{"host_path": "/a"}, {"host_path": "/b", "to": "/a"}]},
                "another one is at its place",
            ),
        ],
    )
    def test_one_mistake_refuses_all_of_it(self, device, reason):
        with pytest.raises(Failed) as failed:
            decode(printed({"id": "good"}, device).replace(b'{"id": "good"}, ', b""))
        assert reason in str(failed.value)
        with pytest.raises(Failed):
            decode(printed({"id": "good"}, device))
        assert str(failed.value).isprintable()

    def test_an_id_is_there_once(self):
        with pytest.raises(Failed, match="the id `x` is there 2 times"):
            decode(printed({"id": "x"}, {"id": "y"}, {"id": "x"}))

    def test_ten_thousand_devices_are_the_most(self):
        assert len(decode(printed(*({"id": str(n)} for n in range(10_000))))) == 10_000
        with pytest.raises(Failed, match="length <= 10000"):
            decode(printed(*({"id": str(n)} for n in range(10_001))))

    def test_the_published_schema_is_that_of_the_types(self):
        published = (ROOT / "docs" / "exec.schema.json").read_text()
        assert published == json.dumps(schema(), indent=2) + "\n"  # what the file must hold

    def test_the_example_in_the_document_is_good(self):
        text = (ROOT / "docs" / "exec.md").read_text()
        example = text.partition("```json\n")[2].partition("```")[0]
        assert len(decode(example.encode())) == 2


@pytest.fixture
def program(tmp_path):
    """A program that prints what a file holds and counts its runs."""
    script = tmp_path / "list"
    script.write_text('#!/bin/sh\ncd "${0%/*}"; echo >> runs; . ./does\n')
    script.chmod(0o755)
    return Program(tmp_path, str(script))


class Program:
    def __init__(self, folder, path):
        self.folder, self.path = folder, path
        self.prints({"id": "x"})

    def prints(self, *devices):
        (self.folder / "list.json").write_bytes(printed(*devices))
        self.does("cat list.json")

    def does(self, script):
        new = self.folder / "new"
        new.write_text(script)
        new.rename(self.folder / "does")

    @property
    def runs(self):
        runs = self.folder / "runs"
        return len(runs.read_text().splitlines()) if runs.exists() else 0

    def wanted(self, *more, interval=3600.0, timeout=20.0):
        return Exec((self.path, *more), interval, timeout)

    def config(self, *wanted):
        return Config(1, (Resource(R, tuple(Selector(exec=one) for one in wanted)),))


class TestNow:
    def test_without_a_daemon_it_is_run_once_a_look(self, program):
        looked = program.config(program.wanted(), program.wanted())
        look = Host("/").look()
        for _ in range(2):
            discovered = discover(look, looked)[R]
            assert [c.device.attributes for c in discovered.candidates] == [{}]
        assert program.runs == 1
        assert "matches again" in discovered.notes[0]

    def test_it_is_told_where_the_host_is(self, program, tmp_path):
        program.does(
            """printf '{"devices": [{"id": "x", "attributes": {"r": "%s"}}]}' """
            '"$DEVICE_PLUGIN_HOST_ROOT"'
        )
        for root in ("/", str(tmp_path)):
            found = discover(Host(root).look(), program.config(program.wanted()))[R]
            assert found.candidates[0].device.attributes == {"r": root}

    def test_one_that_fails_is_no_harm_to_others(self):
        text = (
            "version: 1\nresources:\n- name: example.com/r\n  devices:\n"
            "  - exec: {command: [/gone]}\n  - virtual: {count: 2}\n"
        )
        checked = config.check(text.encode(), "f").config
        assert checked is not None
        discovered = discover(Host("/").look(), checked)[R]
        assert len(discovered.candidates) == 2
        assert discovered.notes == ["/gone cannot be started: No such file or directory"]
        assert discovered.failures == []


class News:
    def __init__(self):
        self.count = 0
        self._changed = threading.Condition()

    def __call__(self):
        with self._changed:
            self.count += 1
            self._changed.notify_all()

    def wait(self, count):
        with self._changed:
            assert self._changed.wait_for(lambda: self.count >= count, 20)


@pytest.fixture
def news():
    return News()


@pytest.fixture
def programs(news):
    running = Programs(Host("/"), news)
    yield running
    running.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "exec"]


def ids(answer):
    return None if answer.devices is None else [one.id for one in answer.devices]


class TestPrograms:
    def test_a_bug_does_not_end_its_thread(self, program, programs, news, monkeypatch):
        wanted, left, ask = (
            program.wanted(interval=0.01),
            [ZeroDivisionError("any")],
            program_module.ask,
        )

        def fail_once(*given):
            if left:
                raise left.pop()
            return ask(*given)

        monkeypatch.setattr("device_plugin.programs.ask", fail_once)
        programs.serve(program.config(wanted))
        news.wait(2)
        assert left == []
        assert ids(programs.answer(wanted)) == ["x"]

    def test_an_answer_is_there_after_the_first_run(self, program, programs, news):
        wanted = program.wanted()
        assert programs.answer(wanted) == Answer()
        programs.serve(program.config(wanted))
        news.wait(1)
        assert ids(programs.answer(wanted)) == ["x"]

    def test_it_is_run_again_and_only_news_are_told(self, program, programs, news):
        wanted = program.wanted(interval=0.01)
        programs.serve(program.config(wanted))
        news.wait(1)
        before = program.runs
        while program.runs < before + 3:
            time.sleep(0.01)
        assert news.count == 1
        program.prints({"id": "y"})
        news.wait(2)
        assert ids(programs.answer(wanted)) == ["y"]

    def test_a_failure_keeps_the_list_and_is_told_each_time(self, program, programs, news):
        wanted = program.wanted(interval=0.01)
        programs.serve(program.config(wanted))
        news.wait(1)
        at = programs.answer(wanted).at
        program.does("echo broken >&2; exit 1")
        news.wait(4)
        failing = programs.answer(wanted)
        assert (ids(failing), failing.problem) == (["x"], "ended with status 1: broken")
        assert failing.at >= at
        program.prints({"id": "x"})
        while programs.answer(wanted).problem:
            time.sleep(0.01)

    def test_selectors_share_the_runs_of_a_command(self, program, programs):
        programs.serve(program.config(program.wanted(), program.wanted(interval=1800)))
        programs.wait(20)
        assert ids(programs.answer(program.wanted(interval=1800))) == ["x"]
        assert program.runs == 1
        assert threading.active_count() < 10

    def test_wait_ends_when_all_have_run_or_time_is_up(self, program, programs):
        programs.serve(program.config(program.wanted()))
        programs.wait(20)
        assert ids(programs.answer(program.wanted())) == ["x"]
        program.does("sleep 600")
        programs.serve(program.config(program.wanted("other", timeout=600)))
        programs.wait(0.05)
        assert programs.answer(program.wanted("other")) == Answer()

    def test_what_the_config_drops_is_stopped(self, program, programs, news):
        program.does("trap '' TERM; sleep 600; cat list.json")
        programs.serve(program.config(program.wanted(timeout=600)))
        while not program.runs:
            time.sleep(0.01)
        started = time.monotonic()
        programs.serve(program.config())
        assert not [thread for thread in threading.enumerate() if thread.name == "exec"]
        assert time.monotonic() - started < 1
        assert programs.answer(program.wanted()) == Answer()
        assert news.count == 0

    def test_a_new_interval_keeps_the_answer(self, program, programs):
        programs.serve(program.config(program.wanted()))
        programs.wait(20)
        program.does("sleep 600")
        programs.serve(program.config(program.wanted(interval=1, timeout=600)))
        assert ids(programs.answer(program.wanted(interval=1))) == ["x"]

    def test_the_same_config_starts_nothing_anew(self, program, programs):
        for _ in range(3):
            programs.serve(program.config(program.wanted()))
            programs.wait(20)
        assert program.runs == 1

    def test_there_is_an_end_to_how_many(self, program, programs):
        many = [program.wanted(str(n)) for n in range(33)]
        programs.serve(program.config(*many))
        programs.wait(60)
        assert ids(programs.answer(many[31])) == ["x"]
        assert programs.answer(many[32]).problem.startswith("is not run: ")
        assert program.runs == 32


def test_the_types_take_what_they_make():
    """Whoever writes such a program in Python may use any JSON encoder."""
    listing = {"devices": [{"id": "x", "attributes": {"v": {"version": "1.2.3"}}}]}
    typed = msgspec.convert(listing, Listing)
    assert decode(msgspec.json.encode(typed)) == decode(msgspec.json.encode(listing))
