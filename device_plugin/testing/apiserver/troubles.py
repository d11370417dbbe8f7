"""What clients of an API server meet in the field, and what they asked of it."""

import threading
from dataclasses import dataclass, field
from time import monotonic
from typing import Literal

from device_plugin.testing.apiserver.gates import GATES, Gate
from device_plugin.testing.apiserver.refusals import (
    JSON,
    Kind,
    Refusal,
    forbidden,
    too_many_requests,
)
from device_plugin.testing.apiserver.store import Store

Verb = Literal["get", "list", "watch", "create", "update", "delete", "deletecollection"]
USER = "system:serviceaccount:kube-system:device-plugin"
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass(slots=True)
class Request:
    """One request and what became of it."""

    verb: Verb
    kind: Kind
    name: str
    namespace: str = ""
    body: JSON | None = None
    token: str = ""
    started: float = field(default_factory=monotonic)
    code: int | None = None  # None while it is not answered


@dataclass(slots=True)
class _Trouble:
    verb: Verb | None
    plural: str | None
    times: int | None  # so many requests; None: all
    delay: float = 0.0  # seconds
    refusal: Refusal | None = None
    forbids: bool = False

    def befalls(self, request: Request) -> bool:
        return self.verb in (None, request.verb) and self.plural in (None, request.kind.plural)


class Troubles:
    """Switches, each for one verb and resource or for all, for ever or for so many requests.

    The latest that fits comes first; `recover` ends all. In this process, `ApiServer`'s own methods
    and the embedded kubelet are not touched by them.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._troubles: list[_Trouble] = []
        self._wake = threading.Event()  # requests that are held wait for it

    def slow(
        self,
        seconds: float,
        verb: Verb | None = None,
        plural: str | None = None,
        times: int | None = None,
    ) -> None:
        """Answer rightly, but only after so long."""
        self._cause(_Trouble(verb, plural, times, delay=seconds))

    def refuse(
        self,
        code: int,
        text: str = "refused by the test",
        verb: Verb | None = None,
        plural: str | None = None,
        times: int | None = None,
        *,
        retry_after: int | None = None,
    ) -> None:
        """Answer with this error."""
        refusal = Refusal(code, _REASONS.get(code, ""), text, retry_after=retry_after)
        self._cause(_Trouble(verb, plural, times, refusal=refusal))

    def forbid(self, verb: Verb | None = None, plural: str | None = None) -> None:
        """Answer as without that rule in RBAC."""
        self._cause(_Trouble(verb, plural, None, forbids=True))

    def throttle(
        self, retry_after: int | None = 1, verb: Verb | None = None, times: int | None = None
    ) -> None:
        """Answer that it has too much to do."""
        self._cause(_Trouble(verb, None, times, refusal=too_many_requests(retry_after)))

    def recover(self) -> None:
        """End all troubles; requests that wait are answered."""
        with self._store.condition:
            self._troubles.clear()
            self._wake.set()
            self._wake = threading.Event()

    def disable(self, *gates: Gate) -> None:
        """Switch features off: their fields are dropped from objects that are written."""
        if not set(gates) <= set(GATES):
            raise ValueError(f"gates are {GATES}")
        with self._store.condition:
            self._store.disabled |= set(gates)

    def enable(self, *gates: Gate) -> None:
        with self._store.condition:
            self._store.disabled -= set(gates)

    def _cause(self, trouble: _Trouble) -> None:
        with self._store.condition:
            self._troubles.insert(0, trouble)

    def _suffer(self, request: Request) -> None:
        """Do to a request what was asked for."""
        with self._store.condition:
            wake = self._wake
            fitting = (one for one in self._troubles if one.times != 0 and one.befalls(request))
            trouble = next(fitting, None)
            if trouble is None:
                return
            if trouble.times is not None:
                trouble.times -= 1
        if trouble.delay:
            wake.wait(trouble.delay)
        if trouble.forbids:
            raise forbidden(request.kind, request.verb, USER, request.namespace)
        if trouble.refusal is not None:
            raise trouble.refusal
