"""Parameters of a DeviceClass or a claim: what containers get besides what the config says.

    opaque:
      driver: gpu.example.com
      parameters:
        apiVersion: gpu.example.com/v1
        kind: Container
        env: {MODE: fast}
        mounts: [{host_path: /opt/gpu, path: /opt/gpu, read_only: true}]    # a DeviceClass's only

They are read as the config is, by its types and its rules. Whoever may make claims must not reach
the host's files by it, so only the class, which an admin makes, has mounts.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from device_plugin.allocation import Refused
from device_plugin.config import Container, Mount
from device_plugin.config import container as rules
from device_plugin.config.compose import compose
from device_plugin.config.decode import decode
from device_plugin.config.problem import Place, Report, Where
from device_plugin.config.problem import Refused as Unreadable
from device_plugin.dra.allocated import FROM_CLASS, Configuration

KIND = "Container"
_VERSION = "v1"
_FILE = 0  # the one that the report is about


class _OfClaim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What anybody may ask for."""

    env: dict[str, str] = {}


class _OfClass(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an admin may."""

    env: dict[str, str] = {}
    mounts: tuple[Mount, ...] = ()


def layers(configurations: Iterable[Configuration], request: str, driver: str) -> list[Container]:
    """What is asked for a request, in the order in which the later ones win: the claim's last.

    Raises Refused for parameters that are not understood.
    """
    ours = [one for one in configurations if one.is_for(request) and one.opaque is not None]
    ordered = sorted(ours, key=lambda one: one.source != FROM_CLASS)  # stable
    return [_layer(one, driver) for one in ordered]


def _layer(one: Configuration, driver: str) -> Container:
    of_class = one.source == FROM_CLASS
    whose = "the parameters of the DeviceClass" if of_class else "the parameters of the claim"
    parameters = one.opaque.parameters if one.opaque is not None else None
    try:
        return _read(parameters, driver, _OfClass if of_class else _OfClaim)
    except Unreadable as why:
        raise Refused(f"{whose}: {why}") from None


def _read(parameters: Any, driver: str, due: Any) -> Container:  # noqa: ANN401 - JSON, and a type
    if not isinstance(parameters, Mapping):
        raise Unreadable("they are no object: write them as in docs/dra.md")
    rest = dict(parameters)
    wanted = {"apiVersion": f"{driver}/{_VERSION}", "kind": KIND}
    for key, value in wanted.items():
        if (given := rest.pop(key, None)) != value:
            was = f", not {json.dumps(given)[:80]}" if given is not None else ""
            raise Unreadable(f"`{key}` must be `{value}`{was}")
    if due is _OfClaim and "mounts" in rest:
        raise Unreadable("`mounts` is taken from a DeviceClass only: ask whoever runs the cluster")
    report = _Report(["parameters"])
    # JSON is YAML, but for what no reader of YAML takes; then that is said.
    read: Any = decode(compose(json.dumps(rest, ensure_ascii=False)), report, _FILE, due)
    container = Container()
    if read is not None:
        container = Container(env=read.env, mounts=getattr(read, "mounts", ()))
        rules.check(container, (_FILE,), report, None)
    if report.problems({}):
        raise Unreadable("; ".join(report.messages[:3]))
    return container


class _Report(Report):
    """Says where by keys: there is no file whose lines anybody could count."""

    def __init__(self, files: Sequence[str]) -> None:
        super().__init__(files)
        self.messages: list[str] = []

    def add(self, where: Where, place: Place, message: str) -> None:
        keys = [str(key) for key in where[1:]]
        said = not keys or f"`{keys[-1]}`" in message
        self.messages.append(message if said else f"{'.'.join(keys)}: {message}")
        super().add(where, place, message)
