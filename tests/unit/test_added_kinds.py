"""Kinds that other packages add: their settings in the file, what they find, what they do wrong."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import pytest
import yaml
from msgspec import Meta, Struct

from device_plugin import config
from device_plugin.attribute import Version
from device_plugin.config import added
from device_plugin.config.schema import schema
from device_plugin.device import Node as Handed
from device_plugin.discovery import discover
from device_plugin.discovery.explain import explain
from device_plugin.sdk import Device, Kind, Node, Unusable

R = "example.com/r"


class Inner(Struct, frozen=True):
    """More of it."""

    level: Literal["low", "high"] = "low"


class Settings(Struct, frozen=True):
    """What the kind of this test takes."""

    model: Annotated[str, Meta(pattern="^[A-Z]+$", max_length=5)] | None = None
    """Only this model."""
    count: Annotated[int, Meta(ge=1, le=9, description="How many.")] = 1
    wait: float = 1.5
    inner: Inner | None = None
    names: tuple[str, ...] = ()
    table: dict[str, bool] = {}

    def __post_init__(self):
        if self.model == "BAD":
            raise ValueError("BAD was never built; write GOOD")


def finds(*devices):
    attributes = {"model": str, "fw": Version, "n": int}
    return lambda: Kind(Settings, lambda _look, _wanted: devices, attributes)


def wrong(settings: Any, attributes: Any = None) -> Any:
    """A kind that its type checker would not let pass."""
    return Kind(settings, lambda _look, _wanted: (), attributes or {})


class Point(NamedTuple):
    """An entry point."""

    name: str
    dist: SimpleNamespace
    load: Callable[[], object]


@pytest.fixture
def install(monkeypatch):
    """Pretend that packages are installed: by name, each with its kinds by name."""

    def install(packages):
        points = [
            Point(name, SimpleNamespace(name=package, version="1.2"), load)
            for package, kinds in packages.items()
            for name, load in kinds.items()
        ]
        monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points)
        forget()

    def forget():
        added._entry_points.cache_clear()
        added.load.cache_clear()

    yield install
    forget()


def text(selector, **resource):
    resources = [{"name": R, "devices": [selector], **resource}]
    return yaml.safe_dump({"version": 1, "resources": resources}, sort_keys=False)


def good(document):
    checked = config.check(document.encode(), "f")
    assert checked.config is not None, checked.problems
    return checked.config


def read(selector, **resource):
    return good(text(selector, **resource))


def problems(selector, **resource):
    checked = config.check(text(selector, **resource).encode(), "f")
    return [one.message for one in checked.problems]


class TestSettings:
    def test_they_are_read_by_their_types(self, install):
        install({"pkg": {"acme": finds()}})
        asked = {
            "model": "X",
            "count": 3,
            "wait": "2m",
            "inner": {"level": "high"},
            "names": ["a", "b"],
            "table": {"on": True},
        }
        selector = read({"acme": asked}).resources[0].devices[0]
        assert selector.added[0].settings == Settings(
            "X", 3, 120.0, Inner("high"), ("a", "b"), {"on": True}
        )
        assert selector.kinds == ["acme"]

    @pytest.mark.parametrize(
        ("asked", "message"),
        [
            ({"modell": "X"}, "unknown key `modell`; did you mean `model`?"),
            ({"model": "x"}, '`model` must match `^[A-Z]+$`, not "x"'),
            ({"model": "ABCDEF"}, "`model` must have 0 to 5 characters, not 6"),
            ({"count": 0}, "`count` must be 1 to 9, not 0"),
            ({"count": "3"}, "`count` must be a whole number; remove the quotes"),
            ({"wait": 3}, "`wait` needs a unit: 3s"),
            ({"inner": {"level": "lo"}}, "`level` must be high or low"),
            ({"model": "BAD"}, "`acme`: BAD was never built; write GOOD"),
        ],
    )
    def test_what_is_wrong_is_said_as_of_our_own_keys(self, install, asked, message):
        install({"pkg": {"acme": finds()}})
        (said,) = problems({"acme": asked})
        assert said.startswith(message)

    @pytest.mark.parametrize(
        ("rest", "message"),
        [
            ({"to": "/dev/x"}, "`to` does not fit `acme`: the kind `acme` says"),
            ({"path": "/dev/x"}, "a selector has one kind, not both `path` and `acme`"),
            ({"other": {}}, "a selector has one kind, not both `acme` and `other`"),
            (
                {"where": [{"key": "modle", "operator": "Exists"}]},
                "there is no attribute `modle`; did you mean `model`?",
            ),
            (
                {"where": [{"key": "fw", "operator": "AtLeast", "values": ["1"]}]},
                '"1" is no version such as 1.2.3',
            ),
        ],
    )
    def test_what_does_not_fit_beside_it(self, install, rest, message):
        install({"pkg": {"acme": finds(), "other": finds()}})
        (said,) = problems({"acme": {}, **rest})
        assert said.startswith(message)

    def test_placeholders_are_checked_by_its_attributes(self, install):
        install({"pkg": {"acme": finds()}})
        good = {"env": {"A": "{attribute.model} {attribute.numa} {path} {host_path}"}}
        read({"acme": {}}, container=good)
        (said,) = problems({"acme": {}}, container={"env": {"A": "{attribute.modl}"}})
        assert "did you mean `{attribute.model}`?" in said

    def test_a_near_miss_of_its_name(self, install):
        install({"pkg": {"acme": finds()}})
        (said,) = problems({"acm": {}})
        assert said == "unknown key `acm`; did you mean `acme`?"

    def test_the_schema_has_it(self, install):
        install({"pkg": {"acme": finds()}})
        made = schema()
        (one,) = [one for one in made["$defs"]["Selector"]["oneOf"] if one["title"] == "acme"]
        assert set(one["properties"]) == {"acme", "where", "replicas"}
        settings = made["$defs"][f"{__name__}.Settings"]
        assert settings["description"] == "What the kind of this test takes."
        assert settings["properties"]["model"]["description"] == "Only this model."
        json.dumps(made)


class TestPackages:
    @pytest.mark.parametrize(
        ("kind", "why"),
        [
            (3, "its entry point leads to a int, not to a device_plugin.sdk.Kind"),
            (wrong(dict), "its settings are no class that is derived from msgspec.Struct"),
            (
                wrong(msgspec.defstruct("S", [("tags", list[str])])),
                "no YAML is read as the type of `settings.tags`; take str, int",
            ),
            (wrong(Settings, {"a-b": str}), "`a-b` is no attribute name"),
            (wrong(Settings, {"a": float}), "its attribute `a` must be one of str, int"),
        ],
    )
    def test_one_that_cannot_be_used(self, install, kind, why):
        install({"pkg": {"acme": lambda: kind}})
        (said,) = problems({"acme": {}})
        assert said.startswith(f"the kind `acme` of pkg 1.2 cannot be used: {why}")
        assert said.endswith("; tell its makers")

    def test_one_that_cannot_be_loaded(self, install):
        def load():
            raise ImportError("no module named libacme")

        install({"pkg": {"acme": load}})
        (said,) = problems({"acme": {}})
        assert said == (
            "the kind `acme` of pkg 1.2 cannot be loaded: ImportError: no module named libacme"
        )
        assert schema()  # the others are there

    def test_two_with_one_name(self, install):
        install({"one": {"acme": finds()}, "two": {"acme": finds()}})
        (said,) = problems({"acme": {}})
        assert said == "the kind `acme` comes with one 1.2 and two 1.2; uninstall one of them"

    def test_none_replaces_ours(self, install):
        install({"pkg": {"usb": finds(), "where": finds(), "health": finds()}})
        assert added.kind_names() == []
        assert problems({"usb": {"vendor": "1234"}}) == []

    def test_without_need_nobody_looks_for_packages(self, monkeypatch):
        def fail(group):
            raise AssertionError(group)

        monkeypatch.setattr("importlib.metadata.entry_points", fail)
        added._entry_points.cache_clear()
        read({"path": "/dev/x"})


class TestDevices:
    def test_what_is_found_is_a_device(self, install, tree):
        tree.node("/dev/a")
        tree.node("/dev/b")
        tree.folder("/sys/devices/pci0000:3a/0000:3b:00.0")
        tree.at(tree.file("/sys/devices/pci0000:3a/0000:3b:00.0/numa_node")).write_text("1\n")
        tree.link("/sys/class/acme/a0", "../../devices/pci0000:3a/0000:3b:00.0")
        one = Device(
            "SN 1",
            [Node("/dev/a", "/dev/acme", "r"), Node("/dev/b"), Node("/dev/c", optional=True)],
            {"model": "X", "fw": Version.parse("1.2.3")},
            sysfs="/sys/class/acme/a0",
        )
        install({"pkg": {"acme": finds(one)}})
        found = discover(tree.host.look(), read({"acme": {}, "replicas": 2}))[R]
        (candidate,) = found.candidates
        device = candidate.device
        assert device.id.startswith("acme-sn-1-")
        assert device.nodes == (Handed("/dev/a", "/dev/acme", "r"), Handed("/dev/b"))
        assert device.numa_nodes == (1,)
        assert device.attributes == {
            "model": "X",
            "fw": Version.parse("1.2.3"),
            "pcie_root": "pci0000:3a",
            "numa": 1,
        }
        assert (device.replicas, candidate.problem) == (2, "")
        assert candidate.claims == ("/dev/a", "/sys/devices/pci0000:3a/0000:3b:00.0")

    @pytest.mark.parametrize(
        ("device", "problem"),
        [
            (Device("x", [Node("/dev/gone")]), "/dev/gone does not exist"),
            (Device("x", sysfs="/sys/gone"), "/sys/gone does not exist"),
            (Device("x", problem="too hot"), "too hot"),
        ],
    )
    def test_what_is_wrong_with_one(self, install, tree, device, problem):
        install({"pkg": {"acme": finds(device)}})
        (candidate,) = discover(tree.host.look(), read({"acme": {}}))[R].candidates
        assert candidate.problem == problem

    def test_the_same_device_in_two_resources_is_the_first_ones(self, install, tree):
        install({"pkg": {"acme": finds(Device("x"))}})
        resources = [{"name": name, "devices": [{"acme": {}}]} for name in (R, f"{R}2")]
        document = yaml.safe_dump({"version": 1, "resources": resources})
        found = discover(tree.host.look(), good(document))
        assert found[R].candidates[0].problem == ""
        assert found[f"{R}2"].candidates[0].problem == (
            "acme-x already belongs to example.com/r (device acme-x)"
        )

    def test_where_sorts_out(self, install, tree):
        install({"pkg": {"acme": finds(Device("x", attributes={"n": 1}))}})
        where = [{"key": "n", "operator": "AtLeast", "values": ["2"]}]
        found = discover(tree.host.look(), read({"acme": {"model": "X"}, "where": where}))[R]
        assert found.candidates == []
        assert found.notes == [
            "acme: {model: X}: nothing that matches can be taken: n is 1, and must be at least 2"
        ]

    def test_explain_knows_its_nodes(self, install, tree):
        tree.node("/dev/a")
        tree.node("/dev/b")
        install({"pkg": {"acme": finds(Device("x", [Node("/dev/a")]))}})
        made = read({"acme": {}})
        look = tree.host.look()
        (mine,), (other,) = explain(look, made, "/dev/a"), explain(look, made, "/dev/b")
        assert (mine.kind, mine.device, mine.matches) == ("acme", "acme-x", True)
        assert other.text == "/dev/b belongs to nothing that the kind finds"


class TestFailures:
    @pytest.mark.parametrize(
        ("devices", "why"),
        [
            (["x"], "it found a str, which is no device_plugin.sdk.Device"),
            ([Device("")], "the id '' is not 1 to 253 characters"),
            ([Device("x"), Device("x")], "the id `x` is there 2 times"),
            ([Device("x", [Node("dev")])], "a path must be absolute"),
            ([Device("x", attributes={"n": "1"})], "the attribute `n` is str, and should be int"),
            ([Device("x", attributes={"n": True})], "the attribute `n` is bool, and should be"),
            ([Device("x", attributes={"m": 1})], "x: `m` is not among the attributes"),
            ([Device(f"{n}") for n in range(10_001)], "it found more than 10000 devices"),
        ],
    )
    def test_nonsense_is_refused(self, install, tree, devices, why):
        install({"pkg": {"acme": finds(*devices)}})
        found = discover(tree.host.look(), read({"acme": {}}))[R]
        (note,) = found.notes
        assert note.startswith("the kind acme of pkg 1.2 failed, tell its makers: ")
        assert why in note
        assert (found.candidates, found.failures) == ([], [note])

    def test_an_exception_stops_no_other_selector(self, install, tree):
        tree.node("/dev/a")

        def find(_look, _wanted):
            yield Device("x")
            raise RuntimeError("lost the bus")

        install({"pkg": {"acme": lambda: Kind(Settings, find)}})
        selectors = [{"acme": {}}, {"path": "/dev/a"}]
        document = {"version": 1, "resources": [{"name": R, "devices": selectors}]}
        found = discover(tree.host.look(), good(json.dumps(document)))[R]
        assert [one.device.nodes[0].host_path for one in found.candidates] == ["/dev/a"]
        (note,) = found.notes
        assert "RuntimeError('lost the bus') (test_added_kinds.py, line " in note

    def test_what_is_not_there_is_no_failure(self, install, tree):
        def find(look, _wanted):
            yield from map(Device, look.names("/sys/class/acme"))

        install({"pkg": {"acme": lambda: Kind(Settings, find)}})
        found = discover(tree.host.look(), read({"acme": {}}))[R]
        assert found.notes == ["acme: {} finds nothing: /sys/class/acme does not exist"]
        assert found.failures == []
        with pytest.raises(Unusable) as caught:
            tree.host.look().names("/sys/class/acme")
        assert caught.value.path == "/sys/class/acme"
