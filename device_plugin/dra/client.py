"""The API server by lightkube: its config and credentials, and plain JSON over its connection.

Only here is lightkube loaded, and with it the HTTP client; nothing else of the daemon needs them.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx2
import msgspec
from lightkube.config.client_adapter import Client, ConnectionParams
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError
from msgspec import MsgspecError
from yaml import YAMLError

from device_plugin.dra.cluster import ApiError, Json

_SLICES = "apis/resource.k8s.io/v1/resourceslices"
_CLAIMS = "apis/resource.k8s.io/v1/namespaces/{}/resourceclaims/{}"
_TIMEOUT = httpx2.Timeout(10.0, connect=5.0)  # seconds
# The API server says at least once a minute that a watch is alive, where it can (BOOKMARK).
_WATCH_SECONDS = 300
_WATCH_TIMEOUT = httpx2.Timeout(10.0, connect=5.0, read=100.0)
# What lightkube makes of configs; it takes their form on trust.
_UNUSABLE = (
    ConfigError,
    AttributeError,
    KeyError,
    OSError,
    TypeError,
    ValueError,
    YAMLError,
    MsgspecError,
)
_LONGEST_MESSAGE = 500
_NO_API = "Kubernetes has resource.k8s.io/v1 from 1.34 on"
_FORBIDDEN = "its ServiceAccount needs the ClusterRole of manifests/components/dra"


class Api:
    """A `Cluster`."""

    def __init__(self, client: httpx2.Client) -> None:
        self._client = client

    def node_uid(self, name: str) -> str:
        hint = "--node-name must be the name of this node"
        node = self._call("GET", f"api/v1/nodes/{name}", f"get node {name}", missing=hint)
        return str(node["metadata"]["uid"])

    def slices(self, driver: str, node: str) -> tuple[list[Json], str]:
        # No pages: they would be read past the API server's cache, which has an index by node.
        query = _own(driver, node)
        found = self._call("GET", _SLICES, "list resourceslices", params=query, missing=_NO_API)
        return found["items"] or [], found["metadata"]["resourceVersion"]

    def create(self, slice_: Json) -> Json:
        return self._call("POST", _SLICES, "create a resourceslice", body=slice_)

    def replace(self, slice_: Json) -> Json:
        name = slice_["metadata"]["name"]
        return self._call("PUT", f"{_SLICES}/{name}", f"update resourceslice {name}", body=slice_)

    def delete(self, name: str) -> None:
        try:
            self._call("DELETE", f"{_SLICES}/{name}", f"delete resourceslice {name}")
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise

    def watch(self, driver: str, node: str, resource_version: str) -> "Changes":
        query = {
            **_own(driver, node),
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": _WATCH_SECONDS,
        }
        return Changes(self._client, query)

    def claim(self, namespace: str, name: str) -> Json:
        what = f"get resourceclaim {namespace}/{name}"
        return self._call("GET", _CLAIMS.format(namespace, name), what)

    def close(self) -> None:
        self._client.close()

    def _call(
        self,
        method: str,
        path: str,
        what: str,
        *,
        params: dict[str, Any] | None = None,
        body: Json | None = None,
        missing: str = "",
    ) -> Json:
        """missing: what to do about a 404."""
        content = None if body is None else msgspec.json.encode(body)
        headers = {} if body is None else {"Content-Type": "application/json"}
        with _failing(what):
            answer = self._client.request(
                method, path, params=params, content=content, headers=headers, timeout=_TIMEOUT
            )
            _check(answer, what, missing)
            return msgspec.json.decode(answer.content, type=dict)


class Changes:
    """A `Watch`: one request, whose lines are read as they come."""

    def __init__(self, client: httpx2.Client, query: dict[str, Any]) -> None:
        self._client, self._query = client, query
        self._stopped = False
        self._socket: socket.socket | None = None

    def __iter__(self) -> Iterator[tuple[str, Json]]:
        what = "watch resourceslices"
        opened = self._client.stream("GET", _SLICES, params=self._query, timeout=_WATCH_TIMEOUT)
        with _failing(what), opened as answer:
            self._socket = answer.extensions["network_stream"].get_extra_info("socket")
            if self._stopped:
                return
            if not answer.is_success:
                answer.read()
            _check(answer, what)
            yield "BOOKMARK", {"metadata": {"resourceVersion": self._query["resourceVersion"]}}
            for line in answer.iter_lines():
                if self._stopped:
                    return
                event = msgspec.json.decode(line, type=dict)
                if event["type"] == "ERROR":
                    raise _refusal(what, event["object"].get("code", 0), event["object"])
                yield event["type"], event["object"]

    def stop(self) -> None:
        self._stopped = True
        if self._socket is not None:
            # Closing it would not wake the thread that reads from it.
            with suppress(OSError):
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


def connect(kubeconfig: Path | None = None) -> Api:
    """The API server of a kubeconfig, or the one whose Pod this is. Raises ApiError.

    Nothing is asked of it yet.
    """
    try:
        if kubeconfig is None:
            config = _current(KubeConfig.from_service_account())
        else:
            config = _current(KubeConfig.from_file(kubeconfig))
        return Api(Client(config, ConnectionParams(timeout=_TIMEOUT)))
    except _UNUSABLE as error:
        if kubeconfig is not None:
            raise ApiError(f"{kubeconfig}: no kubeconfig to use: {error}") from None
        hint = "give the Pod its service account token, or name a file with --kubeconfig"
        raise ApiError(f"this is no Pod that may ask the API server: {error}; {hint}") from None


def _current(config: KubeConfig) -> SingleConfig:
    chosen = config.get()
    if chosen is None:
        raise ConfigError("it has no current context")
    return chosen._replace(user=chosen.user or User())


def _own(driver: str, node: str) -> dict[str, Any]:
    return {"fieldSelector": f"spec.nodeName={node},spec.driver={driver}"}


@contextmanager
def _failing(what: str) -> Iterator[None]:
    """Everything that can go wrong on the way is an ApiError without status."""
    try:
        yield
    except httpx2.TimeoutException:
        raise ApiError(f"cannot {what}: no answer in time") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, ConfigError, OSError) as error:
        raise ApiError(f"cannot {what}: {error or type(error).__name__}") from None
    except (MsgspecError, UnicodeError, KeyError, TypeError) as error:
        raise ApiError(f"cannot {what}: what answers is no API server: {error}") from None


def _check(answer: httpx2.Response, what: str, missing: str = "") -> None:
    if answer.is_success:
        return
    try:
        status = msgspec.json.decode(answer.content, type=dict)
    except MsgspecError:
        status = {}
    error = _refusal(what, answer.status_code, status, missing)
    with suppress(ValueError):  # it may be a date; then our own delay must do
        error.retry_after = float(answer.headers.get("Retry-After", "0"))
    raise error


def _refusal(what: str, code: int, status: Json, missing: str = "") -> ApiError:
    reason = str(status.get("message") or f"HTTP status {code}")[:_LONGEST_MESSAGE]
    hint = missing if code == HTTPStatus.NOT_FOUND else ""
    if code == HTTPStatus.FORBIDDEN and "cannot" in reason:  # else a policy's, with its own words
        hint = _FORBIDDEN
    return ApiError(f"cannot {what}: {reason}{f'; {hint}' if hint else ''}", code)
