"""Kinds that other packages add: their settings in the file, what they find, what they do wrong."""

import json
from collections.abc import Callable
from types import MappingProxyType, SimpleNamespace
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import pytest
import yaml
from msgspec import Meta, Struct, defstruct

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


class RudeError(Exception):
    """Even its text is one."""

    def __str__(self):
        raise RuntimeError


def raising(error: BaseException) -> Any:
    raise error


def finds(*devices):
    attributes = {"model": str, "fw": Version, "n": int}
    return lambda: Kind(Settings, lambda _look, _wanted: devices, attributes)


def wrong(settings: Any = None, attributes: Any = MappingProxyType({})) -> Any:
    """A kind that its type checker would not let pass."""
    return Kind(settings, lambda _look, _wanted: (), attributes)


def field(due: Any, factory: Any = None) -> Any:
    """Settings with one field."""
    more = [] if factory is None else [msgspec.field(default_factory=factory)]
    return defstruct("S", [("x", due, *more)], frozen=True)


class Point(NamedTuple):
    """An entry point."""

    name: str
    dist: SimpleNamespace
    load: Callable[[], object]


@pytest.fixture
def install(monkeypatch):
    """Pretend that packages are installed: by name, each with its kinds by name."""

    def install(packages):
        monkeypatch.setattr(
            "importlib.metadata.distributions",
            lambda: [distribution(*package) for package in packages.items()],
        )
        forget()

    def distribution(name, kinds):
        dist = SimpleNamespace(name=name, version="1.2")
        points = [Point(kind, dist, load) for kind, load in kinds.items()]
        dist.entry_points = SimpleNamespace(select=lambda group: points)
        return dist

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
            (Kind(Settings, wrong()), "its `find` is no function"),
            (wrong(dict), "its settings are no class that is derived from msgspec.Struct"),
            (
                wrong(defstruct("S", [])),
                "its settings can be changed; derive them with frozen=True",
            ),
            (wrong(field(list[str])), "no YAML is read as the type of `settings.x`; take str, int"),
            (wrong(field(str | tuple[str, ...])), "no YAML is read as the type of `settings.x`;"),
            (wrong(field("Nowhere")), "NameError: name 'Nowhere' is not defined"),
            (wrong(field(int, factory=lambda: 1 / 0)), "ZeroDivisionError: division by zero"),
            (wrong(field(Annotated[int, Meta(gt=3)])), "`gt` of `settings.x` is not checked"),
            (wrong(field(Annotated[tuple[str, ...], Meta(min_length=1)])), "`min_length` of"),
            (wrong(field(dict[Annotated[str, Meta(pattern="x")], str])), "`the key's bound` of"),
            (wrong(Settings, {"a-b": str}), "`a-b` is no attribute name"),
            (wrong(Settings, {"a": float}), "its attribute `a` must be one of str, int"),
            (wrong(Settings, {"a": [str]}), "TypeError: unhashable type: 'list'"),
            (wrong(Settings, {5: str}), "TypeError: "),
            (wrong(Settings, {"numa": int}), "its attribute `numa` comes from `sysfs`"),
            (wrong(Settings, [("a", str)]), "its attributes are no dict of names and types"),
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

        line = load.__code__.co_firstlineno + 1

        install({"pkg": {"acme": load}})
        (said,) = problems({"acme": {}})
        assert said == (
            "the kind `acme` of pkg 1.2 cannot be loaded: ImportError: no module named libacme"
            f" (test_added_kinds.py, line {line})"
        )
        assert schema()  # the others are there

    def test_two_with_one_name(self, install):
        install({"one": {"acme": finds()}, "two": {"acme": finds()}})
        (said,) = problems({"acme": {}})
        assert said == "the kind `acme` comes with one 1.2 and with two 1.2; uninstall one"

    def test_none_replaces_ours(self, install):
        install({"pkg": {"usb": finds(), "where": finds(), "health": finds()}})
        assert added.kind_names() == []
        assert problems({"usb": {"vendor": "1234"}}) == []

    def test_without_need_nobody_looks_for_packages(self, monkeypatch):
        def fail():
            raise AssertionError

        monkeypatch.setattr("importlib.metadata.distributions", fail)
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
        assert candidate.owned == ("/dev/a", "/sys/devices/pci0000:3a/0000:3b:00.0")

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


JUNK = msgspec.structs.replace(Version.parse("1.0.0"), text="junk\n")
NODES = [Node(f"/dev/x{n}") for n in range(257)]
ODD: Any = Device
ODD_NODE: Any = Node


class TestFailures:
    @pytest.mark.parametrize(
        ("devices", "why"),
        [
            (["x"], "devices[0]: it is a str; make it a device_plugin.sdk.Device"),
            ([Device("a"), None], "devices[1]: it is a NoneType; make it a"),
            ([ODD(b"x")], "`id` is a bytes; make it a str"),
            ([Device("")], "`id` is empty"),
            ([Device("x" * 254)], "`id` has more than 253 characters"),
            ([Device("x\x1b")], "`id`: there are unprintable characters in it"),
            ([Device("x"), Device("x")], "the id `x` is there 2 times"),
            ([Device("x", problem="\n")], "`problem`: there are unprintable characters in it"),
            ([ODD("x", problem=None)], "`problem` is a NoneType; make it a str"),
            ([Device("x", problem="x" * 257)], "`problem` has more than 256 characters"),
            ([Device("x", sysfs="/")], "`sysfs` is /; name a folder below /sys"),
            ([Device("x", sysfs="/sys/../etc")], "`sysfs` is /sys/../etc; name a folder"),
            ([Device("x", [Node("dev")])], "a path must be absolute"),
            ([ODD("x", ["/dev/x"])], "nodes[0] is a str; make it a device_plugin.sdk.Node"),
            ([ODD("x", iter(NODES))], "`nodes` is a list_iterator; make it a list"),
            ([Device("x", NODES)], "more than 256 nodes"),
            (
                [ODD("x", [ODD_NODE("/dev/x", permissions=None)])],
                "nodes[0].permissions` is a NoneType",
            ),
            (
                [Device("x", numa_nodes=[2**70])],
                "`numa_nodes` has 1180591620717411303424; they are",
            ),
            ([ODD("x", numa_nodes="01")], "`numa_nodes` is a str; make it a list"),
            ([ODD("x", numa_nodes=[True])], "`numa_nodes` has True; they are 0 to 1023"),
            ([ODD("x", attributes=None)], "`attributes` is a NoneType; make it a dict"),
            ([Device("x", attributes={"n": "1"})], "`n` is a str, and should be a int"),
            ([Device("x", attributes={"n": True})], "`n` is a bool, and should be a int"),
            ([Device("x", attributes={"n": 2**63})], "the number does not fit 64 bits"),
            ([Device("x", attributes={"m": 1})], "x: `m` is not among the attributes"),
            ([Device("x", attributes={"numa": 1})], "x: `numa` is not among the attributes"),
            ([ODD("x", attributes={"n": 1.5})], "it is a float; take str, int, bool, Version or"),
            ([Device("x", attributes={"fw": JUNK})], "'junk"),
            ([Device(f"{n}") for n in range(10_001)], "there are more than 10000 devices"),
        ],
    )
    def test_nonsense_is_refused(self, install, tree, devices, why):
        install({"pkg": {"acme": finds(*devices)}})
        found = discover(tree.host.look(), read({"acme": {}}))[R]
        (note,) = found.notes
        assert note.startswith("the kind acme of pkg 1.2 failed, tell its makers: ")
        assert why in note
        assert note.isprintable()
        assert (found.candidates, found.failures) == ([], [note])

    @pytest.mark.parametrize(
        ("find", "why"),
        [
            (lambda: None, "TypeError: find returned a NoneType; return or yield Devices"),
            (lambda: 1 / 0, "ZeroDivisionError: division by zero (test_added_kinds.py, line "),
            (lambda: raising(SystemExit(3)), "SystemExit: 3 (test_added_kinds.py, line "),
            (lambda: raising(KeyboardInterrupt()), "KeyboardInterrupt (test_added_kinds.py, line"),
            (lambda: raising(RudeError()), "RudeError (test_added_kinds.py, line "),
            (lambda: raising(ValueError("a\nb" * 200)), "ValueError: a\\nba\\nb"),
            (
                lambda: raising(ValueError(f"at {object()}")),
                "ValueError: at <object object at 0x...>",
            ),
            (
                lambda: Version.parse("1.2"),
                "ValueError: '1.2' is no version such as 1.2.3 (test_added",
            ),
        ],
    )
    def test_whatever_it_raises_is_said(self, install, tree, find, why):
        install({"pkg": {"acme": lambda: Kind(Settings, lambda _look, _wanted: find())}})
        found = discover(tree.host.look(), read({"acme": {}}))[R]
        (note,) = found.notes
        assert note.startswith(f"the kind acme of pkg 1.2 failed, tell its makers: {why}")
        assert note.isprintable()
        assert len(note) < 400

    def test_settings_may_raise_anything(self, install):
        def made():
            raise SystemExit("no licence")

        broken = defstruct("S", [], frozen=True, namespace={"__post_init__": lambda _: made()})
        install({"pkg": {"acme": lambda: wrong(broken)}})
        (said,) = problems({"acme": {}})
        assert said.startswith(
            "the kind `acme` of pkg 1.2 cannot read this: SystemExit: no licence"
        )

    def test_what_is_missing_after_some_were_found_is_a_failure(self, install, tree):
        def find(look, _wanted):
            yield Device("x")
            look.read("/sys/gone")

        install({"pkg": {"acme": lambda: Kind(Settings, find)}})
        found = discover(tree.host.look(), read({"acme": {}}))[R]
        (note,) = found.failures
        assert "Unusable" in note or "Absent" in note

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
        assert "RuntimeError: lost the bus (test_added_kinds.py, line " in note

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
