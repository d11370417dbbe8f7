"""Described machines as host roots; their nodes are real ones where that is allowed."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.hosts import machines
from tests.unit.hosts.machine import Machine
from tests.unit.hosts.pretend import System, can_make_nodes, pretended_node, real_node

Boot = Callable[..., Machine]


@pytest.fixture(scope="session")
def real_nodes(tmp_path_factory: pytest.TempPathFactory) -> bool:
    return can_make_nodes(tmp_path_factory.mktemp("nodes"))


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Machine]:
    """From here on the code runs on this machine; with a seed, folders are listed in any order."""

    def on(machine: Machine, seed: int | None = None) -> Machine:
        monkeypatch.setattr("device_plugin.host.os", System(machine, seed))
        return machine

    return on


@pytest.fixture
def boot(tmp_path: Path, use: Callable[..., Machine], real_nodes: bool) -> Boot:  # noqa: FBT001
    """Make a machine of a description; `pretend` makes no real nodes even for root."""
    roots = _roots(tmp_path)

    def make(text: str, *, pretend: bool = False) -> Machine:
        node = real_node if real_nodes and not pretend else pretended_node
        return use(Machine(next(roots), text, node))

    return make


@pytest.fixture(scope="session")
def _standing(tmp_path_factory, real_nodes):
    roots = _roots(tmp_path_factory.mktemp("hosts"))
    made: dict[str, Machine] = {}

    def machine(name: str) -> Machine:
        if name not in made:
            node = real_node if real_nodes else pretended_node
            made[name] = Machine(next(roots), machines.TEXTS[name], node)
        return made[name]

    return machine


@pytest.fixture
def standing(_standing, use):
    """A described machine by name, for those who only look: it is made once for all tests."""
    return lambda name: use(_standing(name))


def _roots(folder: Path) -> Iterator[Path]:
    for number in range(1000):
        root = folder / f"host{number}"
        root.mkdir()
        yield root
