"""What the API server keeps, and the news of it: the part that etcd has in a real one."""

import copy
import random
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from device_plugin.testing.apiserver.gates import OFF, Gate, drop
from device_plugin.testing.apiserver.refusals import (
    JSON,
    Kind,
    Mistake,
    Refusal,
    already_exists,
    bad_request,
    conflict,
    expired,
    invalid,
    not_found,
)
from device_plugin.testing.apiserver.rules import mistakes_of
from device_plugin.testing.apiserver.shape import shaped

SLICES = Kind("resource.k8s.io", "resourceslices", "ResourceSlice")
CLAIMS = Kind("resource.k8s.io", "resourceclaims", "ResourceClaim", namespaced=True)
NODES = Kind("", "nodes", "Node")
KINDS = (SLICES, CLAIMS, NODES)

_MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_BASE = 58  # of a name that the server completes: what is longer is cut
_Key = tuple[str, str, str]  # plural, namespace, name


@dataclass(frozen=True, slots=True)
class Event:
    version: int
    type: Literal["ADDED", "MODIFIED", "DELETED"]
    kind: Kind
    object: JSON


class Store:
    """Objects of all kinds; every change has a number and wakes the waiters.

    What is handed in and out is copied.
    """

    def __init__(self) -> None:
        self.condition = threading.Condition()  # over a re-entrant lock
        self.version = 1
        self.disabled: frozenset[Gate] = OFF
        self._oldest = 1  # events up to here are forgotten
        self._objects: dict[_Key, JSON] = {}
        self._events: list[Event] = []

    # --- reading ---

    def get(self, kind: Kind, name: str, namespace: str = "") -> JSON:
        with self.condition:
            found = self._objects.get((kind.plural, namespace, name))
            if found is None:
                raise not_found(kind, name)
            return copy.deepcopy(found)

    def find(
        self, kind: Kind, namespace: str = "", wanted: Callable[[JSON], bool] = lambda _: True
    ) -> list[JSON]:
        with self.condition:
            return [
                copy.deepcopy(one)
                for (plural, place, _), one in sorted(self._objects.items())
                if plural == kind.plural and namespace in ("", place) and wanted(one)
            ]

    def events_after(self, version: int) -> list[Event]:
        with self.condition:
            if version < self._oldest:
                raise expired(version, self._oldest)
            return [event for event in self._events if event.version > version]

    def forget_events(self) -> None:
        """Compact: who asks for the news since before now is told that they are gone."""
        with self.condition:
            self.version += 1
            self._oldest = self.version
            self._events.clear()

    # --- writing ---

    def create(self, kind: Kind, given: JSON, namespace: str = "") -> JSON:
        with self.condition:
            one = _fresh(kind, given, namespace)
            key = (kind.plural, namespace, one["metadata"]["name"])
            if key in self._objects:
                raise already_exists(kind, key[2])
            self._judge(kind, one, None)
            self._put(key, one, kind, "ADDED")
            return copy.deepcopy(one)

    def update(self, kind: Kind, name: str, given: JSON, namespace: str = "") -> JSON:
        """Replace an object; one that is the same already stays as it is, with its version."""
        with self.condition:
            before = self.get(kind, name, namespace)
            one, old = copy.deepcopy(given), before["metadata"]
            new = one.setdefault("metadata", {})
            _check_identity(kind, name, new, old)
            fixed = ("name", "namespace", "uid", "creationTimestamp", "generation")
            new |= {key: old[key] for key in fixed if key in old}
            new["resourceVersion"] = old["resourceVersion"]
            one |= {"apiVersion": kind.api_version, "kind": kind.kind}
            self._judge(kind, one, before)
            if one.get("spec") != before.get("spec"):
                new["generation"] = old.get("generation", 0) + 1
            if one != before:
                self._put((kind.plural, namespace, name), one, kind, "MODIFIED")
            return copy.deepcopy(one)

    def delete(
        self, kind: Kind, name: str, namespace: str = "", preconditions: JSON | None = None
    ) -> JSON:
        with self.condition:
            found = self.get(kind, name, namespace)
            for key in ("uid", "resourceVersion"):
                wanted, got = (preconditions or {}).get(key), found["metadata"][key]
                if wanted not in (None, got):
                    spelled = "UID" if key == "uid" else "ResourceVersion"
                    why = f"Precondition failed: {spelled} in precondition: {wanted}, "
                    raise conflict(kind, name, f"{why}{spelled} in object meta: {got}")
            del self._objects[kind.plural, namespace, name]
            self._note(found, kind, "DELETED")
            return found

    def delete_all(self, kind: Kind, wanted: Callable[[JSON], bool]) -> list[JSON]:
        with self.condition:
            found = self.find(kind, wanted=wanted)
            return [
                self.delete(kind, one["metadata"]["name"], one["metadata"].get("namespace", ""))
                for one in found
            ]

    def _judge(self, kind: Kind, one: JSON, before: JSON | None) -> None:
        if kind is not SLICES:
            return
        try:
            one["spec"] = spec = shaped(one.get("spec", {}))
        except ValueError as error:
            text = f'ResourceSlice in version "v1" cannot be handled as a ResourceSlice: {error}'
            raise bad_request(text) from error
        old = before["spec"] if before else None
        drop(spec, old, self.disabled)
        mistakes = mistakes_of(spec, old)
        if mistakes:
            raise invalid(kind, one["metadata"]["name"], mistakes)

    def _put(self, key: _Key, one: JSON, kind: Kind, what: Literal["ADDED", "MODIFIED"]) -> None:
        self._note(one, kind, what)
        self._objects[key] = copy.deepcopy(one)

    def _note(self, one: JSON, kind: Kind, what: Literal["ADDED", "MODIFIED", "DELETED"]) -> None:
        self.version += 1
        one["metadata"]["resourceVersion"] = str(self.version)
        self._events.append(Event(self.version, what, kind, copy.deepcopy(one)))
        self.condition.notify_all()


def _fresh(kind: Kind, given: JSON, namespace: str) -> JSON:
    """Complete an object that is about to be created."""
    one = copy.deepcopy(given)
    for key, value in (("apiVersion", kind.api_version), ("kind", kind.kind)):
        if one.setdefault(key, value) != value:
            raise bad_request(f"the {key} in the data ({one[key]}) does not match ({value})")
    metadata = one.setdefault("metadata", {})
    if metadata.get("resourceVersion"):
        text = "resourceVersion should not be set on objects to be created"
        raise Refusal(500, "InternalError", text)
    if not metadata.get("name"):
        if not metadata.get("generateName"):
            text = "Required value: name or generateName is required"
            raise invalid(kind, "", [Mistake("metadata.name", "FieldValueRequired", text)])
        metadata["name"] = _generated(metadata["generateName"])
    if namespace:
        metadata["namespace"] = namespace
    metadata.setdefault("uid", str(uuid.uuid4()))
    metadata["creationTimestamp"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata["generation"] = 1
    return one


def _generated(base: str) -> str:
    suffix = "".join(random.choices(_ALPHABET, k=5))  # noqa: S311 - not for cryptography
    return f"{base[:_LONGEST_BASE]}{suffix}"


def _check_identity(kind: Kind, name: str, new: JSON, old: JSON) -> None:
    if new.get("name", name) != name:
        text = f"the name of the object ({new['name']}) does not match the name on the URL ({name})"
        raise bad_request(text)
    if new.get("uid") not in (None, "", old["uid"]):
        why = f"Precondition failed: UID in precondition: {new['uid']}, "
        raise conflict(kind, name, f"{why}UID in object meta: {old['uid']}")
    if new.get("resourceVersion") not in (None, "", old["resourceVersion"]):
        raise conflict(kind, name, _MODIFIED)


def matching(selector: str) -> Callable[[JSON], bool]:
    """Read a field selector: `spec.nodeName=n,spec.driver=d`."""
    terms = list(_terms(selector))
    return lambda one: all((_field(one, path) == value) is wanted for path, value, wanted in terms)


def _terms(selector: str) -> Iterator[tuple[str, str, bool]]:
    known = {"metadata.name", "spec.nodeName", "spec.driver", "spec.pool.name"}
    for term in filter(None, selector.split(",")):
        path, _, value = term.partition("=")
        wanted = not path.endswith("!")
        path = path.removesuffix("!")
        if path not in known:
            raise bad_request(f'field label not supported: "{path}"')
        yield path, value.removeprefix("="), wanted


def _field(one: JSON, path: str) -> str:
    found: object = one
    for key in path.split("."):
        found = found.get(key, "") if isinstance(found, dict) else ""
    return str(found)
