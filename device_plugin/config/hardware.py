"""Rules of `usb`, `pci`, `vfio` and `gpu`: what they select by, and which nodes they hand over."""

from collections.abc import Callable, Iterator, Mapping

from device_plugin.attribute import Attribute
from device_plugin.config import names, nodes, requirements
from device_plugin.config.decode import known
from device_plugin.config.nodes import NODE, Handed, Selected
from device_plugin.config.placeholders import Offer
from device_plugin.config.problem import Report, Where, listed
from device_plugin.config.types import NodeOf, Pci, Selector, Usb

_TEXT, _NUMBER = "text", "0"  # what an attribute may be, to see what it can be compared with
_ID, _CLASS = (4,), (2, 4, 6)  # digits

_Rule = Callable[[str], str | None]
_USB: Mapping[str, _Rule] = {
    "vendor": lambda text: names.hexadecimal(text, _ID),
    "product": lambda text: names.hexadecimal(text, _ID),
    "serial": names.glob,
    "port": names.port,
    "class": lambda text: names.hexadecimal(text, _CLASS),
}
_PCI: Mapping[str, _Rule] = {
    "vendor": lambda text: names.hexadecimal(text, _ID),
    "device": lambda text: names.hexadecimal(text, _ID),
    "class": lambda text: names.hexadecimal(text, _CLASS),
    "subsystem_vendor": lambda text: names.hexadecimal(text, _ID),
    "subsystem_device": lambda text: names.hexadecimal(text, _ID),
    "driver": names.glob,
    "address": names.address,
}
_PCI_ATTRIBUTES: Mapping[str, Attribute] = {
    **dict.fromkeys((*_PCI, "pcie_root", "physical_function"), _TEXT),
    "iommu_group": _NUMBER,
    "numa": 0,
}
# What the devices of a kind say about themselves, as far as there is something to say.
ATTRIBUTES: Mapping[str, Mapping[str, Attribute]] = {
    "usb": {
        **dict.fromkeys((*_USB, "manufacturer_name", "product_name", "pcie_root"), _TEXT),
        "numa": 0,
    },
    "pci": _PCI_ATTRIBUTES,
    "vfio": {**_PCI_ATTRIBUTES, "addresses": _TEXT},
    "gpu": _PCI_ATTRIBUTES,
}


def check(selector: Selector, kind: str, where: Where, report: Report) -> Selected | None:
    """Report everything; None if nothing follows from it."""
    chosen = getattr(selector, kind)
    if isinstance(chosen, Usb | Pci):
        _fields(chosen, (*where, kind), report)
    there = ATTRIBUTES[kind]
    requirements.check(selector, where, report, there)
    offer = Offer(where, NODE.union(nodes.attributes(there)))
    handed = list(_nodes(selector, where, report, offer))
    # Where `nodes` does not say, what is found decides.
    handed = handed or [Handed((*where, kind), None, None)]
    handed += nodes.companions(selector, (), where, report, offer)
    nodes.once(handed, report)
    if not known(chosen):
        return None
    offer = offer._replace(names=offer.names | {"path"})
    return Selected(where, _several(chosen), selector.replicas != 1, offer, tuple(handed))


def _fields(chosen: Usb | Pci, where: Where, report: Report) -> None:
    rules = _USB if isinstance(chosen, Usb) else _PCI
    for key, rule in rules.items():
        value = _value(chosen, key)
        if value is None or not known(value):
            continue
        if message := rule(value) if value else f"`{key}` is empty; remove it":
            report.at((*where, key), message)
    if not report.inside(where) and all(_value(chosen, key) is None for key in rules):
        message = f"`{where[-1]}` is empty; give at least one of {listed([*rules])}"
        report.at(where, message)


def _value(chosen: Usb | Pci, key: str) -> str | None:
    value: str | None = getattr(chosen, "class_" if key == "class" else key)
    return value


def _several(chosen: object) -> bool:
    """Only a place has no more than one device, and a serial number if it is worth its name."""
    match chosen:
        case Usb(port=one, serial=other):
            literal = [text for text in (one, other) if text is not None]
        case Pci(address=one):
            literal = [text for text in (one,) if text is not None]
        case _:
            literal = []
    return all(names.is_glob(text) for text in literal if known(text))


def _nodes(selector: Selector, where: Where, report: Report, offer: Offer) -> Iterator[Handed]:
    taken: dict[str, Where] = {}  # by subsystem: the item that takes all nodes that are left
    if known(selector.nodes) and not selector.nodes and report.has((*where, "nodes")):
        report.at((*where, "nodes"), "`nodes` is empty; remove it to hand over all nodes")
    for index, node in enumerate(selector.nodes if known(selector.nodes) else ()):
        if not known(node):
            continue
        place = (*where, "nodes", index)
        nodes.permissions(node.permissions, (*place, "permissions"), report)
        if known(node.subsystem):
            _subsystem(node, place, report, taken)
        if node.name is not None and known(node.name) and (message := names.node(node.name)):
            report.at((*place, "name"), message)
        yield nodes.moved(node.to, Handed(place, None, None), (*place, "to"), report, offer)


def _subsystem(node: NodeOf, where: Where, report: Report, taken: dict[str, Where]) -> None:
    place = (*where, "subsystem")
    if message := names.subsystem(node.subsystem):
        report.at(place, message)
    if node.subsystem in taken:
        line = report.line(taken[node.subsystem])
        message = f"the item in {line} takes every `{node.subsystem}` node that is left"
        report.at(place, f"{message}; give it a `to` or a `name`, or put it last")
    elif node.to is None and node.name is None:
        taken[node.subsystem] = place
