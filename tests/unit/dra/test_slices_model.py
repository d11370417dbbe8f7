"""Whoever reads the slices at any moment sees what was offered once, or an unfinished pool.

Offers that change, slices that others delete and processes that die between two writes, in any
order.
"""

import copy
from collections.abc import Callable
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from device_plugin.dra.cluster import Json
from device_plugin.dra.pool import Plan, Pool, plan
from tests.unit.dra.made import DRIVER, NODE, Api

POOL = Pool(DRIVER, NODE, "uid-of-node")

# Of a slice only its device counts here: "b" is another than "a".
contents = st.lists(st.sampled_from("abc"), min_size=1, max_size=4)
# How many writes a process lives for, and which slices are deleted by others after it.
life = st.tuples(contents, st.integers(0, 9), st.lists(st.integers(0, 4), max_size=2))


def slices_of(letters: list[str]) -> list[Json]:
    return [
        {"devices": [{"name": f"{letter}{n}", "attributes": {}}]}
        for n, letter in enumerate(letters)
    ]


def seen(api: Api) -> list[str] | None:
    """The devices of the pool, or None if it is not finished."""
    specs = api.specs()
    newest = max((spec["pool"]["generation"] for spec in specs), default=0)
    current = [spec for spec in specs if spec["pool"]["generation"] == newest]
    if not current or any(spec["pool"]["resourceSliceCount"] != len(current) for spec in current):
        return None
    return [device["name"] for spec in current for device in spec["devices"]]


def live(api: Api, wanted: list[Json], writes: int, allowed: list[list[str]]) -> bool:
    """Write so often at most; returns whether all was written."""
    todo = plan(copy.deepcopy(list(api.stored.values())), wanted, POOL)
    steps: list[Callable[[], object]] = [partial(api.delete, one) for one in todo.delete]
    steps += [partial(api.replace, one) for one in todo.replace]
    steps += [partial(api.create, one) for one in todo.create]
    for write in steps[:writes]:
        write()
        assert seen(api) in (None, *allowed)
    return len(steps) <= writes


@given(st.lists(life, min_size=1, max_size=6))
def test_readers_never_see_a_mixture(lives):
    api, allowed = Api(), []
    for letters, writes, deleted in lives:
        wanted = slices_of(letters)
        allowed.append([one["devices"][0]["name"] for one in wanted])
        if live(api, wanted, writes, allowed):
            assert seen(api) == allowed[-1]
            assert plan(list(api.stored.values()), wanted, POOL) == Plan()
        for index in deleted:
            if index < len(api.stored):
                api.remove(sorted(api.stored)[index])
    last = slices_of(lives[-1][0])
    assert live(api, last, 100, allowed)
    assert seen(api) == allowed[-1]
