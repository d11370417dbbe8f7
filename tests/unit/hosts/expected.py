"""What `discover` ought to find on a described machine: written by hand, from what the hardware is.

A device is told from the others by attributes (`which`); an ID is the implementation's to choose,
within the rules of IDs.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from device_plugin import config
from device_plugin.allocation import inside
from device_plugin.attribute import plain
from device_plugin.config import Config
from device_plugin.device import ID_LIMIT, Candidate
from device_plugin.discovery import Discovered, discover
from device_plugin.host import Host
from tests.unit.hosts.machine import Machine

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")


@dataclass(frozen=True)
class Given:
    """A node that a container gets; where several host paths are as good, any of them."""

    host_path: str | tuple[str, ...]
    path: str = ""  # in the container, if another one
    permissions: str = "rw"

    def fits(self, given: tuple[str, str, str]) -> bool:
        host_path, path, permissions = given
        paths = (self.host_path,) if isinstance(self.host_path, str) else self.host_path
        inside = path in ((self.path,) if self.path else (*paths, host_path))
        return host_path in paths and inside and permissions == self.permissions


@dataclass(frozen=True)
class Expected:
    """A device; its primary node first, the others in any order."""

    which: Mapping[str, str]  # no other device of the resource has these; a path device: its path
    nodes: tuple[Given, ...] = ()
    numa: tuple[int, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)  # among others
    absent: tuple[str, ...] = ()  # attributes that it has no right to
    problem: str = ""  # a regular expression of it; empty: there is none


@dataclass(frozen=True)
class Case:
    """A config for a machine, and what each of its resources has."""

    name: str
    resources: str  # of the config, in YAML
    devices: Mapping[str, tuple[Expected, ...]]  # by the resource's name without its domain


@dataclass(frozen=True)
class Found:
    """A device that was found, as `discover -o json` shows it."""

    id: str
    problem: str
    nodes: tuple[tuple[str, str, str], ...]
    numa: tuple[int, ...]
    attributes: Mapping[str, str]

    def is_which(self, which: Mapping[str, str]) -> bool:
        own = {**self.attributes, **({"path": self.nodes[0][0]} if self.nodes else {})}
        return all(own.get(key) == value for key, value in which.items())


def load(resources: str) -> Config:
    """Check a config. Fails with its problems."""
    text = f"version: 1\nresources:\n{resources}"
    checked = config.check(text.encode(), "config.yaml")
    assert checked.config is not None, list(map(str, checked.problems))
    assert not checked.problems, list(map(str, checked.problems))
    return checked.config


def look(machine: Machine, resources: str) -> dict[str, Discovered]:
    """One look at a machine, by resource without its domain."""
    found = discover(Host(str(machine.root)).look(), load(resources))
    return {name.rpartition("/")[2]: discovered for name, discovered in found.items()}


def found(discovered: Discovered) -> list[Found]:
    return [_found(candidate) for candidate in discovered.candidates]


def _found(candidate: Candidate) -> Found:
    device = candidate.device
    return Found(
        device.id,
        candidate.problem,
        tuple((node.host_path, path, node.permissions) for node, path in inside(device)),
        device.numa_nodes,
        {name: str(plain(value)) for name, value in device.attributes.items()},
    )


def check(expected: Iterable[Expected], there: list[Found]) -> None:
    """Compare: every device as it must be, and no other one."""
    left = list(there)
    for one in expected:
        matching = [device for device in left if device.is_which(one.which)]
        assert len(matching) == 1, f"{dict(one.which)} is not one of {there}"
        _compare(one, matching[0])
        left.remove(matching[0])
    assert not left, "devices too many"
    check_ids(there)


def check_ids(there: list[Found]) -> None:
    ids = [device.id for device in there]
    assert len(set(ids)) == len(ids)
    for id_ in ids:
        assert _LABEL.fullmatch(id_)
        assert len(id_) <= ID_LIMIT


def _compare(one: Expected, device: Found) -> None:
    assert bool(one.problem) == bool(device.problem), device
    assert re.search(one.problem, device.problem), device
    if not one.problem:
        first = device.nodes[:1]
        assert not one.nodes or (first and one.nodes[0].fits(first[0])), device
        missing = [node for node in one.nodes if not any(map(node.fits, device.nodes))]
        assert not missing, device
        assert len(device.nodes) == len(one.nodes), device
    assert device.numa == one.numa, device
    wrong = {
        key: device.attributes.get(key)
        for key, value in {**one.attributes, **one.which}.items()
        if key != "path" and device.attributes.get(key) != value
    }
    assert not wrong, f"{wrong} of {device}"
    assert not set(one.absent) & set(device.attributes), device
