"""Which free devices go well together: `numa`, `pack` and `spread`. Pure functions.

Each is given the devices that have free IDs, in list order, and those that the container has
already, and picks `need` IDs, or what there is. The search is bounded: with very many ways to
choose, not all are tried.
"""

import heapq
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, combinations, islice
from operator import attrgetter
from typing import TypeVar

import msgspec

from device_plugin.device import Device

PCIE_ROOT = "pcie_root"  # the attribute that says below which root a device is
_WAYS = 4000  # to choose devices, roots or nodes, that are looked at: a few milliseconds
_PLACES = 300  # that are told apart
_COMPARED = 2000  # times that a place is looked at
_DEVICES = 10_000  # that are looked at in all regions together

_Label = TypeVar("_Label", int, str)
_Where = tuple[tuple[int, ...], str | None]  # NUMA nodes and PCIe root of a device
_Place = tuple[frozenset[int], frozenset[str]]  # the same, as sets


class Free(msgspec.Struct, frozen=True, gc=False):  # 10,000 of them would start the collector
    """A device with free IDs."""

    device: Device
    ids: Sequence[str]  # all that are free, in list order
    takes: int  # how many of them one container may take


def pack(free: Sequence[Free], held: Sequence[Device], need: int) -> list[str]:
    """As few devices as can be, and of these the ones that leave the least behind."""
    picked, others = _of_held(free, held)
    return picked + _ids(_fewest(others, need - len(picked), _WAYS))


def spread(free: Sequence[Free], held: Sequence[Device], need: int) -> list[str]:
    """Even shares: next comes the device of which this container has least and most is left."""
    taken = Counter(device.id for device in held)
    queue = [(taken[one.device.id], -len(one.ids), i) for i, one in enumerate(free)]
    heapq.heapify(queue)
    picked: list[str] = []
    while queue and len(picked) < need:
        count, left, i = heapq.heappop(queue)
        ids = free[i].ids
        picked.append(ids[left])  # the first of those left
        if len(ids) + left + 1 < free[i].takes:
            heapq.heappush(queue, (count + 1, left + 1, i))
    return picked


def numa(free: Sequence[Free], held: Sequence[Device], need: int) -> list[str]:
    """As few NUMA nodes as can be, of these as few PCIe roots, and of these devices as `pack`.

    Between equals the roots, then the nodes with the least room are taken: larger ones stay whole.
    What has no known node or root adds none, but a choice counts as at least one.
    """
    picked, others = _of_held(free, held)
    need -= len(picked)
    if need <= 0 or not others:
        return picked
    places = _by_place(others)
    regions = _regions(places, _union(held), need)
    if len({len(one.ids) for one in others}) == 1:  # then as many are needed in each
        del regions[1:]
    ways = _WAYS // len(regions)
    best: list[Free] = []
    seen = 0
    for region in regions:
        inside = [one for place, ones in places.items() if _lies_in(place, region) for one in ones]
        seen += len(inside)
        if best and seen > _DEVICES:
            break
        found = _fewest(inside, need, ways)
        if not best or (len(found), _room(found)) < (len(best), _room(best)):
            best = found
    return picked + _ids(best)


ORDERS: Mapping[str, Callable[[Sequence[Free], Sequence[Device], int], list[str]]] = {
    "numa": numa,
    "pack": pack,
    "spread": spread,
}


def reasons(order: str, devices: Iterable[Device]) -> list[str]:
    """Where a container's devices are, if that is why `order` chose them; empty if not known."""
    if order != "numa":
        return []
    chosen = list({device.id: device for device in devices}.values())
    nodes, roots = _union(chosen)
    known = sum(1 for device in chosen if device.numa_nodes)
    said = []
    if nodes:
        devices_there = f"{known} device{'s' if known > 1 else ''}"
        said.append(f"{devices_there} on {_named('node', [str(node) for node in sorted(nodes)])}")
    if len(roots) == 1:
        said.append(f"one PCIe root {min(roots)}")
    elif roots:
        said.append(_named("PCIe root", sorted(roots)))
    return said


def _named(what: str, names: list[str]) -> str:
    return f"{what} {names[0]}" if len(names) == 1 else f"{len(names)} {what}s ({', '.join(names)})"


def _of_held(free: Iterable[Free], held: Iterable[Device]) -> tuple[list[str], list[Free]]:
    """What is free of devices that the container has already, and the other devices."""
    has = {device.id for device in held}
    if not has:
        return [], list(free)
    picked = [id_ for one in free if one.device.id in has for id_ in one.ids]
    return picked, [one for one in free if one.device.id not in has]


def _regions(places: Mapping[_Place, list[Free]], held: _Place, need: int) -> list[_Place]:
    """Fewest nodes, then roots, in which `need` IDs are free; those with the least room first."""
    takes: dict[frozenset[int], dict[frozenset[str], int]] = {}
    for (nodes, roots), ones in places.items():
        takes.setdefault(nodes, {})[roots] = _taken(ones)
    rooms = [(place, _room(ones)) for place, ones in places.items()]
    node_room = _by_label((nodes, room) for (nodes, _), room in rooms)
    root_room = _by_label((roots, room) for (_, roots), room in rooms)
    on_nodes = {nodes: sum(by_root.values()) for nodes, by_root in takes.items()}
    node_sets = _smallest(on_nodes, held[0], need, _WAYS)
    node_sets.sort(key=lambda nodes: sum(node_room[node] for node in nodes))
    compared = max(1, _COMPARED // len(places))
    node_sets = node_sets[:compared]
    regions = []
    for nodes in node_sets:
        inside: Counter[frozenset[str]] = Counter()
        for its, by_root in takes.items():
            for roots, count in by_root.items() if its <= nodes else ():
                inside[roots] += count
        root_sets = _smallest(inside, held[1], need, _WAYS // len(node_sets))
        regions += [(nodes, roots) for roots in root_sets]
    fewest = min(max(1, len(roots)) for _, roots in regions)
    regions = [region for region in regions if max(1, len(region[1])) == fewest]
    # Stable: where the roots have the same room, the nodes with the least are still first.
    regions.sort(key=lambda region: sum(root_room[root] for root in region[1]))
    return regions[:compared]


def _smallest(
    takes: Mapping[frozenset[_Label], int], held: frozenset[_Label], need: int, ways: int
) -> list[frozenset[_Label]]:
    """The smallest sets of nodes or roots, `held` among them, in which `need` can be taken.

    Without any, what needs none is as good as what needs one.
    """
    more = [(labels - held, count) for labels, count in takes.items()]
    anyway = sum(count for labels, count in more if not labels)
    shared = [(labels, count) for labels, count in more if len(labels) > 1]  # by one device
    alone = _by_label((labels, count) for labels, count in more if len(labels) == 1)
    at_most = _by_label(more)
    order = sorted(at_most, key=lambda label: (-at_most[label], label))
    bounds = accumulate((at_most[label] for label in order), initial=anyway)
    found: list[frozenset[_Label]] = []
    for size, bound in enumerate(bounds):
        if bound < need:
            continue
        tries = max(1, ways // (1 + size + len(shared)))
        for way in map(frozenset, islice(combinations(order, size), tries)):
            taken = anyway + sum(alone[label] for label in way)
            taken += sum(count for labels, count in shared if labels <= way)
            if taken >= need:
                found.append(held | way)
        if found and (size or held):
            break
    return found or [held.union(order)]


def _by_label(counts: Iterable[tuple[frozenset[_Label], int]]) -> Counter[_Label]:
    total: Counter[_Label] = Counter()
    for labels, count in counts:
        for label in labels:
            total[label] += count
    return total


def _fewest(free: Iterable[Free], need: int, ways: int) -> list[Free]:
    """As few devices as have `need` IDs together, and of these the ones with the least room.

    With more `ways` to choose than that not all are tried; the last device then still fits best.
    """
    if need <= 0:
        return []
    by_room = sorted(free, key=lambda one: len(one.ids))
    by_room.sort(key=_TAKES, reverse=True)
    totals = list(accumulate(map(_TAKES, by_room), initial=0))
    count = bisect_left(totals, need)
    if count == len(totals):
        return by_room
    rest = need - totals[count - 1]
    fitting = (one for one in by_room[count - 1 :] if one.takes >= rest)
    last = min(fitting, key=lambda one: len(one.ids))
    best = [*by_room[: count - 1], last]
    if last.takes > rest and by_room[-1].takes < by_room[0].takes:
        others = map(list, islice(combinations(by_room, count), ways // count))
        best = min([best, *(way for way in others if _taken(way) >= need)], key=_room)
    return best


_TAKES = attrgetter("takes")


def _taken(free: Iterable[Free]) -> int:
    return sum(map(_TAKES, free))


def _room(free: Iterable[Free]) -> int:
    return sum(len(one.ids) for one in free)


def _ids(free: Iterable[Free]) -> list[str]:
    return [id_ for one in free for id_ in one.ids[: one.takes]]


def _by_place(free: list[Free]) -> dict[_Place, list[Free]]:
    """With more places than there is time to compare roots, then nodes, count as not known."""
    alike = _alike(free, _where) or _alike(free, lambda device: (device.numa_nodes, None))
    places: dict[_Place, list[Free]] = {}
    for where, ones in (alike or {((), None): free}).items():
        places.setdefault(_place(*where), []).extend(ones)
    return places


def _alike(free: list[Free], where: Callable[[Device], _Where]) -> dict[_Where, list[Free]]:
    """Nothing if there are too many places."""
    alike: dict[_Where, list[Free]] = {}
    for one in free:
        alike.setdefault(where(one.device), []).append(one)
        if len(alike) > _PLACES:
            return {}
    return alike


def _where(device: Device) -> _Where:
    root = device.attributes.get(PCIE_ROOT)
    return device.numa_nodes, root if isinstance(root, str) else None


def _place(nodes: tuple[int, ...], root: str | None) -> _Place:
    return frozenset(nodes), frozenset(() if root is None else (root,))


def _union(devices: Iterable[Device]) -> _Place:
    places = [_place(*where) for where in {_where(device) for device in devices}]
    nodes = frozenset(node for nodes, _ in places for node in nodes)
    return nodes, frozenset(root for _, roots in places for root in roots)


def _lies_in(place: _Place, region: _Place) -> bool:
    return place[0] <= region[0] and place[1] <= region[1]
