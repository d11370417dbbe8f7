"""`pci`: functions of PCI devices, by what they say about themselves; they are their addresses."""

from collections.abc import Iterator, Mapping
from functools import partial

from device_plugin.attribute import Attribute
from device_plugin.config import Pci, Selector
from device_plugin.device import Candidate, Found
from device_plugin.discovery import match, nodes, nvidia, sysfs
from device_plugin.discovery.match import Match
from device_plugin.host import Look

_KEYS = ("vendor", "device", "class", "subsystem_vendor", "subsystem_device", "driver", "address")
_DIGITS = {"class": 6}  # the other numbers have four


class Function(sysfs.Device):
    """A function of a PCI device."""

    __slots__ = ()

    @property
    def id(self) -> str:
        """Its address as part of a device ID."""
        return self.name.replace(":", "-").replace(".", "-")

    def value(self, key: str) -> str:
        """What a selector asks for; empty where the function does not say."""
        match key:
            case "driver":
                return self.named("driver")
            case "address":
                return self.name
        return self.number(key, _DIGITS.get(key, 4))

    def attributes(self) -> dict[str, Attribute]:
        return match.said_by(
            self,
            {
                **{key: self.value(key) for key in _KEYS},
                "physical_function": self.named("physfn"),
                "iommu_group": self.named("iommu_group"),
            },
        )


def functions(look: Look) -> list[Function]:
    """Every PCI function, bridges among them, by address."""
    return sysfs.devices(look, "pci", Function)


def by_address(look: Look) -> dict[str, Function]:
    """The same by their names."""
    return look.once("pci", lambda: {one.name: one for one in functions(look)})


def matching(look: Look, wanted: Pci) -> list[Function]:
    """The functions that are what is wanted."""
    asked = match.asked(wanted)
    found = [one for one in functions(look) if not match.differs(asked, one.value)]
    return [one for one in found if one.value("vendor")]  # else it has just gone


def find(look: Look, selector: Selector, wanted: Pci) -> Found:
    """Each function that is what is wanted, as a candidate."""
    return match.sift(matches(look, selector, wanted), selector)


def matches(look: Look, selector: Selector, wanted: Pci) -> Iterator[Match]:
    """The same before `where`."""
    return (_match(selector, function) for function in matching(look, wanted))


def _match(selector: Selector, function: Function) -> Match:
    there = function.attributes()
    make = partial(_candidate, selector, function, there)
    return Match(f"pci-{function.id}", there, make)


def _candidate(
    selector: Selector, function: Function, attributes: Mapping[str, Attribute]
) -> Candidate:
    driver = function.value("driver")
    there, hint = sysfs.nodes(function), "" if driver else "no driver is bound to it"
    if driver == nvidia.DRIVER:
        node, hint = nvidia.node(function)
        there = [*node, *there]
    handed = nodes.hand_over(function.look, selector, there, there, hint=hint)
    return nodes.candidate(f"pci-{function.id}", selector, attributes, handed, hardware=[function])
