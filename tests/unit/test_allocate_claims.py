"""Allocate beside claims: whoever comes second is refused, however close they come."""

import pytest

from device_plugin.allocation import Refused
from device_plugin.config import Resource
from device_plugin.device import Candidate, Device
from device_plugin.host import Host
from device_plugin.inventory import Inventory
from device_plugin.metrics import Metrics
from device_plugin.plugin import Plugin
from device_plugin.state import HandedOut

R = "example.com/r"


class Racing:
    """A plugin, and something that happens while it remembers what it hands out."""

    def __init__(self, state):
        self.inventory, self.handed_out = Inventory(), HandedOut(state)
        self.claimed: dict[str, str] = {}
        self.inventory.replace(R, [Candidate(Device("a")), Candidate(Device("b"))])
        self.plugin = Plugin(
            resource=lambda: Resource(R, ()),
            inventory=self.inventory,
            host=Host(),
            handed_out=self.handed_out,
            metrics=Metrics(),
            changed=lambda: None,
            suspect=lambda _: None,
            claimed=lambda: self.claimed,
        )

    def meanwhile(self, happens, monkeypatch):
        remember = self.handed_out.remember

        def slowly(*arguments):
            remember(*arguments)
            happens()

        monkeypatch.setattr(self.handed_out, "remember", slowly)

    def allocate(self):
        return self.plugin._allocate(["a"])


@pytest.fixture
def racing(tmp_path):
    return Racing(tmp_path)


def test_a_claim_was_prepared_meanwhile(racing, monkeypatch):
    racing.meanwhile(lambda: racing.claimed.update(a=R), monkeypatch)
    with pytest.raises(Refused, match="is unhealthy: a claim holds it"):
        racing.allocate()


def test_the_resource_moved_meanwhile(racing, monkeypatch):
    racing.meanwhile(lambda: racing.inventory.replace(R, [], dropped=["a", "b"]), monkeypatch)
    with pytest.raises(Refused, match="is unhealthy: not in config"):
        racing.allocate()
    assert [one.id for one in racing.handed_out.of(R)] == ["a"], "so claims go without it"


def test_else_it_is_given(racing, monkeypatch):
    racing.meanwhile(lambda: racing.claimed.update(b=R), monkeypatch)
    racing.allocate()
