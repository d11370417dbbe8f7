"""CDI specs: what stands in them, when they are written, whose they are."""

import json
import re
import resource as limits
import threading
from contextlib import contextmanager

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from device_plugin import config
from device_plugin.allocation import Refused, grant, shares
from device_plugin.cdi import Specs
from device_plugin.config import Container, Mount, Resource
from device_plugin.device import REMOVED, Device, Node
from device_plugin.discovery.program import Answer
from device_plugin.host import Host
from device_plugin.inventory import Inventory
from device_plugin.listing import NOT_IN_CONFIG, Listed, Snapshot
from device_plugin.metrics import Metrics
from device_plugin.plugin import grant_message
from device_plugin.podresources import Holdings
from device_plugin.release import Releases
from device_plugin.state import Disabled, HandedOut, Observed
from device_plugin.upkeep import Upkeep

R, S = "example.com/r", "example.com/s"
FILE = "device-plugin-example.com_r.json"

# What the specification asks of a spec, and what a runtime refuses; unknown keys are refused too.
EDITS = {
    "env": lambda v: all(re.fullmatch(r"[^=]+=.*", one) for one in v),
    "deviceNodes": lambda v: all(map(is_node, v)),
}
NODE = {
    "path": lambda v: v.startswith("/"),
    "hostPath": lambda v: v.startswith("/"),
    "permissions": lambda v: v and set(v) <= set("rwm"),
}
KIND = re.compile(r"[A-Za-z]([\w.-]*[A-Za-z0-9])?/[A-Za-z]([\w.-]*[A-Za-z0-9])?", re.ASCII)
NAME = re.compile(r"[A-Za-z0-9]([\w.:-]*[A-Za-z0-9])?", re.ASCII)
VERSIONS = ("0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")


def is_node(node):
    return "path" in node and all(NODE[key](value) for key, value in node.items())


def checked(data):
    """A spec as a runtime reads it: as YAML, and strictly."""
    spec = yaml.safe_load(data)
    assert spec == json.loads(data)
    assert set(spec) == {"cdiVersion", "kind", "devices"}
    assert spec["cdiVersion"] in VERSIONS
    assert KIND.fullmatch(spec["kind"])
    names = [device["name"] for device in spec["devices"]]
    assert names
    assert len(set(names)) == len(names)
    for device in spec["devices"]:
        assert set(device) == {"name", "containerEdits"}
        assert NAME.fullmatch(device["name"])
        assert device["containerEdits"]
        for key, value in device["containerEdits"].items():
            assert value
            assert EDITS[key](value), (key, value)
    assert spec["cdiVersion"] == least(spec)
    return spec


def least(spec):
    """The first version that knows everything in the spec."""
    if "." in spec["kind"].partition("/")[2]:
        return "0.6.0"
    nodes = [n for d in spec["devices"] for n in d["containerEdits"].get("deviceNodes", ())]
    digits = any(device["name"][0].isdigit() for device in spec["devices"])
    return "0.5.0" if digits or any("hostPath" in node for node in nodes) else "0.3.0"


class Folder:
    """A folder of specs over a made-up /dev."""

    def __init__(self, tree, path):
        self.tree, self.cdi, self.state = tree, path / "cdi", path / "state"
        self.state.mkdir(exist_ok=True)
        self.specs = Specs(self.cdi, self.state)

    def write(self, *listed, resource=R):
        return self.specs.write(resource, Snapshot(listed), self.tree.host.look())

    def spec(self, resource=R):
        return checked((self.cdi / f"device-plugin-{resource.replace('/', '_')}.json").read_bytes())

    def entries(self, resource=R):
        devices = self.spec(resource)["devices"]
        return {device["name"]: device["containerEdits"] for device in devices}

    def files(self):
        return sorted(path.name for path in self.cdi.iterdir())


@pytest.fixture
def folder(tree, tmp_path):
    return Folder(tree, tmp_path)


def healthy(id_, *nodes, **more):
    return Listed(Device(id_, nodes, **more))


def lost(listed, reason, *, present=False):
    return msgspec.structs.replace(listed, reason=reason, present=present)


def plain(path):
    return {"deviceNodes": [{"path": path, "permissions": "rw"}]}


@contextmanager
def full_disk():
    """No file may grow: to write one fails, though not to make it."""
    before = limits.getrlimit(limits.RLIMIT_FSIZE)
    limits.setrlimit(limits.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        limits.setrlimit(limits.RLIMIT_FSIZE, before)


@contextmanager
def no_folder(path):
    """A file is in its place."""
    away = path.rename(path.with_suffix(".away"))
    path.touch()
    try:
        yield
    finally:
        path.unlink()
        away.rename(path)


# What stands in a spec


def test_the_text(folder):
    folder.tree.node("/dev/a")
    assert not folder.write(healthy("a", Node("/dev/a", "/dev/inside", "r")), healthy("b"))
    assert (folder.cdi / FILE).read_text() == (
        '{"cdiVersion":"0.5.0","kind":"example.com/r","devices":['
        '{"name":"a","containerEdits":{"deviceNodes":['
        '{"path":"/dev/inside","permissions":"r","hostPath":"/dev/a"}]}},'
        '{"name":"b","containerEdits":{"env":["DEVICE_PLUGIN_CDI_B=b"]}}]}'
    )


@pytest.mark.parametrize(
    ("resource", "id_", "to", "version"),
    [
        (R, "a", "", "0.3.0"),
        (R, "a", "/dev/a", "0.3.0"),
        (R, "a", "/dev/b", "0.5.0"),
        (R, "1a", "", "0.5.0"),
        ("example.com/r.s", "1a", "/dev/b", "0.6.0"),
    ],
)
def test_the_version_is_the_lowest(folder, resource, id_, to, version):
    folder.tree.node("/dev/a")
    folder.write(healthy(id_, Node("/dev/a", to)), resource=resource)
    assert folder.spec(resource)["cdiVersion"] == version


def test_a_link_is_followed_because_runtimes_do_not(folder):
    folder.tree.node("/dev/ttyUSB0")
    folder.tree.node("/dev/ttyUSB1")
    folder.tree.link("/dev/serial/by-id/x", "../../ttyUSB0")
    stick = healthy("x", Node("/dev/serial/by-id/x"))
    folder.write(stick)
    [node] = folder.entries()["x"]["deviceNodes"]
    assert (node["path"], node["hostPath"]) == ("/dev/serial/by-id/x", "/dev/ttyUSB0")
    folder.tree.at("/dev/serial/by-id/x").unlink()
    folder.tree.link("/dev/serial/by-id/x", "../../ttyUSB1")
    folder.write(stick)
    assert folder.entries()["x"]["deviceNodes"][0]["hostPath"] == "/dev/ttyUSB1"


def test_placeholders_that_every_container_fills_alike(folder):
    folder.tree.node("/dev/a")
    to = "/dev/{id}-{n}-{attribute.serial}"
    folder.write(
        healthy("a", Node("/dev/a", to), replicas=2, values={"n": "1"}, attributes={"serial": "S"})
    )
    assert folder.entries()["a"]["deviceNodes"][0]["path"] == "/dev/a-1-S"


def test_a_device_that_lacks_what_to_asks_for_is_left_out(folder):
    """Allocate refuses it, and says why."""
    folder.tree.node("/dev/a")
    assert not folder.write(healthy("a", Node("/dev/a", "/dev/{attribute.serial}")), healthy("b"))
    assert list(folder.entries()) == ["b"]


@pytest.mark.parametrize(
    "path", ['/dev/a "b" \\ é 😀', "/dev/\x7f\x85\ufeff\u2028\t\n", "/dev/: {x} [y] #z - &a *b !c"]
)
def test_odd_paths_are_read_as_they_are(folder, path):
    folder.tree.node("/dev/a")
    folder.write(healthy("a", Node("/dev/a", path.replace("{", "{{").replace("}", "}}"))))
    assert folder.entries()["a"]["deviceNodes"][0]["path"] == path


IDS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
PATHS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0/{}"), min_size=1)


@given(st.dictionaries(IDS, st.lists(PATHS, max_size=3)), st.sampled_from([R, "a.b/C.d_e"]))
def test_every_spec_is_one(tmp_path_factory, devices, resource):
    place = tmp_path_factory.mktemp("specs")
    (place / "null").touch()
    look = Host(str(place)).look()
    listed = [
        healthy(id_, *(Node("/null", f"/dev/{path}") for path in paths))
        for id_, paths in devices.items()
    ]
    assert not Specs(place, place).write(resource, Snapshot(tuple(listed)), look)
    specs = [checked(file.read_bytes()) for file in place.glob("device-plugin-*")]
    assert [len(spec["devices"]) for spec in specs] == ([len(devices)] if devices else [])


# Which devices stand in it


def test_no_device_no_spec(folder):
    assert not folder.write()
    assert not folder.cdi.exists()
    folder.write(healthy("a"))
    folder.write()
    assert folder.files() == []


def test_a_device_that_is_gone_leaves_because_its_node_may_be_anothers(folder):
    folder.tree.node("/dev/a")
    a, b = healthy("a", Node("/dev/a")), healthy("b")
    folder.write(a, b)
    folder.write(lost(a, REMOVED), b)
    assert list(folder.entries()) == ["b"]
    folder.write(a, b)
    assert list(folder.entries()) == ["a", "b"]


def test_what_the_config_dropped_stays_as_it_was(folder):
    folder.tree.node("/dev/a")
    a, b = healthy("a", Node("/dev/a"), replicas=2), healthy("b", replicas=2)
    folder.write(a, b)
    before = folder.entries()
    folder.write(lost(a, NOT_IN_CONFIG), lost(b, NOT_IN_CONFIG))
    assert folder.entries() == before
    restarted = Folder(folder.tree, folder.cdi.parent)
    dropped = [lost(healthy(id_), NOT_IN_CONFIG) for id_ in ("a-r1", "b", "b-r1", "new")]
    restarted.write(*dropped)
    assert restarted.entries() == before


def test_a_replica_too_many_is_no_device(folder):
    folder.write(healthy("a"), lost(healthy("a-r1"), NOT_IN_CONFIG))
    assert list(folder.entries()) == ["a"]


def test_an_unhealthy_device_stays_while_it_is_whole(folder):
    folder.tree.node("/dev/a")
    folder.tree.node("/dev/b")
    a = healthy("a", Node("/dev/a"), Node("/dev/b"))
    folder.write(a)
    before = folder.entries()
    folder.write(lost(a, "disabled by an admin", present=True))
    assert folder.entries() == before
    folder.tree.at("/dev/b").unlink()
    folder.write(lost(a, "/dev/b does not exist", present=True))
    assert folder.files() == []


def test_half_a_device_at_the_start_is_none(folder):
    """Held, and listed as far as it is there: a restarted container waits for all of it."""
    folder.tree.node("/dev/a")
    folder.tree.node("/dev/b")
    folder.write(healthy("a", Node("/dev/a"), Node("/dev/b")), healthy("c", Node("/dev/a")))
    half = lost(healthy("a", Node("/dev/a")), "/dev/b does not exist", present=True)
    none = lost(healthy("c"), "/dev/a is a FIFO, not a device node", present=True)
    for _ in range(2):
        folder.write(half, none, healthy("b"))
        assert list(folder.entries()) == ["b"]


# The file


def test_it_is_written_only_if_it_differs(folder):
    folder.write(healthy("a"))
    inode = (folder.cdi / FILE).stat().st_ino
    folder.write(healthy("a"))
    Folder(folder.tree, folder.cdi.parent).write(healthy("a"))
    assert (folder.cdi / FILE).stat().st_ino == inode


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"kind": "x"}', "\0"])
def test_a_file_that_somebody_spoilt_is_mended(folder, text):
    folder.write(healthy("a"))
    (folder.cdi / FILE).unlink()
    if text is not None:
        (folder.cdi / FILE).write_text(text)
    folder.write(healthy("a"))
    assert list(folder.entries()) == ["a"]


def test_unknown_keys_are_spoilt_too(folder):
    folder.write(healthy("a"))
    spec = folder.spec()
    (folder.cdi / FILE).write_text(json.dumps(spec | {"x": 1}))
    folder.write(healthy("a"))
    assert folder.spec() == spec


def test_a_folder_that_is_gone_is_made_again(folder):
    folder.write(healthy("a"))
    (folder.cdi / FILE).unlink()
    folder.cdi.rmdir()
    folder.write(healthy("a"))
    assert list(folder.entries()) == ["a"]


def test_whoever_reads_finds_a_whole_spec(folder):
    """Also whoever reads all files that a runtime takes for specs."""
    folder.write(*map(healthy, ("a", "b")))
    stop, counts, odd = threading.Event(), set(), []

    def read():
        while not stop.is_set():
            specs = [p for p in folder.cdi.iterdir() if p.suffix in (".json", ".yaml")]
            try:
                counts.add(sum(len(json.loads(p.read_bytes())["devices"]) for p in specs))
            except (OSError, ValueError, KeyError) as error:
                odd.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    many = [healthy(f"d{i}") for i in range(300)]
    for turn in range(200):
        folder.write(*many[: 2 + 298 * (turn % 2)])
    stop.set()
    for reader in readers:
        reader.join()
    assert not odd
    assert counts == {2, 300}


def test_a_file_in_the_folders_place(folder):
    folder.cdi.touch()
    problem = folder.write(healthy("a"))
    assert problem == (
        f"cannot write {folder.cdi / FILE}: Not a directory: mount its folder, or drop"
        " container.cdi"
    )
    assert folder.write(healthy("a")) == problem
    folder.cdi.unlink()
    assert not folder.write(healthy("a"))


def test_a_folder_in_no_folder(folder):
    folder.specs = Specs(folder.cdi / "deeper", folder.state)
    assert "No such file or directory" in folder.write(healthy("a"))


def test_a_full_disk_leaves_the_last_spec_and_nothing_else(folder):
    folder.write(healthy("a"))
    with full_disk():
        assert "File too large" in folder.write(healthy("b"))
    assert folder.files() == [FILE]
    assert list(folder.entries()) == ["a"]
    assert not folder.write(healthy("b"))
    assert list(folder.entries()) == ["b"]


def test_what_cannot_be_replaced_leaves_nothing_behind(folder):
    (folder.cdi / FILE / "in the way").mkdir(parents=True)
    assert "Is a directory" in folder.write(healthy("a"))
    assert folder.files() == [FILE]


def test_names_of_files(folder):
    long = f"{'a.' * 119}com/{'n' * 63}"
    names = ["a.b/c_d", "a.b/c.d", "a.b/C.d", long, long[:-1] + "m"]
    for name in names:
        folder.write(healthy("a"), resource=name)
    kinds = {checked((folder.cdi / name).read_bytes())["kind"] for name in folder.files()}
    assert kinds == set(names)


# Whose it is


def test_what_earlier_processes_left_is_taken_away(folder):
    folder.write(healthy("a"))
    folder.write(healthy("b"), resource=S)
    (folder.cdi / "device-plugin-of-others.json").touch()
    restarted = Specs(folder.cdi, folder.state)
    assert restarted.remove_leftovers({S, "example.com/other"}) == [R]
    assert folder.files() == ["device-plugin-example.com_s.json", "device-plugin-of-others.json"]
    assert Specs(folder.cdi, folder.state).resources == {S}


def test_two_daemons_leave_one_another_alone(folder, tmp_path):
    folder.write(healthy("a"))
    (tmp_path / "other").mkdir()
    other = Specs(folder.cdi, tmp_path / "other")
    assert other.remove_leftovers(()) == []
    other.remove(R)
    assert folder.files() == [FILE]


def test_a_spec_that_nobody_needs_goes(folder):
    folder.write(healthy("a"))
    folder.specs.remove(R)
    folder.specs.remove(S)
    assert folder.files() == []
    assert Specs(folder.cdi, folder.state).resources == set()


def test_a_spec_that_is_gone_already(folder):
    folder.write(healthy("a"))
    (folder.cdi / FILE).unlink()
    assert Specs(folder.cdi, folder.state).remove_leftovers(()) == [R]


@pytest.mark.parametrize("text", ["", "{}", "[1]", "\0"])
def test_without_the_record_nothing_is_ours(folder, text):
    folder.write(healthy("a"))
    (folder.state / "cdi.json").write_text(text)
    assert Specs(folder.cdi, folder.state).remove_leftovers(()) == []
    assert folder.files() == [FILE]


def test_a_full_state_folder_costs_no_device_and_removes_no_spec(folder, tmp_path):
    (tmp_path / "none").touch()
    folder.specs = Specs(folder.cdi, tmp_path / "none")
    assert not folder.write(healthy("a"))
    folder.specs.remove(R)
    assert list(folder.entries()) == ["a"]


# Upkeep: the spec comes before the list


class Witness(Inventory):
    """Notes what the spec had when each list was published."""

    def __init__(self, folder):
        super().__init__()
        self.folder, self.published = folder, []

    def _publish(self, resource, snapshot):
        spec = self.folder.entries() if (self.folder.cdi / FILE).is_file() else {}
        self.published.append((snapshot, spec))
        super()._publish(resource, snapshot)


class Keeper:
    def __init__(self, folder):
        self.folder, self.inventory = folder, Witness(folder)
        self.folder.cdi.mkdir(exist_ok=True)
        self.handed_out = HandedOut(folder.state)
        self.disabled = Disabled(folder.state)
        self.config = conf()
        self.upkeep = Upkeep(
            host=folder.tree.host,
            inventory=self.inventory,
            handed_out=self.handed_out,
            disabled=self.disabled,
            releases=Releases(folder.state / "checkpoint"),
            specs=folder.specs,
            metrics=Metrics(),
            answers=lambda _: Answer(),
            claimable=Inventory(),
            claimed=dict,
        )

    def look(self, new=None):
        before = None
        if new is not None:
            before, self.config = self.config, new
        self.upkeep.look(self.config, before)

    def list(self):
        return {one.device.id: one.reason for one in self.inventory.snapshot(R).devices}

    def hand_out(self, id_):
        device = self.inventory.snapshot(R).by_id[id_].device
        self.handed_out.remember(R, [Observed(device)])


@pytest.fixture
def keeper(folder):
    return Keeper(folder)


def conf(*devices, cdi=True):
    if not devices:
        return config.Config(1, ())
    resource = {"name": R, "devices": list(devices), "container": {"cdi": cdi}}
    checked = config.check(yaml.safe_dump({"version": 1, "resources": [resource]}).encode(), "file")
    assert checked.config is not None, checked.problems
    return checked.config


def path(path, **more):
    return {"path": path, **more}


def test_no_list_is_ahead_of_the_spec(keeper):
    tree = keeper.folder.tree
    keeper.look(conf(path("/dev/x{n}", replicas=2)))
    for turn in range(12):
        tree.node(f"/dev/x{turn}", turn)
        keeper.look()
        if turn % 3 == 2:
            tree.at(f"/dev/x{turn - 1}").unlink()
            keeper.look()
    assert len(keeper.inventory.published) > 12
    for snapshot, spec in keeper.inventory.published:
        assert [one.device.id for one in snapshot.devices if one.healthy] == list(spec)


def test_without_cdi_there_is_no_spec(keeper):
    keeper.folder.tree.node("/dev/a")
    keeper.look(conf(path("/dev/a"), cdi=False))
    assert keeper.folder.files() == []


def test_a_spec_that_cannot_be_written_makes_all_devices_unhealthy(keeper):
    tree = keeper.folder.tree
    tree.node("/dev/a")
    keeper.look(conf(path("/dev/a*")))
    tree.node("/dev/ab")
    with no_folder(keeper.folder.cdi):
        keeper.look()
        reasons = keeper.list()
        assert reasons["a"] == reasons["ab"]
        assert reasons["a"].startswith(f"cannot write {keeper.folder.cdi / FILE}: Not a directory")
        keeper.disabled.set("a", "disabled by an admin")
        keeper.look()
        assert keeper.list() == reasons | {"a": "disabled by an admin"}
    assert list(keeper.folder.entries()) == ["a"]
    keeper.look()
    assert keeper.list() == {"a": "disabled by an admin", "ab": ""}
    assert list(keeper.folder.entries()) == ["a", "ab"]


def test_a_spec_that_need_not_be_written_cannot_fail(keeper):
    keeper.folder.tree.node("/dev/a")
    keeper.look(conf(path("/dev/a")))
    with full_disk():
        keeper.look()
    assert keeper.list() == {"a": ""}


def test_without_the_key_the_spec_stays_for_those_who_have_names(keeper):
    tree = keeper.folder.tree
    tree.node("/dev/a1")
    tree.node("/dev/a2")
    tree.link("/dev/a", "a1")
    keeper.look(conf(path("/dev/a")))
    keeper.look(conf(path("/dev/a"), cdi=False))
    tree.at("/dev/a").unlink()
    tree.link("/dev/a", "a2")
    keeper.look()
    assert keeper.folder.entries()["a"]["deviceNodes"][0]["hostPath"] == "/dev/a2"
    with no_folder(keeper.folder.cdi):
        keeper.look()
        assert keeper.list() == {"a": ""}


def test_a_held_device_that_is_dropped_keeps_its_entry_over_a_restart(keeper):
    tree = keeper.folder.tree
    tree.node("/dev/a")
    tree.node("/dev/b")
    keeper.look(conf(path("/dev/a"), path("/dev/b", replicas=2)))
    keeper.hand_out("a")
    keeper.hand_out("b-r1")
    before = keeper.folder.entries()
    keeper.look(conf())
    assert keeper.folder.entries() == before
    restarted = Keeper(Folder(tree, keeper.folder.cdi.parent))
    restarted.look(conf())
    assert set(restarted.list().values()) == {NOT_IN_CONFIG}
    assert restarted.folder.entries() == before


def test_a_held_device_that_is_gone_has_no_entry_after_a_restart(keeper):
    keeper.folder.tree.node("/dev/a")
    keeper.look(conf(path("/dev/a")))
    keeper.hand_out("a")
    keeper.folder.tree.at("/dev/a").unlink()
    restarted = Keeper(Folder(keeper.folder.tree, keeper.folder.cdi.parent))
    restarted.look(conf(path("/dev/a")))
    assert restarted.list() == {"a": REMOVED}
    assert restarted.folder.files() == []


def test_a_device_leaves_the_spec_with_the_list(keeper):
    keeper.folder.tree.node("/dev/a")
    keeper.look(conf(path("/dev/a"), path("/dev/none*")))
    keeper.look(conf(path("/dev/none*")))
    assert list(keeper.folder.entries()) == ["a"]
    (keeper.folder.state / "checkpoint").write_text('{"Data": {"PodDeviceEntries": null}}')
    for asked in (0.0, 100.0):
        keeper.upkeep.take(Holdings(asked, pods=frozenset({"pod"})), 60.0, ())
    keeper.look()
    assert keeper.list() == {}
    assert keeper.folder.files() == []


# What a container gets


A = Device("a", (Node("/dev/a"),), 3, {"n": "1"})
B = Device("b", (Node("/dev/b", "/dev/in-b"), Node("/dev/timer")))


def given_by(container, *devices):
    resource = Resource(R, (), container=container)
    snapshot = Snapshot(tuple(map(Listed, devices)))
    chosen = shares(resource, snapshot, snapshot.by_id)
    return grant(resource, chosen, lambda path: f"/host{path}")


def test_names_stand_for_the_nodes():
    message = grant_message(given_by(Container(cdi=True), A, B))
    assert [device.name for device in message.cdi_devices] == ["example.com/r=a", "example.com/r=b"]
    assert not message.devices


def test_all_else_is_as_without_names():
    container = Container(
        env={"P": "{path}", "I_{index}": "{id}"},
        mounts=(Mount("/opt/{n}", "/x{index}"),),
        annotations={"example.com/x": "{host_path}"},
    )
    without = given_by(container, A)
    by_name = given_by(msgspec.structs.replace(container, cdi=True), A)
    assert by_name == msgspec.structs.replace(without, nodes=(), cdi=("example.com/r=a",))
    assert by_name.env["P"] == "/dev/a"


def test_no_names_without_the_key():
    assert not given_by(Container(), A).cdi


def test_to_is_the_same_for_every_container(folder):
    """Of a replica, too: what the container is told is what the spec says."""
    a = Device("a", (Node("/dev/a", "/dev/in-{id}"),), 2)
    container = Container(cdi=True, env={"X": "{id}={path}"})
    assert given_by(container, a).env["X"] == "a=/dev/in-a,a-r1=/dev/in-a"
    folder.tree.node("/dev/a")
    folder.write(Listed(a))
    assert folder.entries()["a"]["deviceNodes"][0]["path"] == "/dev/in-a"


def test_to_with_an_index_that_no_check_has_seen(folder):
    """The devices of a program may ask for it: no container gets them."""
    a = Device("a", (Node("/dev/a", "/dev/x{index}"),))
    with pytest.raises(Refused) as why:
        given_by(Container(cdi=True), a)
    assert str(why.value) == "device a has no {index}, which '/dev/x{index}' asks for"
    folder.tree.node("/dev/a")
    folder.write(Listed(a), healthy("b"))
    assert list(folder.entries()) == ["b"]


# What check says


def said(name=R, cdi="true", **selector):
    resource = {"name": name, "devices": [selector], "per_container": {"max": 2}}
    text = json.dumps({"version": 1, "resources": [resource]})
    text = text.replace('"per_container"', f'"container": {{"cdi": {cdi}}}, "per_container"')
    return [problem.message for problem in config.check(text.encode(), "file").problems]


def test_an_index_is_no_place_that_a_spec_can_say():
    message = (
        "`{index}` is another one in each container, which CDI cannot say; write `{id}`, or drop"
        " `cdi`"
    )
    assert said(path="/dev/a*", to="/dev/x{index}") == [message]
    assert said(path="/dev/a*", **{"with": [{"path": "/dev/b", "to": "/dev/{index}"}]}) == [message]
    assert said(path="/dev/a*", to="/dev/x{index}", cdi="false") == []
    assert said(path="/dev/a*", to="/dev/x{id}", replicas=2) == []


@pytest.mark.parametrize(("name", "part"), [("1a.com/r", "1a.com"), ("example.com/2r", "2r")])
def test_a_name_that_cdi_has_not(name, part):
    [message] = said(name, path="/dev/a")
    assert message == (
        f"CDI has no names that begin with a digit, as `{part}` does; rename the resource, or drop"
        " `cdi`"
    )
    assert said(name, path="/dev/a", cdi="false") == []


def test_other_mistakes_are_none_of_cdi():
    assert len(said(path="/dev/a", cdi='"yes"')) == 1
    assert len(said("Example.com/r", path="/dev/a")) == 1
