"""`device-plugin status`: the daemon's answer, for people and for programs."""

import json
import time
from collections.abc import Iterator
from typing import Any

from device_plugin.table import table

_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))

Answer = dict[str, Any]


def as_table(answer: Answer, now: float | None = None) -> str:
    """Devices, a row each, and below them what is wrong; `now` in seconds since the epoch.

    At the end are the devices that are disabled and not there.
    """
    at = time.time() if now is None else now
    rows: list[tuple[str, ...]] = [("RESOURCE", "DEVICE", "HEALTH", "SINCE", "HOLDER", "REASON")]
    nobody = "?" if answer["pod_resources"]["problem"] else ""
    rows += [row for resource in answer["resources"] for row in _rows(resource, at, nobody)]
    return "\n".join([table(rows, wrap=True), *_troubles(answer), *_disabled(answer)])


def _rows(resource: Answer, now: float, nobody: str) -> Iterator[tuple[str, ...]]:
    name = resource["name"]
    if not resource["devices"]:
        yield (name, "-", "-", "-", "-", "no device")
    for device in resource["devices"]:
        age = _age(now - device["since"])
        holder = _holder(device, nobody)
        yield (name, device["id"], device["health"], age, holder, device["reason"] or "-")


def _holder(device: Answer, nobody: str) -> str:
    """Who has it; of a device with replicas, how many are held. `nobody` where none is known."""
    holders, replicas = device["holders"], device["replicas"]
    if "claims" in device:
        return ", ".join(f"claim {claim}" for claim in device["claims"]) or "-"
    if nobody and not holders:
        return nobody
    if replicas > 1:
        return f"{len({holder['device'] for holder in holders})}/{replicas} held"
    return ", ".join(f"{h['namespace']}/{h['pod']}/{h['container']}" for h in holders) or "-"


def _age(seconds: float) -> str:
    """As kubectl shows it: 5s, 3m, 2h, 4d."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return "0s"


def _troubles(answer: Answer) -> list[str]:
    found = [
        f"{resource['name']}: {resource['problem']}"
        for resource in answer["resources"]
        if resource["problem"] or not resource["registered"]
    ]
    if problem := answer["config"]["problem"]:
        found.append(f"config: {problem.removeprefix('config: ')}")
    if problem := answer["pod_resources"]["problem"]:
        found.append(f"who holds what is not known: {problem}")
    return ["", *found] if found else []


def _disabled(answer: Answer) -> list[str]:
    rows = [(one["device"], one["reason"]) for one in answer.get("disabled", ())]
    if not rows:
        return []
    return ["", "disabled, and not there now:", table([("DEVICE", "REASON"), *rows], wrap=True)]


def as_json(answer: Answer) -> str:
    return json.dumps(answer, indent=2)


def as_line(answer: Answer) -> str:
    """JSON again, for a stream of answers."""
    return json.dumps(answer)


RENDERED = {"table": as_table, "json": as_json}
WATCHED = {"table": as_table, "json": as_line}
