"""How the API server says no: the Status objects that clients read, in the server's words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from device_plugin.testing.dra.records import ClusterError

JSON = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """A resource of the API."""

    group: str
    plural: str
    kind: str
    namespaced: bool = False

    @property
    def resource(self) -> str:
        """As messages call it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        return f"{self.group}/v1" if self.group else "v1"


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing that is wrong with an object."""

    field: str
    reason: str  # FieldValueInvalid and the like
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class Refusal(ClusterError):  # noqa: N818 - it names what became of a request
    """A request ends with this status."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: JSON | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message
        self.retry_after = retry_after
        self._details = dict(details or {})
        if retry_after is not None:
            self._details["retryAfterSeconds"] = retry_after

    @property
    def status(self) -> JSON:
        status: JSON = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if self._details:
            status["details"] = self._details
        return status


def not_found(kind: Kind, name: str) -> Refusal:
    return Refusal(
        404, "NotFound", f'{kind.resource} "{name}" not found', details=_details(kind, name)
    )


def already_exists(kind: Kind, name: str) -> Refusal:
    message = f'{kind.resource} "{name}" already exists'
    return Refusal(409, "AlreadyExists", message, details=_details(kind, name))


def conflict(kind: Kind, name: str, why: str) -> Refusal:
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    return Refusal(409, "Conflict", message, details=_details(kind, name))


def bad_request(message: str) -> Refusal:
    return Refusal(400, "BadRequest", message)


def expired(asked: int, oldest: int) -> Refusal:
    return Refusal(410, "Expired", f"too old resource version: {asked} ({oldest})")


def invalid(kind: Kind, name: str, mistakes: Sequence[Mistake]) -> Refusal:
    texts = list(dict.fromkeys(map(str, mistakes)))
    said = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    causes = [
        {"reason": one.reason, "message": one.message, "field": one.field} for one in mistakes
    ]
    details = {"name": name, "group": kind.group, "kind": kind.kind, "causes": causes}
    qualified = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    return Refusal(422, "Invalid", f'{qualified} "{name}" is invalid: {said}', details=details)


def forbidden(kind: Kind, verb: str, user: str, namespace: str = "") -> Refusal:
    """What a missing RBAC rule amounts to."""
    scope = f'in the namespace "{namespace}"' if kind.namespaced else "at the cluster scope"
    message = (
        f'{kind.resource} is forbidden: User "{user}" cannot {verb} resource "{kind.plural}" '
        f'in API group "{kind.group}" {scope}'
    )
    return Refusal(403, "Forbidden", message, details=_details(kind, ""))


def too_many_requests(retry_after: int | None) -> Refusal:
    message = "Too many requests, please try again later."
    return Refusal(429, "TooManyRequests", message, retry_after=retry_after)


def _details(kind: Kind, name: str) -> JSON:
    details = {"name": name, "group": kind.group, "kind": kind.plural}
    return {key: value for key, value in details.items() if value}
