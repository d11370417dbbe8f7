"""`virtual`: devices that consist of nothing but their number."""

from device_plugin.config import Virtual
from device_plugin.device import Candidate, Device, Found, device_id


def find(virtual: Virtual, replicas: int, resource: str, before: int) -> Found:
    """`before` counts the resource's earlier `virtual` selectors: it keeps the names apart."""
    attributes = {**virtual.attributes, **virtual.capacity}
    series = f"{before}-" if before else ""
    name = resource.rpartition("/")[2]
    return Found(
        tuple(
            Candidate(
                Device(
                    # The domain of the resource is part of the identity but not of what is read.
                    id=device_id(f"{name}/{series}{index}", f"{resource}/{series}{index}"),
                    replicas=replicas,
                    attributes=attributes,
                )
            )
            for index in range(virtual.count)
        )
    )
