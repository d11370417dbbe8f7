"""`vfio`: devices for virtual machines; one is an IOMMU group, which can only be given as a whole.

The number of a group is the kernel's, and another one at the next boot; its lowest address is the
identity. Bridges in a group stay with the host.
"""

import re
from collections.abc import Iterator, Mapping
from functools import partial

from device_plugin.attribute import Attribute
from device_plugin.config import Pci, Selector
from device_plugin.device import Candidate, Found, Lost
from device_plugin.discovery import match, nodes, pci, sysfs
from device_plugin.discovery.match import Match
from device_plugin.discovery.pci import Function
from device_plugin.host import Look, Unusable, shown

_DRIVER = re.compile(r"(?:.+_)?vfio[-_]pci")  # those for single models are called MODEL_vfio_pci
_IDLE = ("", "pci-stub")  # nobody drives the function: the group can be opened
_BRIDGE = "06"  # a class


class Group:
    """The devices that one IOMMU mapping holds for."""

    def __init__(self, look: Look, path: str) -> None:
        """Raises Unusable where it cannot be read."""
        names = sorted(look.names(f"{path}/devices"), key=lambda name: (len(name), name))
        found = {name: pci.by_address(look).get(name) for name in names}
        members = [one for one in found.values() if one is not None]
        self.path = path
        self.members = [one for one in members if not one.value("class").startswith(_BRIDGE)]
        self.strangers = [name for name, one in found.items() if one is None]

    @property
    def id(self) -> str:
        return f"vfio-{self.members[0].id}"

    @property
    def problem(self) -> str:
        """Why no virtual machine can have it; empty if one can."""
        for name in self.strangers:
            return f"{shown(name)} is in its IOMMU group and is no PCI function"
        for one in self.members:
            if one.value("driver") not in _IDLE and (why := _held_back(one)):
                return f"{one.name}, which is in its IOMMU group, {why}"
        return ""


def _held_back(function: Function) -> str:
    """Whom a function is bound to if that is not VFIO; empty if it is."""
    driver = function.value("driver")
    if _DRIVER.fullmatch(driver):
        return ""
    return f"is bound to {shown(driver) if driver else 'no driver'}, not to vfio-pci"


def find(look: Look, selector: Selector, wanted: Pci) -> Found:
    """Every IOMMU group with a function that is what is wanted."""
    return match.sift(_matches(look, selector, wanted), selector)


def _matches(look: Look, selector: Selector, wanted: Pci) -> Iterator[Match | Lost]:
    seen = set()
    for function in pci.matching(look, wanted):
        path = function.linked("iommu_group")
        if function.value("class").startswith(_BRIDGE):
            yield Lost(f"vfio-{function.id}", "it is a bridge, which stays with the host")
        elif not path:
            yield Lost(f"vfio-{function.id}", "it is in no IOMMU group: is the IOMMU switched on?")
        elif why := _held_back(function):
            yield Lost(f"vfio-{function.id}", f"it {why}")
        elif path not in seen:
            seen.add(path)
            yield _match(look, selector, function, path)


def _match(look: Look, selector: Selector, function: Function, path: str) -> Match | Lost:
    try:
        group = Group(look, path)
    except Unusable as why:
        return Lost(f"vfio-{function.id}", f"its IOMMU group {why}")
    if function not in group.members:
        return Lost(f"vfio-{function.id}", "its IOMMU group does not list it")
    addresses = ",".join(one.name for one in group.members)
    attributes = {**function.attributes(), "addresses": addresses}
    return Match(group.id, attributes, partial(_candidate, selector, group, attributes))


def _candidate(selector: Selector, group: Group, attributes: Mapping[str, Attribute]) -> Candidate:
    look = group.members[0].look
    there = list(_nodes(look, group))
    handed = nodes.hand_over(look, selector, there, there)
    lacking = "" if there or selector.nodes else "it has no vfio node"
    problem = group.problem or lacking
    return nodes.candidate(
        group.id, selector, attributes, handed, hardware=group.members, problem=problem
    )


def _nodes(look: Look, group: Group) -> Iterator[sysfs.Node]:
    """The group's node, and that of each function where the kernel makes them."""
    number = group.path.rpartition("/")[2]
    yield from sysfs.nodes(sysfs.Device(look, f"/sys/devices/virtual/vfio/{number}"))
    for one in group.members:
        yield from (node for node in sysfs.nodes(one) if node.subsystem == "vfio-dev")
