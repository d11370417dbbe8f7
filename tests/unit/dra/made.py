"""Offers as a daemon makes them, and an API server that keeps slices in a dict."""

import copy
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from device_plugin.attribute import Attribute, Quantity, Version
from device_plugin.config import Partition, Resource
from device_plugin.device import Device
from device_plugin.dra.cluster import ApiError, Json
from device_plugin.dra.offer import Offer
from device_plugin.listing import Listed, Snapshot

DRIVER, NODE = "gpu.example.com", "node-a"
HALF = Partition("half", 2, {"memory": "40Gi"})
QUARTER = Partition("quarter", 4, {"memory": "20Gi"})


def gpu(
    id_: str,
    reason: str = "",
    replicas: int = 1,
    more: Mapping[str, Attribute] = MappingProxyType({}),
    **attributes: Attribute,
) -> Listed:
    """A device with 80Gi, and more if told."""
    about = {"memory": Quantity.parse("80Gi"), **attributes, **more}
    return Listed(Device(id_, replicas=replicas, attributes=about), reason)


def bare(*ids: str, reason: str = "") -> list[Listed]:
    return [Listed(Device(id_), reason) for id_ in ids]


def offer(
    *listed: Listed, name: str = "example.com/gpu", parts: tuple[Partition, ...] = ()
) -> Offer:
    resource = Resource(name, (), api="dra", partitions=parts)
    return Offer(resource, Snapshot(listed))


class Api:
    """A `Cluster` in memory, with troubles."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.stored: dict[str, Json] = {}
        self.events: list[tuple[int, str, Json]] = []
        self.version = 100
        self.forgotten = 0  # versions up to this one cannot be watched from
        self.calls: list[str] = []
        self.drops: set[str] = set()  # fields of devices and slices
        self.refuse: Callable[[str], ApiError | None] = lambda _: None
        self.uid = "uid-of-node"
        self.watches = 0

    # What a Cluster does

    def node_uid(self, name: str) -> str:
        self._call("node")
        return self.uid

    def slices(self, driver: str, node: str) -> tuple[list[Json], str]:
        self._call("list")
        with self.changed:
            return copy.deepcopy(list(self.stored.values())), str(self.version)

    def create(self, slice_: Json) -> Json:
        self._call("create")
        with self.changed:
            new = copy.deepcopy(slice_)
            base = new["metadata"].pop("generateName")[:58]
            return self._store(f"{base}{self.version:05d}", new, "ADDED")

    def replace(self, slice_: Json) -> Json:
        self._call("replace")
        with self.changed:
            name = slice_["metadata"]["name"]
            old = self.stored.get(name)
            if old is None:
                raise ApiError("not found", 404)
            if old["metadata"]["resourceVersion"] != slice_["metadata"]["resourceVersion"]:
                raise ApiError("the object has been modified", 409)
            return self._store(name, copy.deepcopy(slice_), "MODIFIED")

    def delete(self, name: str) -> None:
        self._call("delete")
        self.remove(name)

    def watch(self, driver: str, node: str, resource_version: str) -> "Watching":
        self._call("watch")
        return Watching(self, int(resource_version))

    def claim(self, namespace: str, name: str) -> Json:
        raise NotImplementedError

    def close(self) -> None:
        pass

    # What others do

    def remove(self, *names: str) -> None:
        """These, or all."""
        with self.changed:
            for name in names or [*self.stored]:
                if (gone := self.stored.pop(name, None)) is not None:
                    self._event("DELETED", gone)

    def edit(self, name: str, change: Callable[[Json], object]) -> None:
        with self.changed:
            new = copy.deepcopy(self.stored[name])
            change(new)
            self._store(name, new, "MODIFIED")

    # What tests ask

    def specs(self) -> list[Json]:
        """In the order of their names."""
        with self.changed:
            return [self.stored[name]["spec"] for name in sorted(self.stored)]

    def devices(self) -> list[str]:
        return [one["name"] for spec in self.specs() for one in spec.get("devices", ())]

    def writes(self) -> list[str]:
        return [call for call in self.calls if call in {"create", "replace", "delete"}]

    def _call(self, what: str) -> None:
        self.calls.append(what)
        if (error := self.refuse(what)) is not None:
            raise error

    def _store(self, name: str, slice_: Json, kind: str) -> Json:
        slice_["metadata"] |= {"name": name, "resourceVersion": str(self.version + 1)}
        for field in self.drops:
            slice_["spec"].pop(field, None)
            for device in slice_["spec"].get("devices", ()):
                device.pop(field, None)
        self.stored[name] = slice_
        self._event(kind, slice_)
        return copy.deepcopy(slice_)

    def _event(self, kind: str, slice_: Json) -> None:
        self.version += 1
        event = copy.deepcopy(slice_)
        event["metadata"]["resourceVersion"] = str(self.version)
        self.events.append((self.version, kind, event))
        self.changed.notify_all()


class Watching:
    """A `Watch` of it."""

    def __init__(self, api: Api, since: int) -> None:
        self._api, self._since, self._stopped = api, since, False

    def __iter__(self) -> Iterator[tuple[str, Json]]:
        if self._since < self._api.forgotten:
            raise ApiError("too old resource version", 410)
        self._api.watches += 1
        yield "BOOKMARK", {"metadata": {"name": "", "resourceVersion": str(self._since)}}
        while True:
            with self._api.changed:
                while not (new := [e for e in self._api.events if e[0] > self._since]):
                    if self._stopped:
                        return
                    self._api.changed.wait(10)
            for version, kind, one in new:
                self._since = version
                yield kind, one

    def stop(self) -> None:
        self._stopped = True
        with self._api.changed:
            self._api.changed.notify_all()


def wait_for(what: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.005)


def version(text: str) -> Version:
    return Version.parse(text)
