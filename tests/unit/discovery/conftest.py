"""The kinds of devices on described machines: `boot(text)` makes one, `find` looks at it."""

from collections.abc import Callable

import pytest

from device_plugin import config
from device_plugin.config import Config
from device_plugin.device import Candidate
from device_plugin.discovery import Discovered, discover
from device_plugin.host import Host
from tests.unit.hosts.conftest import boot, real_nodes, use
from tests.unit.hosts.machine import Machine

__all__ = ["boot", "real_nodes", "use"]


@pytest.fixture
def load() -> Callable[..., Config]:
    """A config of the selectors of one resource, a.b/c, in YAML."""

    def loaded(*selectors: str) -> Config:
        items = "".join(f"    - {{{selector}}}\n" for selector in selectors)
        text = f"version: 1\nresources:\n- name: a.b/c\n  devices:\n{items}"
        checked = config.check(f"{text}  per_container: {{max: 1}}\n".encode(), "config.yaml")
        assert checked.problems == ()
        assert checked.config is not None
        return checked.config

    return loaded


@pytest.fixture
def find(load: Callable[..., Config]) -> Callable[..., Discovered]:
    """One look at a machine for the devices of some selectors, in YAML."""

    def found(machine: Machine, *selectors: str) -> Discovered:
        return discover(Host(str(machine.root)).look(), load(*selectors))["a.b/c"]

    return found


@pytest.fixture
def paths() -> Callable[[Candidate], list[str]]:
    """Where a container finds the nodes of a device."""

    def inside(candidate: Candidate) -> list[str]:
        return [node.to or node.host_path for node in candidate.device.nodes]

    return inside
