"""What the API server answers: one function for each verb, and the watches."""

import time
from collections.abc import Callable, Iterator, Sequence

from device_plugin.testing.apiserver.http import Call
from device_plugin.testing.apiserver.refusals import JSON, Refusal, bad_request
from device_plugin.testing.apiserver.store import Event, Store, matching
from device_plugin.testing.apiserver.troubles import Request, Troubles, Verb

_LOOK = 0.2  # seconds between looks whether who watches is still there


class Answers(Troubles):
    def __init__(self, store: Store, release: str) -> None:
        super().__init__(store)
        self._release = release
        self._requests: list[Request] = []
        self._cuts = 0  # how often the watches were cut
        self.serves_resources = True  # whether there is a resource.k8s.io/v1 at all
        self._answers: dict[Verb, Callable[[Call], JSON]] = {
            "get": self._get,
            "list": self._list,
            "watch": lambda _: {},  # what it tells comes from `watch`
            "create": self._create,
            "update": self._update,
            "delete": self._delete,
            "deletecollection": self._delete_all,
        }

    @property
    def version(self) -> JSON:
        major, minor = self._release.removeprefix("v").split(".")[:2]
        return {"major": major, "minor": minor, "gitVersion": self._release}

    def serves(self, group: str) -> bool:
        return not group or self.serves_resources

    def note(self, request: Request, code: int) -> None:
        with self._store.condition:
            request.code = code
            self._requests.append(request)
            self._store.condition.notify_all()

    def answer(self, call: Call) -> JSON:
        """Do what is asked, after the troubles that were asked for; Refusal if it cannot be."""
        self._suffer(call.request)
        return self._answers[call.request.verb](call)

    def _get(self, call: Call) -> JSON:
        request = call.request
        return self._store.get(request.kind, request.name, request.namespace)

    def _list(self, call: Call) -> JSON:
        request = call.request
        with self._store.condition:
            found = self._store.find(request.kind, request.namespace, _wanted(call))
            return self._listed(call, found)

    def _create(self, call: Call) -> JSON:
        request = call.request
        return self._store.create(request.kind, request.body or {}, request.namespace)

    def _delete(self, call: Call) -> JSON:
        request = call.request
        conditions = (request.body or {}).get("preconditions")
        return self._store.delete(request.kind, request.name, request.namespace, conditions)

    def _delete_all(self, call: Call) -> JSON:
        return self._listed(call, self._store.delete_all(call.request.kind, _wanted(call)))

    def _update(self, call: Call) -> JSON:
        request = call.request
        given = request.body or {}
        if call.part == "status":
            before = self._store.get(request.kind, request.name, request.namespace)
            given = before | {
                "status": given.get("status"),
                "metadata": given.get("metadata", {}),
            }
        return self._store.update(request.kind, request.name, given, request.namespace)

    def _listed(self, call: Call, items: Sequence[JSON]) -> JSON:
        for item in items:
            del item["kind"], item["apiVersion"]
        kind = call.request.kind
        return {
            "kind": f"{kind.kind}List",
            "apiVersion": kind.api_version,
            "metadata": {"resourceVersion": str(self._store.version)},
            "items": items,
        }

    def watch(self, call: Call, gone: Callable[[], bool]) -> Iterator[JSON]:
        """Begin a watch; its events come until the client goes, it is cut or its time is over."""
        wanted = _wanted(call)
        with self._store.condition:
            version = _since(call)
            known = []
            if not version:
                version = self._store.version
                known = self._store.find(call.request.kind, call.request.namespace, wanted)
            return self._events(call, known, version, self._cuts, gone)

    def _events(
        self, call: Call, known: Sequence[JSON], version: int, cuts: int, gone: Callable[[], bool]
    ) -> Iterator[JSON]:
        deadline = time.monotonic() + float(call.query.get("timeoutSeconds") or 3600)
        wanted = _wanted(call)
        yield from ({"type": "ADDED", "object": one} for one in known)
        while cuts == self._cuts and time.monotonic() < deadline and not gone():
            try:
                events = self._next_events(version, cuts)
            except Refusal as refusal:
                yield {"type": "ERROR", "object": refusal.status}
                return
            for event in events:
                version = event.version
                if event.kind is call.request.kind and wanted(event.object):
                    yield {"type": event.type, "object": event.object}

    def _next_events(self, version: int, cuts: int) -> list[Event]:
        with self._store.condition:
            self._store.condition.wait_for(
                lambda: self._store.version > version or cuts != self._cuts, _LOOK
            )
            return self._store.events_after(version) if cuts == self._cuts else []

    def cut_watches(self) -> None:
        """End all watches in good order, as a server does every few minutes."""
        with self._store.condition:
            self._cuts += 1
            self._store.condition.notify_all()

    def forget_events(self) -> None:
        """Cut the watches; who goes on from where it was is told that this is too old (410)."""
        with self._store.condition:
            self._store.forget_events()
            self.cut_watches()


def _wanted(call: Call) -> Callable[[JSON], bool]:
    return matching(call.query.get("fieldSelector", ""))


def _since(call: Call) -> int:
    text = call.query.get("resourceVersion") or "0"
    if not text.isdecimal():
        raise bad_request(f'invalid resource version "{text}"')
    return int(text)
