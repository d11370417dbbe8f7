"""Pools as consumers of ResourceSlices see them: the newest generation, if it is whole (C4)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from device_plugin.testing.apiserver.refusals import JSON


@dataclass(frozen=True, slots=True)
class Pool:
    name: str
    generation: int
    slices: tuple[JSON, ...]  # of that generation, by name
    devices: tuple[JSON, ...]  # in the order in which they are tried
    problems: tuple[str, ...]  # why no device of it would be allocated

    def __str__(self) -> str:
        names = ", ".join(device["name"] for device in self.devices)
        said = f"pool {self.name}, generation {self.generation}: [{names}]"
        return said + "".join(f"; {problem}" for problem in self.problems)


def pools_of(slices: Iterable[JSON]) -> dict[str, Pool]:
    """Sort slices of one driver into pools."""
    found: dict[str, list[JSON]] = {}
    for one in sorted(slices, key=lambda one: str(one["metadata"]["name"])):
        found.setdefault(one["spec"]["pool"]["name"], []).append(one)
    return {name: _pool(name, members) for name, members in sorted(found.items())}


def _pool(name: str, members: Sequence[JSON]) -> Pool:
    generation = max(one["spec"]["pool"]["generation"] for one in members)
    newest = [one for one in members if one["spec"]["pool"]["generation"] == generation]
    devices = [device for one in newest for device in one["spec"].get("devices", ())]
    problems = [*_count_problems(newest), *_name_problems(devices), *_counter_problems(newest)]
    return Pool(name, generation, tuple(newest), tuple(devices), tuple(problems))


def _count_problems(newest: Sequence[JSON]) -> Iterator[str]:
    counts = {one["spec"]["pool"]["resourceSliceCount"] for one in newest}
    if counts != {len(newest)}:
        yield f"{len(newest)} slices, of {' or '.join(map(str, sorted(counts)))}"


def _name_problems(devices: Sequence[JSON]) -> Iterator[str]:
    for name, times in Counter(device["name"] for device in devices).items():
        if times > 1:
            yield f"{times} devices are called {name}"


def _counter_problems(newest: Sequence[JSON]) -> Iterator[str]:
    sets = {
        one["name"]: one["counters"]
        for member in newest
        for one in member["spec"].get("sharedCounters", ())
    }
    for member in newest:
        for device in member["spec"].get("devices", ()):
            for consumed in device.get("consumesCounters", ()):
                missing = consumed["counters"].keys() - sets.get(consumed["counterSet"], {}).keys()
                for counter in sorted(missing):
                    yield f"{device['name']}: no counter {consumed['counterSet']}/{counter}"
