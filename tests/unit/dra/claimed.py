"""A node whose claims are prepared: devices, an API server that has only claims, folders."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from device_plugin.config import Container, Resource
from device_plugin.device import Device, Node
from device_plugin.dra.allocated import ClaimRef
from device_plugin.dra.checkpoint import Prepared, held
from device_plugin.dra.claims import Claims
from device_plugin.dra.cluster import ApiError, Json
from device_plugin.dra.offer import Offer
from device_plugin.listing import Listed, Snapshot
from tests.unit.conftest import Tree
from tests.unit.dra.made import Api

DRIVER, POOL = "gpu.example.com", "node-a"
GPU = "example.com/gpu"


def stick(id_: str, path: str = "", **more: Any) -> Listed:
    """A device with a node."""
    reason, present = more.pop("reason", ""), more.pop("present", True)
    return Listed(Device(id_, (Node(path or f"/dev/{id_}"),), **more), reason, present)


def result(device: str, request: str = "gpu", **more: Any) -> Json:
    """One device as the scheduler writes it into a claim."""
    return {"request": request, "driver": DRIVER, "pool": POOL, "device": device, **more}


def parameters(source: str = "FromClaim", *requests: str, **fields: Any) -> Json:
    """Parameters of a class or a claim, and the requests that they are for."""
    content = {"apiVersion": f"{DRIVER}/v1", "kind": "Container", **fields}
    opaque = {"driver": DRIVER, "parameters": content}
    return {"source": source, "requests": list(requests), "opaque": opaque}


class ClaimApi(Api):
    """The API server, as far as claims go."""

    def __init__(self) -> None:
        super().__init__()
        self.claims: dict[tuple[str, str], Json] = {}
        self.before_answer: Callable[[], object] = lambda: None

    def claim(self, namespace: str, name: str) -> Json:
        self._call("claim")
        self.before_answer()
        try:
            return self.claims[namespace, name]
        except KeyError:
            raise ApiError("not found", 404) from None

    def allocate(self, name: str, *results: Json, uid: str = "", config: Any = ()) -> ClaimRef:
        """Put a claim there; its UID is UID-NAME unless told."""
        ref = ClaimRef("team", name, uid or f"uid-{name}")
        devices: Json = {"results": list(results), "config": list(config)}
        self.claims["team", name] = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"namespace": "team", "name": name, "uid": ref.uid},
            "spec": {},
            "status": {"allocation": {"devices": devices}, "reservedFor": [{"uid": "p"}]},
        }
        return ref


class ClaimNode:
    """One node, over restarts of the plugin."""

    def __init__(self, tree: Tree) -> None:
        self.tree, self.api = tree, ClaimApi()
        self.state, self.cdi = tree.at(tree.folder("/state")), tree.at(tree.folder("/cdi"))
        self.offers: list[Offer] = []
        self.changes = 0
        self.handed_out: set[str] = set()  # by the device plugin
        self.restart()

    def restart(self) -> Claims:
        self.claims = Claims(
            offers=lambda: self.offers,
            cluster=self.api,
            driver=DRIVER,
            pool=POOL,
            state_dir=self.state,
            cdi_dir=self.cdi,
            host=self.tree.host,
            handed_out=lambda device: device in self.handed_out,
            changed=self._changed,
        )
        return self.claims

    def offer(self, *listed: Listed, name: str = GPU, **more: Any) -> None:
        """Offer these devices, by what the container gets; their nodes are made."""
        for node in (node for one in listed for node in one.device.nodes):
            if not self.tree.at(node.host_path).exists():
                self.tree.node(node.host_path)
        container = Container(env=more.pop("env", {}), mounts=more.pop("mounts", ()))
        resource = Resource(name, (), api="dra", container=container, **more)
        kept = [one for one in self.offers if one.resource.name != name]
        self.offers = [*kept, Offer(resource, Snapshot(listed))]

    def prepare(self, ref: ClaimRef) -> Prepared | str:
        return self.claims.prepare([ref])[ref.uid]

    def prepared(self, name: str, *results: Json, **more: Any) -> Prepared:
        answer = self.prepare(self.api.allocate(name, *results, **more))
        assert isinstance(answer, Prepared), answer
        return answer

    def refused(self, name: str, *results: Json, **more: Any) -> str:
        """Why; and nothing is left of it."""
        ref = self.api.allocate(name, *results, **more)
        known = ref.uid in [one.uid for one in self.claims.prepared]
        answer = self.prepare(ref)
        assert isinstance(answer, str), answer
        assert known or not (self.cdi / f"device-plugin-claim-{ref.uid}.json").exists()
        assert known or ref.uid not in [one.uid for one in self.claims.prepared]
        return answer

    def held(self) -> dict[str, str]:
        """The devices that claims have, and the resource of each."""
        return held(self.claims.prepared)

    def unprepare(self, ref: ClaimRef) -> str:
        return self.claims.unprepare([ref])[ref.uid]

    def spec(self, name: str) -> Json:
        """The CDI edits of a claim by request; nothing if it has no file."""
        path = self.cdi / f"device-plugin-claim-uid-{name}.json"
        if not path.exists():
            return {}
        spec = json.loads(path.read_text())
        assert spec["cdiVersion"] == "0.5.0"
        assert spec["kind"] == f"{DRIVER}/claim"
        prefix = f"uid-{name}-"
        return {one["name"].removeprefix(prefix): one["containerEdits"] for one in spec["devices"]}

    def files(self) -> list[str]:
        return sorted(path.name for path in self.cdi.iterdir())

    def _changed(self) -> None:
        self.changes += 1


def full(node: ClaimNode) -> str:
    """Why nothing is given or taken back where there is no room to note it."""
    return (
        f"cannot note it in {node.state}: No space left on device: make room there, or mount it"
        " writable; this is tried again"
    )


def reboot(monkeypatch: pytest.MonkeyPatch, node: ClaimNode) -> Claims:
    """Start the node anew: what is in /var/run is gone."""
    for path in node.cdi.iterdir():
        path.unlink()
    node.cdi.rmdir()
    monkeypatch.setattr(node.restart(), "_boot", "another")
    return node.claims
