"""What we need of the Kubernetes API server, and how it fails."""

import random
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Protocol

from device_plugin.backoff import doubling

Json = dict[str, Any]  # an object as the API server has it

# Seconds between attempts that fail, doubling, with jitter; refusals want somebody to mend them.
FIRST_DELAY, FIRST_DELAY_REFUSED, LONGEST_DELAY = 0.25, 5.0, 30.0
LONGEST_RETRY_AFTER = 300.0
_REFUSALS = (
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)


class ApiError(Exception):
    """The API server did not do it; the message says what, why, and what to do if that is known."""

    def __init__(self, message: str, status: int = 0, retry_after: float = 0.0) -> None:
        """status: of HTTP, 0 if there was no answer. retry_after: seconds that it wants of us."""
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


class Watch(Protocol):
    """Changes, as they come; it ends now and then, and raises ApiError where it breaks."""

    def __iter__(self) -> Iterator[tuple[str, Json]]:
        """ADDED, MODIFIED, DELETED or BOOKMARK, and the object.

        A BOOKMARK is first, when the watch has begun.
        """

    def stop(self) -> None:
        """End the iteration, from any thread."""


class Cluster(Protocol):
    """The API server. Every call is bounded in time, fit for any thread, and raises ApiError."""

    def node_uid(self, name: str) -> str: ...

    def slices(self, driver: str, node: str) -> tuple[list[Json], str]:
        """All of them, and the resourceVersion from which to watch."""

    def create(self, slice_: Json) -> Json:
        """Returns it as it was stored."""

    def replace(self, slice_: Json) -> Json:
        """Returns it as it was stored; its resourceVersion must still be the newest."""

    def delete(self, name: str) -> None:
        """One that is not there is no error."""

    def watch(self, driver: str, node: str, resource_version: str) -> Watch: ...

    def claim(self, namespace: str, name: str) -> Json: ...

    def close(self) -> None: ...


def delay(error: ApiError, failures: int) -> float:
    """Seconds to wait after so many failures in a row, of which this is the last."""
    first = FIRST_DELAY_REFUSED if error.status in _REFUSALS else FIRST_DELAY
    longest = doubling(failures, first, LONGEST_DELAY)
    asked = min(error.retry_after, LONGEST_RETRY_AFTER)
    return max(asked, longest) * random.uniform(1.0, 1.3)  # noqa: S311 - jitter
