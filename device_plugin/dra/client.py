"""The API server by lightkube: its config and credentials, and plain JSON over its connection.

Only here is lightkube loaded, and with it the HTTP client; nothing else of the daemon needs them.
"""

import os
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import msgspec
from lightkube.config.client_adapter import Client, ConnectionParams
from lightkube.config.kubeconfig import SERVICE_ACCOUNT, KubeConfig, SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError
from msgspec import MsgspecError
from yaml import MarkedYAMLError, safe_load

from device_plugin.dra.cluster import ApiError, Json

_SLICES = "apis/resource.k8s.io/v1/resourceslices"
_CLAIMS = "apis/resource.k8s.io/v1/namespaces/{}/resourceclaims/{}"
_TIMEOUT = httpx2.Timeout(10.0, connect=5.0)  # seconds without a byte
_LONGEST = 20.0  # seconds until all of an answer must be there
# The API server says at least once a minute that a watch is alive, where it can (BOOKMARK).
_WATCH_SECONDS = 300
_WATCH_TIMEOUT = httpx2.Timeout(10.0, connect=5.0, read=100.0)
_UNREACHABLE = (
    httpx2.HTTPError,
    httpx2.InvalidURL,
    httpx2.StreamError,
    ConfigError,
    OSError,
    OverflowError,  # a port that is none
)
_LONGEST_MESSAGE = 500
_NO_API = "Kubernetes has resource.k8s.io/v1 from 1.34 on"
_FORBIDDEN = "its ServiceAccount needs the ClusterRole of manifests/components/dra"
_UNAUTHORIZED = "is its token one of this cluster, and valid yet?"
_NO_POD = "see manifests/components/dra, or name a file with --kubeconfig"
_NO_KUBECONFIG = "mend it, or name another with --kubeconfig"


class Api:
    """A `Cluster`."""

    def __init__(self, client: httpx2.Client) -> None:
        self._client = client

    def node_uid(self, name: str) -> str:
        hint = "--node-name must be the name of this node"
        node = self._call("GET", f"api/v1/nodes/{_segment(name)}", f"get node {name}", missing=hint)
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
        path = f"{_SLICES}/{_segment(name)}"
        return self._call("PUT", path, f"update resourceslice {name}", body=slice_)

    def delete(self, name: str) -> None:
        try:
            self._call("DELETE", f"{_SLICES}/{_segment(name)}", f"delete resourceslice {name}")
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
        return self._call("GET", _CLAIMS.format(_segment(namespace), _segment(name)), what)

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
        until = time.monotonic() + _LONGEST
        opened = self._client.stream(
            method, path, params=params, content=content, headers=headers, timeout=_TIMEOUT
        )
        with _failing(what), opened as coming:
            answer = _whole(coming, until)
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
    token = Path(SERVICE_ACCOUNT, "token")
    if kubeconfig is None and not token.exists():
        raise ApiError(
            f"no service account token here ({token}): add manifests/components/dra (Helm:"
            " dra.enabled), or name a file with --kubeconfig"
        )
    try:
        config = _current(_of_pod(token.parent) if kubeconfig is None else _read(kubeconfig))
        return Api(Client(config, ConnectionParams(timeout=_TIMEOUT)))
    except Exception as error:  # noqa: BLE001 - lightkube takes the form of configs on trust
        why = _unusable(error).removeprefix(f"{kubeconfig}: ")
        if kubeconfig is not None:
            text = f"{kubeconfig}: no kubeconfig to use: {why}: {_NO_KUBECONFIG}"
            raise ApiError(text) from None
        raise ApiError(f"the service account here is of no use: {why}: {_NO_POD}") from None


def _of_pod(folder: Path) -> KubeConfig:
    Path(folder, "namespace").read_bytes()  # lightkube is not as clear about it
    for name in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        if name not in os.environ:
            raise ConfigError(f"{name} is not set")
    return KubeConfig.from_service_account(folder)


def _read(path: Path) -> KubeConfig:
    content = safe_load(path.read_bytes())
    if not isinstance(content, dict):
        raise ConfigError("it is no mapping")
    for key in ("clusters", "contexts"):
        if not isinstance(content.get(key), list):
            raise ConfigError(f"it has no list `{key}`")
    return KubeConfig.from_dict({**content, "users": content.get("users") or []}, fname=path)


def _current(config: KubeConfig) -> SingleConfig:
    try:
        chosen = config.get()
    except KeyError as error:
        raise ConfigError(f"its context names {error}, which it does not have") from None
    if chosen is None:
        raise ConfigError("it has no current context")
    user = chosen.user or User()
    names = (chosen.cluster.certificate_auth, user.client_cert, user.client_key, user.token_file)
    for name in filter(None, names):  # OpenSSL does not say which it is that is not there
        Path(chosen.abs_file(name)).read_bytes()
    return chosen._replace(user=user)


def _unusable(error: Exception) -> str:
    if isinstance(error, MarkedYAMLError) and error.problem_mark is not None:
        return _line(f"line {error.problem_mark.line + 1}: {error.problem}")
    if isinstance(error, OSError) and error.strerror and not isinstance(error, ssl.SSLError):
        name = f"{os.fspath(error.filename)}: " if error.filename else ""
        return _line(f"{name}{error.strerror}")
    if isinstance(error, KeyError):
        return _line(f"{error} is missing in an entry")
    if isinstance(error, (AttributeError, TypeError)):
        return "an entry is not of the form that it must have"
    return _line(str(error) or type(error).__name__)


def _segment(name: str) -> str:
    """One part of a path, whatever is in it."""
    return quote(name, safe="")


def _line(text: str) -> str:
    """One line that can be shown, of what others say."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _whole(coming: httpx2.Response, until: float) -> httpx2.Response:
    """Read an answer to its end, which must come in time."""
    parts = []
    for part in coming.iter_raw():
        parts.append(part)
        if time.monotonic() > until:
            raise httpx2.ReadTimeout("it comes too slowly")
    return httpx2.Response(coming.status_code, headers=coming.headers, content=b"".join(parts))


def _own(driver: str, node: str) -> dict[str, Any]:
    return {"fieldSelector": f"spec.nodeName={node},spec.driver={driver}"}


@contextmanager
def _failing(what: str) -> Iterator[None]:
    """Everything that can go wrong on the way is an ApiError without status."""
    try:
        yield
    except httpx2.TimeoutException:
        raise ApiError(f"cannot {what}: no answer in time") from None
    except _UNREACHABLE as error:
        raise ApiError(f"cannot {what}: {_line(str(error)) or type(error).__name__}") from None
    except (MsgspecError, UnicodeError, KeyError, TypeError, RecursionError) as error:
        why = _line(str(error))[:_LONGEST_MESSAGE]
        raise ApiError(f"cannot {what}: what answers is no API server: {why}") from None


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
    reason = _line(str(status.get("message") or ""))[:_LONGEST_MESSAGE] or f"HTTP status {code}"
    hints: dict[int, str] = {HTTPStatus.NOT_FOUND: missing, HTTPStatus.UNAUTHORIZED: _UNAUTHORIZED}
    hint = hints.get(code, "")
    if code == HTTPStatus.FORBIDDEN and "cannot" in reason:  # else a policy's, with its own words
        hint = _FORBIDDEN
    return ApiError(f"cannot {what}: {reason}{f'; {hint}' if hint else ''}", code)
