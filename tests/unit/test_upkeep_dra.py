"""A resource that moves between the device plugin and DRA: no device is offered by both."""

import pytest
import yaml

from device_plugin import config
from device_plugin.listing import HELD_BY_PLUGIN
from tests.unit.test_upkeep import GRACE, Keeper, R, conf, paths


@pytest.fixture
def keeper(tree, tmp_path):
    (tmp_path / "state").mkdir()
    for name in "ab":
        tree.node(f"/dev/{name}")
    return Keeper(tree, tmp_path / "state")


def by_claims(*devices):
    resource = {"name": R, "api": "dra", "devices": paths(*devices)}
    document = {"version": 1, "dra": {"driver": "gpu.example.com"}, "resources": [resource]}
    checked = config.check(yaml.safe_dump(document).encode(), "file")
    assert checked.config is not None, checked.problems
    return checked.config


def claimable(keeper):
    return {one.device.id: one.reason for one in keeper.claimable.snapshot(R).devices}


def test_what_dra_offers_the_kubelet_does_not_see(keeper):
    keeper.look(by_claims("/dev/a", "/dev/b"))
    assert claimable(keeper) == {"a": "", "b": ""}
    assert keeper.inventory.resources == []


def test_a_held_device_is_withheld_until_it_is_free(keeper):
    keeper.look(conf(r=paths("/dev/a", "/dev/b")))
    keeper.hand_out("a")
    keeper.settle()
    keeper.held(r=["a"])
    keeper.look(by_claims("/dev/a", "/dev/b"))
    assert claimable(keeper) == {"b": ""}
    assert keeper.list() == {"a": "not in config", "b": "not in config"}
    keeper.settle()
    keeper.look()
    assert claimable(keeper) == {"a": "", "b": ""}
    keeper.held(after=GRACE)
    assert keeper.list() == {}


def test_a_device_that_was_handed_out_before_the_restart_is_withheld_at_once(keeper, tree):
    keeper.look(conf(r=paths("/dev/a", "/dev/b")))
    keeper.hand_out("a")
    again = Keeper(tree, keeper.checkpoint.parent)
    again.look(by_claims("/dev/a", "/dev/b"))
    assert claimable(again) == {"b": ""}
    assert again.list() == {"a": "not in config"}


def test_a_device_that_only_the_kubelet_says_is_held_is_withheld(keeper):
    """The state folder is new."""
    keeper.look(by_claims("/dev/b"))
    keeper.held(r=["a"])
    keeper.look(by_claims("/dev/a", "/dev/b"))
    assert claimable(keeper) == {"b": ""}


def test_on_the_way_back_a_claimed_device_is_not_offered(keeper):
    keeper.look(by_claims("/dev/a", "/dev/b"))
    keeper.claimed = {"a": R}
    keeper.look(conf(r=paths("/dev/a", "/dev/b")))
    assert keeper.claimable.resources == []
    assert keeper.list() == {"b": ""}
    keeper.claimed = {}
    keeper.look()
    assert keeper.list() == {"a": "", "b": ""}


def test_what_breaks_stays_with_its_reason_and_leaves_after_the_grace(keeper, monkeypatch):
    keeper.look(by_claims("/dev/a", "/dev/b"))
    keeper.tree.at("/dev/a").unlink()
    keeper.look()
    assert claimable(keeper) == {"a": "removed", "b": ""}
    monkeypatch.setattr("time.time", lambda: 4e9)  # the clock is set: nothing has passed
    keeper.look()
    assert claimable(keeper) == {"a": "removed", "b": ""}
    keeper.passed += GRACE + 1
    keeper.claimed = {"a": R}
    keeper.look()
    assert claimable(keeper) == {"a": "removed", "b": ""}
    keeper.claimed = {}
    keeper.look()
    assert claimable(keeper) == {"b": ""}


def test_a_disabled_device_is_unhealthy_there_too(keeper):
    keeper.disabled.set("a", "disabled: hot")
    keeper.look(by_claims("/dev/a"))
    assert claimable(keeper) == {"a": "disabled: hot"}


def test_a_device_that_a_container_got_meanwhile_is_named_so(keeper):
    """Two daemons, or a lost state folder: it was listed before anybody knew."""
    keeper.look(by_claims("/dev/a"))
    keeper.held(r=["a"])
    keeper.look()
    assert claimable(keeper) == {"a": HELD_BY_PLUGIN}


def test_claims_do_not_get_what_a_container_has_under_another_id(keeper):
    keeper.tree.link("/dev/by-name/stick", "../a")
    keeper.look(conf(r=paths("/dev/a")))
    keeper.hand_out("a")
    keeper.look(by_claims("/dev/by-name/stick"))
    assert claimable(keeper) == {}
