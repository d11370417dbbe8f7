"""`virtual`: devices that consist of nothing but their number."""

from functools import lru_cache

from device_plugin.config import Virtual
from device_plugin.device import Candidate, Device, Found, device_id


def find(virtual: Virtual, replicas: int, resource: str, before: int) -> Found:
    """`before` counts the resource's earlier `virtual` selectors: it keeps the names apart."""
    attributes = virtual.attributes | virtual.capacity
    typed = tuple((name, type(value), value) for name, value in attributes.items())
    return _find(virtual.count, typed, replicas, resource, before)


@lru_cache(maxsize=64)  # they never change, and each look asks again
def _find(
    count: int,
    attributes: tuple[tuple[str, type, str | int | bool], ...],  # the cache takes 1 for true
    replicas: int,
    resource: str,
    before: int,
) -> Found:
    name = resource.rpartition("/")[2]
    series = f"{before}-" if before else ""
    return Found(
        tuple(
            Candidate(
                Device(
                    # The domain is part of the identity, but not of what is read.
                    id=device_id(f"{name}/{series}{index}", f"{resource}/{series}{index}"),
                    replicas=replicas,
                    attributes={name: value for name, _, value in attributes},
                )
            )
            for index in range(count)
        )
    )
