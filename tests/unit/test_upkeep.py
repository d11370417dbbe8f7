"""What becomes of IDs: found, held, dropped, disabled, free. Time is what the answers say."""

import json

import pytest
import yaml

from device_plugin import config
from device_plugin.allocation import Share
from device_plugin.cdi import Specs
from device_plugin.claimable import Absences
from device_plugin.device import Device
from device_plugin.discovery.path import device_of
from device_plugin.discovery.program import Answer
from device_plugin.health import check_nodes
from device_plugin.inventory import Inventory
from device_plugin.metrics import Metrics
from device_plugin.podresources import Holder, Holdings
from device_plugin.release import FREE_AFTER, Releases
from device_plugin.state import Disabled, HandedOut, Observed
from device_plugin.upkeep import Upkeep

R, S = "example.com/r", "example.com/s"
GRACE = 3600
POD = Holder("default", "pod", "main")


class Keeper:
    """Upkeep over a made-up /dev, with short words for what happens."""

    def __init__(self, tree, state):
        self.tree, self.inventory, self.claimable = tree, Inventory(), Inventory()
        self.claimed: dict[str, str] = {}
        self.passed = 0.0  # seconds, for what claims are offered
        self.handed_out, self.disabled = HandedOut(state), Disabled(state)
        self.checkpoint = state / "checkpoint"
        self.allocated()
        self.upkeep = Upkeep(
            host=tree.host,
            inventory=self.inventory,
            handed_out=self.handed_out,
            disabled=self.disabled,
            releases=Releases(self.checkpoint, "own"),
            specs=Specs(state / "cdi", state),
            metrics=Metrics(),
            answers=lambda _: Answer(),
            claimable=self.claimable,
            claimed=lambda: self.claimed,
        )
        self.upkeep._absences = Absences(lambda: self.passed)
        self.config = conf()
        self.now = 1000.0

    def look(self, new=None):
        """Look again, with a new config if there is one."""
        before = None
        if new is not None:
            before, self.config = self.config, new
        self.upkeep.look(self.config, before)

    def allocated(self, *ids):
        """What the kubelet's checkpoint says."""
        entry = {"PodUID": "u", "ResourceName": R, "DeviceIDs": {"-1": ids}, "AllocResp": "eA=="}
        registered = {R: ["a", "b"]}
        data = {"PodDeviceEntries": [entry] if ids else None, "RegisteredDevices": registered}
        self.checkpoint.write_text(json.dumps({"Data": data, "Checksum": 1}))

    def settle(self):
        """Answers that are complete, for long enough to count; they name nothing."""
        self.held()
        self.held(after=FREE_AFTER)

    def held(self, *, after=10, healthy=None, streaming=(), pods=("own",), **ids):
        """Let the kubelet answer, so many seconds later, that these IDs are held; then look."""
        self.now += after
        names = {"r": R, "s": S}
        holders = {names[key]: dict.fromkeys(held, (POD,)) for key, held in ids.items()}
        healthy = {R: frozenset(healthy)} if healthy is not None else {}
        again = self.upkeep.take(
            Holdings(self.now, holders, healthy, pods=frozenset(pods)), GRACE, streaming
        )
        if again:
            self.look()
        return again

    def hand_out(self, id_, resource=R, **numbers):
        device = self.inventory.snapshot(resource).by_id[id_].device
        [seen] = check_nodes(self.tree.host, resource, [Share(id_, device, 0)])
        self.handed_out.remember(resource, [Observed(device, numbers, seen.own)])

    def list(self, resource=R):
        by_id = self.inventory.snapshot(resource).by_id
        return {id_: listed.reason for id_, listed in by_id.items()}


@pytest.fixture
def keeper(tree, tmp_path):
    (tmp_path / "state").mkdir()
    return Keeper(tree, tmp_path / "state")


@pytest.fixture
def restarted(tree, tmp_path):
    return lambda: Keeper(tree, tmp_path / "state")


def conf(**resources):
    if not resources:
        return config.Config(1, ())
    names = {"r": R, "s": S}
    listed = [{"name": names[key], "devices": devices} for key, devices in resources.items()]
    checked = config.check(yaml.safe_dump({"version": 1, "resources": listed}).encode(), "file")
    assert checked.config is not None, checked.problems
    return checked.config


def paths(*paths, **options):
    return [{"path": path, **options} for path in paths]


def test_a_device_that_is_gone_leaves_when_nobody_held_it_for_the_grace(keeper):
    keeper.tree.node("/dev/a")
    keeper.look(conf(r=paths("/dev/a")))
    keeper.tree.at("/dev/a").unlink()
    keeper.look()
    keeper.held()
    keeper.held(after=GRACE - 1)
    assert keeper.list() == {"a": "removed"}
    keeper.held(after=1)
    assert keeper.list() == {}


def test_the_grace_begins_when_it_was_held_last(keeper):
    keeper.tree.node("/dev/a")
    keeper.look(conf(r=paths("/dev/a", replicas=2)))
    keeper.tree.at("/dev/a").unlink()
    keeper.look()
    keeper.held(r=["a-r1"])
    keeper.held(after=GRACE + 1, r=["a-r1"])
    keeper.held(after=GRACE - 1)
    assert keeper.list() == {"a": "removed", "a-r1": "removed"}
    keeper.held(after=1)
    assert keeper.list() == {}


def test_a_device_that_was_back_meanwhile_begins_anew(keeper):
    keeper.tree.node("/dev/a")
    keeper.look(conf(r=paths("/dev/a")))
    for _ in range(2):
        keeper.tree.at("/dev/a").unlink()
        keeper.look()
        keeper.held()
        keeper.held(after=GRACE - 1)
        keeper.tree.node("/dev/a")
        keeper.look()
        keeper.held()
        assert keeper.list() == {"a": ""}


def test_what_containers_hold_is_listed_at_start(keeper):
    keeper.tree.node("/dev/b")
    keeper.look(conf(r=paths("/dev/{n}", replicas=2)))
    assert keeper.held(r=["gone", "gone-r3", "b-r1", "b-r7", "Not-Ours", "x" * 64])
    assert keeper.list() == {
        "b": "",
        "b-r1": "",
        "b-r7": "not in config",
        "gone": "removed",
        "gone-r3": "removed",
    }
    assert not keeper.held(r=["gone", "gone-r3", "b-r1", "b-r7"]), "nothing new"


def test_what_is_left_over_keeps_its_numa_nodes(keeper):
    """Without them a kubelet with a NUMA policy may reject the Pod when it restarts."""
    keeper.look(conf(r=paths("/dev/{n}")))
    keeper.now += 10
    nodes = {(R, "gone"): (0, 1)}
    holders = {R: {"gone": (POD,)}}
    holdings = Holdings(keeper.now, holders, numa_nodes=nodes, pods=frozenset(("own",)))
    assert keeper.upkeep.take(holdings, GRACE, ())
    keeper.look()
    (listed,) = keeper.inventory.snapshot(R).devices
    assert listed.device == Device("gone", numa_nodes=(0, 1))
    keeper.handed_out.remember(R, [Observed(Device("other", numa_nodes=(3,)))])
    keeper.look()
    found = {one.device.id: one.device.numa_nodes for one in keeper.inventory.snapshot(R).devices}
    assert found == {"gone": (0, 1), "other": (3,)}


def test_a_device_that_is_found_again_takes_its_ids_back(keeper):
    keeper.look(conf(r=paths("/dev/{n}", replicas=4)))
    keeper.held(r=["b", "b-r2", "b-r9"])
    assert keeper.list() == {"b": "removed", "b-r2": "removed", "b-r9": "removed"}
    keeper.tree.node("/dev/b")
    keeper.look()
    assert keeper.list() == {"b": "", "b-r1": "", "b-r2": "", "b-r3": "", "b-r9": "removed"}


@pytest.mark.parametrize("after", [{"r": paths("/dev/b")}, {"s": paths("/dev/b")}])
def test_what_the_config_drops_is_not_in_config(keeper, after):
    for node in ("/dev/a", "/dev/b"):
        keeper.tree.node(node)
    keeper.look(conf(r=paths("/dev/a")))
    keeper.look(conf(**after))
    assert keeper.list()["a"] == "not in config"
    keeper.tree.at("/dev/a").unlink()
    keeper.look()
    assert keeper.list()["a"] == "not in config"
    keeper.held()
    keeper.held(after=GRACE)
    assert "a" not in keeper.list()


def test_fewer_replicas_and_more_again(keeper):
    keeper.tree.node("/dev/a")
    for replicas in (3, 1, 2):
        keeper.look(conf(r=paths("/dev/a", replicas=replicas)))
        expected = {"a": "", "a-r1": "", "a-r2": ""}
        expected |= {f"a-r{k}": "not in config" for k in range(replicas, 3)}
        assert keeper.list() == expected
    keeper.held(r=["a-r2"])
    keeper.held(after=GRACE, r=["a-r2"])
    assert "a-r2" in keeper.list()


def test_a_device_that_moves_to_another_resource_waits_until_it_is_free(keeper):
    keeper.tree.node("/dev/a")
    keeper.look(conf(r=paths("/dev/a"), s=[{"virtual": {"count": 0}}]))
    keeper.hand_out("a")
    keeper.held(r=["a"])
    keeper.look(conf(s=paths("/dev/a")))
    assert (keeper.list(R), keeper.list(S)) == ({"a": "not in config"}, {})
    keeper.held(r=["a"])
    assert keeper.list(S) == {}
    for _ in range(4):
        keeper.held()
    assert (keeper.list(R), keeper.list(S)) == ({"a": "not in config"}, {"a": ""})


def test_moved_ends_when_the_device_is_free(keeper):
    keeper.tree.node("/dev/a", 1)
    keeper.look(conf(r=paths("/dev/a")))
    keeper.hand_out("a", **{"/dev/a": "c 188:7"})
    keeper.look()
    moved = "moved: /dev/a was c 188:7 when a container got it and is c 188:1 now"
    assert keeper.list() == {"a": moved}
    for _ in range(3):
        keeper.held(after=FREE_AFTER, r=["a"])
        keeper.held(after=FREE_AFTER - 1)
        assert keeper.list() == {"a": moved}
    keeper.held(after=1)
    assert keeper.list() == {"a": ""}


def test_handed_out_anew_is_not_free(keeper):
    keeper.tree.node("/dev/a", 1)
    keeper.look(conf(r=paths("/dev/a")))
    keeper.hand_out("a", **{"/dev/a": "c 188:1"})
    keeper.held()
    keeper.hand_out("a", **{"/dev/a": "c 188:1"})
    keeper.held(after=FREE_AFTER)
    assert keeper.handed_out.numbers("a") is not None
    keeper.held(after=FREE_AFTER)
    assert keeper.handed_out.numbers("a") is None


def test_a_dropped_resource_outlives_a_restart_while_it_may_be_held(keeper, restarted):
    keeper.tree.node("/dev/a")
    keeper.look(conf(r=paths("/dev/a", replicas=2)))
    keeper.hand_out("a")
    later = restarted()
    later.look(conf(s=paths("/dev/b")))
    assert later.list(R) == {"a": "not in config", "a-r1": "not in config"}
    for after in (10, FREE_AFTER, GRACE, GRACE):
        later.held(after=after)
    assert later.list(R) == {}
    last = restarted()
    last.look(conf(s=paths("/dev/b")))
    assert last.inventory.resources == [S]


def test_a_kubelet_that_does_not_know_its_pods_frees_nothing(keeper):
    """One that has just started, or that cannot reach the API server."""
    keeper.tree.node("/dev/a", 1)
    keeper.look(conf(r=paths("/dev/{n}")))
    keeper.hand_out("a", **{"/dev/a": "c 188:7"})
    keeper.tree.at("/dev/a").unlink()
    keeper.look()
    for _ in range(3):
        keeper.held(r=["a"])
        for pods in ((), ("other",), ()):
            keeper.held(after=10 * GRACE, pods=pods)
        keeper.held(after=10)
        keeper.held(after=FREE_AFTER - 1)
        keeper.upkeep.no_answer()
    assert keeper.list() == {"a": "removed"}
    assert keeper.handed_out.numbers("a") is not None


def test_what_no_list_ever_had_is_free_when_the_checkpoint_lacks_it(keeper):
    """An ordinary init container's device is in no list, and taken while its Pod lives."""
    keeper.tree.node("/dev/a", 1)
    keeper.look(conf(r=paths("/dev/a", replicas=2)))
    keeper.hand_out("a", **{"/dev/a": "c 188:7"})
    keeper.allocated("a-r1")
    keeper.settle()
    keeper.held(after=GRACE)
    assert keeper.handed_out.numbers("a") is not None
    keeper.checkpoint.unlink()
    keeper.held(after=GRACE)
    assert keeper.handed_out.numbers("a") is not None, "nobody knows"
    keeper.allocated()
    keeper.held()
    assert keeper.handed_out.numbers("a") is None


def test_each_id_of_a_device_counts_for_itself(keeper):
    """One replica that a list named says nothing of another, which an init container has."""
    keeper.tree.node("/dev/a")
    keeper.look(conf(r=paths("/dev/a", replicas=2)))
    keeper.hand_out("a")
    keeper.allocated("a-r1")
    keeper.tree.at("/dev/a").unlink()
    keeper.look()
    keeper.held(r=["a"])
    keeper.settle()
    for _ in range(3):
        keeper.held(after=GRACE)
    assert keeper.list() == {"a": "removed", "a-r1": "removed"}
    assert keeper.handed_out.numbers("a") is not None
    keeper.allocated()
    keeper.held()
    keeper.held(after=GRACE)
    assert keeper.list() == {}


def test_what_a_list_had_is_free_whatever_an_old_checkpoint_says(keeper):
    keeper.tree.node("/dev/a", 1)
    keeper.look(conf(r=paths("/dev/a")))
    keeper.hand_out("a", **{"/dev/a": "c 188:7"})
    keeper.allocated("a")
    keeper.held(r=["a"])
    keeper.settle()
    assert keeper.handed_out.numbers("a") is None


def test_what_there_is_no_room_for_is_looked_for_once(keeper, monkeypatch):
    monkeypatch.setattr("device_plugin.listing.LIST_LIMIT", 60)
    keeper.look(conf(r=paths("/dev/a")))
    ids = [f"held-{i}" for i in range(10)]
    assert keeper.held(r=ids)
    assert not keeper.held(r=ids)


def test_a_disabled_device_is_unhealthy_until_enabled_over_restarts(keeper, restarted):
    keeper.tree.node("/dev/a")
    keeper.look(conf(r=paths("/dev/a", replicas=2)))
    keeper.disabled.set("a", "disabled: hot")
    keeper.look()
    assert keeper.list() == {"a": "disabled: hot", "a-r1": "disabled: hot"}
    later = restarted()
    later.look(conf(r=paths("/dev/a", replicas=2)))
    assert later.list() == {"a": "disabled: hot", "a-r1": "disabled: hot"}
    later.disabled.set("a", None)
    later.look()
    assert later.list() == {"a": "", "a-r1": ""}


class TestForeign:
    @pytest.fixture
    def keeper(self, keeper):
        keeper.tree.node("/dev/a")
        keeper.look(conf(r=paths("/dev/a")))
        return keeper

    def test_healthy_ids_that_are_not_ours_are_another_plugins(self, keeper):
        keeper.held(healthy=["a", "GPU-0"], streaming=[R])
        assert keeper.upkeep.foreign == {}, "the kubelet may not have read our last list yet"
        keeper.held(healthy=["a", "GPU-0", "gpu-1"], streaming=[R], r=["gpu-1"])
        assert keeper.upkeep.foreign == {R: {"GPU-0", "gpu-1"}}
        assert keeper.list() == {"a": ""}, "a foreign device is not listed, held or not"
        keeper.held(healthy=["a"], streaming=[R])
        assert keeper.upkeep.foreign == {}

    def test_without_our_stream_the_list_may_be_an_earlier_process(self, keeper):
        for _ in range(3):
            keeper.held(healthy=["a", "b"])
        assert keeper.upkeep.foreign == {}

    def test_a_resource_that_left_the_config_is_anybodys(self, keeper):
        keeper.upkeep.suspect(R, "GPU-0")
        keeper.inventory.remove(R)
        keeper.held()
        assert keeper.upkeep.foreign == {}

    def test_another_unknown_id_adds_to_those_known(self, keeper):
        for _ in range(2):
            keeper.held(healthy=["a", "gpu-0", "gpu-1"], streaming=[R], r=["gpu-0"])
        keeper.upkeep.suspect(R, "gpu-1")
        keeper.look()
        assert keeper.upkeep.foreign == {R: {"gpu-0", "gpu-1"}}
        assert keeper.list() == {"a": ""}

    def test_where_the_kubelet_never_answers_a_suspicion_is_none_for_ever(self, keeper):
        keeper.upkeep.suspect(R, "GPU-0")
        keeper.upkeep.no_answer()
        assert keeper.upkeep.foreign == {}
        keeper.held(healthy=["a"], streaming=[R])
        keeper.upkeep.suspect(R, "GPU-0")
        keeper.upkeep.no_answer()  # it will again
        assert keeper.upkeep.foreign == {R: {"GPU-0"}}

    def test_an_unknown_id_in_allocate_is_enough(self, keeper):
        keeper.upkeep.suspect(R, "GPU-0")
        assert keeper.upkeep.foreign == {R: {"GPU-0"}}
        keeper.held(healthy=["a"], streaming=[R])
        assert keeper.upkeep.foreign == {}


def renamed(keeper):
    """The node of a, which a container has, is known by a link from now on: as stick."""
    keeper.tree.node("/dev/a")
    keeper.tree.link("/dev/serial/by-id/stick", "../../a")
    keeper.look(conf(r=paths("/dev/a")))
    keeper.hand_out("a")
    keeper.held(r=["a"])


STICK = device_of("/dev/serial/by-id/stick")


@pytest.mark.parametrize("key", ["r", "s"])
def test_a_device_that_is_held_is_not_given_away_under_another_id(keeper, key):
    """The config names it anew, or two sticks have one serial number: it is the same node."""
    renamed(keeper)
    keeper.look(conf(**{key: paths("/dev/serial/by-id/stick")}))
    name = {"r": R, "s": S}[key]
    assert {**keeper.list(), **keeper.list(name)} == {"a": "not in config"}
    keeper.held()
    keeper.held(after=FREE_AFTER)
    assert keeper.list(name)[STICK] == ""


def test_one_that_was_offered_already_is_withdrawn(keeper):
    renamed(keeper)
    keeper.tree.at("/dev/serial/by-id/stick").unlink()
    keeper.tree.node("/dev/b")
    keeper.tree.link("/dev/serial/by-id/stick", "../../b")
    keeper.look(conf(r=paths("/dev/serial/by-id/*")))
    assert keeper.list() == {"a": "not in config", STICK: ""}
    keeper.tree.at("/dev/serial/by-id/stick").unlink()
    keeper.tree.link("/dev/serial/by-id/stick", "../../a")
    keeper.look()
    assert keeper.list() == {"a": "not in config", STICK: "a container holds it as a"}


def test_nor_after_a_restart(keeper, restarted):
    renamed(keeper)
    again = restarted()
    again.look(conf(r=paths("/dev/serial/by-id/stick")))
    assert list(again.list()) == ["a"]


def test_a_node_that_went_and_came_back_is_not_held(keeper):
    """It may be another device's, and the one that had it before knows nothing of it."""
    renamed(keeper)
    keeper.tree.at("/dev/a").rename(keeper.tree.at("/dev/gone"))  # the file keeps its inode
    keeper.tree.node("/dev/a")
    keeper.look(conf(r=paths("/dev/serial/by-id/stick")))
    assert keeper.list() == {"a": "not in config", STICK: ""}


def test_one_that_only_lies_beside_it_is_not_held(keeper):
    """A companion may be another resource's device."""
    for name in ("a", "b"):
        keeper.tree.node(f"/dev/{name}")
    keeper.look(conf(r=[{"path": "/dev/a", "with": ["/dev/b"]}]))
    keeper.hand_out("a")
    keeper.look(conf(r=[{"path": "/dev/a", "with": ["/dev/b"]}], s=paths("/dev/b")))
    assert keeper.list(S) == {"b": ""}
