"""An API server for DRA drivers: ResourceSlices, and the claims and Nodes that a test gives it."""

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from device_plugin.testing.apiserver.answers import Answers
from device_plugin.testing.apiserver.http import Http
from device_plugin.testing.apiserver.pools import Pool, pools_of
from device_plugin.testing.apiserver.refusals import JSON, Refusal
from device_plugin.testing.apiserver.store import CLAIMS, NODES, SLICES, Store, matching
from device_plugin.testing.apiserver.troubles import Request

_Value = TypeVar("_Value")
_WRITES = ("create", "update", "delete", "deletecollection")
TOKEN = "token-of-the-test"  # noqa: S105 - opens nothing


class ApiServer(Answers):
    """Serves `resource.k8s.io/v1` and Nodes over HTTP. As a context manager it starts at once.

    No one is kept out: `forbid` and its like say what is refused. Nothing is collected, scheduled
    or allocated either; a test puts claims in with their allocation.
    """

    def __init__(self, *nodes: str, release: str = "v1.37.2") -> None:
        super().__init__(Store(), release)
        self._http: Http | None = None
        self._port = 0
        for node in nodes:
            self.add_node(node)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.go_away()

    # --- life ---

    def start(self) -> None:
        """Listen; after `go_away`, at the same address and with what was there before."""
        if self._http is not None:
            raise RuntimeError("the API server is running already")
        self._http = Http(self._port, self)
        self._port = self._http.server_port

    def go_away(self) -> None:
        """Drop every connection and refuse new ones, until `start`."""
        http, self._http = self._http, None
        if http is not None:
            self.recover()
            self.cut_watches()
            http.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def kubeconfig(self, path: Path, token: str = TOKEN) -> Path:
        """Write a file for clients; JSON is YAML too."""
        named: list[tuple[str, JSON]] = [
            ("cluster", {"server": self.url}),
            ("user", {"token": token}),
            ("context", {"cluster": "test", "user": "test"}),
        ]
        config: JSON = {"apiVersion": "v1", "kind": "Config", "current-context": "test"}
        config |= {f"{what}s": [{"name": "test", what: value}] for what, value in named}
        path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        return path

    # --- objects ---

    def add_node(self, name: str) -> str:
        """Add a Node; returns its UID."""
        return str(self._store.create(NODES, {"metadata": {"name": name}})["metadata"]["uid"])

    def put_claim(self, claim: JSON) -> JSON:
        """Add a claim, or put a new one, with a UID of its own, in the place of the old one."""
        namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
        with self._store.condition:
            with contextlib.suppress(Refusal):
                self._store.delete(CLAIMS, name, namespace)
            return self._store.create(CLAIMS, claim, namespace)

    def change_claim(self, namespace: str, name: str, change: Callable[[JSON], object]) -> JSON:
        """Let a function change a claim; its UID stays."""
        with self._store.condition:
            claim = self._store.get(CLAIMS, name, namespace)
            change(claim)
            return self._store.update(CLAIMS, name, claim, namespace)

    def claim(self, namespace: str, name: str) -> JSON:
        """Return a claim; Refusal if there is none."""
        return self._store.get(CLAIMS, name, namespace)

    def delete_claim(self, namespace: str, name: str) -> None:
        self._store.delete(CLAIMS, name, namespace)

    def slices(self, driver: str = "", node: str = "") -> list[JSON]:
        """Return ResourceSlices by name, all or those of a driver or node."""
        return self._store.find(SLICES, wanted=matching(_selector(driver, node)))

    def pools(self, driver: str = "") -> dict[str, Pool]:
        """Return what the scheduler makes of the slices: pools by name."""
        return pools_of(self.slices(driver))

    def devices(self, driver: str = "") -> list[str]:
        """Return the names of devices that the scheduler may choose from, best first."""
        found = [pool.devices for pool in self.pools(driver).values() if not pool.problems]
        return [device["name"] for devices in found for device in devices]

    def put_slice(self, slice_: JSON) -> JSON:
        """Add a ResourceSlice, as another driver or an earlier life of one has left it."""
        return self._store.create(SLICES, slice_)

    def change_slice(self, name: str, change: Callable[[JSON], object]) -> JSON:
        """Let a function change a ResourceSlice, as somebody else with the right to."""
        with self._store.condition:
            found = self._store.get(SLICES, name)
            change(found)
            return self._store.update(SLICES, name, found)

    def delete_slices(self, driver: str = "", node: str = "") -> int:
        """Delete ResourceSlices, all or those of a driver or node; tells how many."""
        return len(self._store.delete_all(SLICES, matching(_selector(driver, node))))

    # --- what happened ---

    @property
    def requests(self) -> list[Request]:
        """Return every request for an object that was answered, or whose watch began."""
        with self._store.condition:
            return list(self._requests)

    @property
    def writes(self) -> list[Request]:
        """Return the requests that were to change something."""
        return [request for request in self.requests if request.verb in _WRITES]

    def wait_for(self, predicate: Callable[[Self], _Value], timeout: float = 5) -> _Value:
        """Wait until the predicate holds; it is looked at again at every change and request."""
        deadline = time.monotonic() + timeout
        with self._store.condition:
            while not (value := predicate(self)):
                if not self._store.condition.wait(deadline - time.monotonic()):
                    raise AssertionError(f"not so within {timeout:g} s; {self._dump()}")
        return value

    def _dump(self) -> str:
        requests = [
            f"{one.verb} {one.kind.plural} {one.name}: {one.code}" for one in self._requests
        ]
        return "\n  ".join(
            [
                "the API server's pools, and its last requests:",
                *map(str, self.pools().values()),
                *requests[-20:],
            ]
        )


def _selector(driver: str, node: str) -> str:
    terms = {"spec.driver": driver, "spec.nodeName": node}
    return ",".join(f"{path}={value}" for path, value in terms.items() if value)
