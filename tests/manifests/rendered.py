"""What people would apply: kustomizations and the chart, rendered to objects."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from programs import run

Object = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = ROOT / "manifests"
BASE = MANIFESTS / "base"
MONITORING = MANIFESTS / "monitoring"
CHART = MANIFESTS / "helm" / "device-plugin"
OVERLAYS = sorted(path.parent for path in (MANIFESTS / "overlays").rglob("kustomization.yaml"))
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
RUNTIME_CLASSES = [
    path
    for path in sorted((ROOT / "examples" / "runtimeclass").glob("*.yaml"))
    if path.name != "config.yaml"
]


def short(folder: Path) -> str:
    """How a folder is called in a test's name."""
    return str(folder.relative_to(MANIFESTS))


def kustomize(folder: Path) -> list[Object]:
    """What `kubectl apply -k` would apply."""
    return list(objects(_kustomized(folder)))


@cache
def _kustomized(folder: Path) -> str:
    return run("kubectl", "kustomize", str(folder))


def helm(values: Object | None = None, release: str = "device-plugin") -> list[Object]:
    """The chart as it would be installed with these values."""
    words = ["template", release, str(CHART), "--namespace=device-plugin", "--values=-"]
    return list(objects(run("helm", *words, given=json.dumps(values or {}))))


def objects(text: str) -> Iterator[Object]:
    yield from (found for found in yaml.safe_load_all(text) if found)


def one(found: list[Object], kind: str) -> Object:
    """The only object of that kind."""
    (only,) = (thing for thing in found if thing["kind"] == kind)
    return only


def configs(found: list[Object]) -> list[str]:
    """The texts of all configs in these objects."""
    return [
        thing["data"]["config.yaml"]
        for thing in found
        if thing["kind"] == "ConfigMap" and "config.yaml" in thing["data"]
    ]


def resources(found: list[Object]) -> set[str]:
    """The resources that these objects offer."""
    return {r["name"] for text in configs(found) for r in yaml.safe_load(text)["resources"]}
