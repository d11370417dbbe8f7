"""Kubernetes takes every object that people would apply, from 1.32 to the newest that is known."""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import programs
import pytest
import yaml
from kubernetes_validate.utils import all_versions  # type: ignore[import-untyped]
from rendered import (
    BASE,
    EXAMPLES,
    MONITORING,
    OVERLAYS,
    ROOT,
    RUNTIME_CLASSES,
    Object,
    helm,
    kustomize,
    objects,
    short,
)

OLDEST = (1, 32)
VERSIONS = [
    version
    for version in all_versions()
    if tuple(int(number) for number in version.split(".")[:2]) >= OLDEST
]
# Dynamic Resource Allocation is stable since then; older clusters have no such API.
_SINCE = {"resource.k8s.io/v1": (1, 34)}
_OPERATOR = "monitoring.coreos.com/v1"
_FULL = {
    "podMonitor": {"enabled": True, "interval": "30s", "labels": {"release": "prometheus"}},
    "rollOnConfigChange": True,
    "imagePullSecrets": [{"name": "pull"}],
    "extraArgs": ["--log-level=debug"],
    "extraEnv": [{"name": "DEVICE_PLUGIN_LOG_FORMAT", "value": "console"}],
    "extraVolumes": [{"name": "probes", "configMap": {"name": "probes", "defaultMode": 0o755}}],
    "extraVolumeMounts": [{"name": "probes", "mountPath": "/probes", "readOnly": True}],
    "affinity": {"nodeAffinity": {}},
    "podAnnotations": {"example.com/a": "b"},
    "podLabels": {"example.com/c": "d"},
    "serviceAccount": {"annotations": {"example.com/e": "f"}},
}
_DRA = {
    "version": 1,
    "dra": {"driver": "gpu.example.com"},
    "resources": [
        {
            "name": "example.com/gpu",
            "api": "dra",
            "devices": [{"virtual": {"count": 2, "capacity": {"memory": "80Gi"}}}],
            "partitions": [{"name": "half", "count": 2, "capacity": {"memory": "40Gi"}}],
        }
    ],
}


def _made(config: Path) -> list[Object]:
    """What `device-plugin manifests` prints."""
    command = [sys.executable, "-m", "device_plugin", "manifests", f"--config={config}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return list(objects(done.stdout))


def _made_by_claim(config: dict[str, Any]) -> list[Object]:
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(json.dumps(config))
        file.flush()
        return _made(Path(file.name))


def _documented(path: Path) -> list[Object]:
    """The whole objects that a document shows."""
    blocks = re.findall(r"```yaml\n(.*?)```", path.read_text(), re.DOTALL)
    return [thing for block in blocks for thing in objects(block) if "apiVersion" in thing]


def _written(path: Path) -> list[Object]:
    return list(objects(path.read_text()))


_SOURCES: dict[str, Any] = {
    **{short(folder): (kustomize, folder) for folder in (BASE, *OVERLAYS, MONITORING)},
    "chart": (helm, {}),
    "chart, all values": (helm, _FULL),
    "chart, privileged": (helm, {"privileged": True}),
    "chart, DRA": (helm, {"config": _DRA, "dra": {"enabled": True}}),
    "manifests": (_made, OVERLAYS[-1] / "config.yaml"),
    "manifests, DRA": (_made_by_claim, _DRA),
    "docs/dra.md": (_documented, ROOT / "docs" / "dra.md"),
    "kind": (kustomize, ROOT / "examples" / "kind"),
    "kind, Pod": (_written, ROOT / "examples" / "kind" / "pod.yaml"),
    **{path.stem: (_written, path) for path in EXAMPLES},
    **{f"runtimeclass, {path.stem}": (_written, path) for path in RUNTIME_CLASSES},
}


def _problems(thing: Object, version: str) -> str:
    try:
        kubernetes_validate.validate(thing, version, strict=True)
    except kubernetes_validate.ValidationError as why:
        return f"{thing['kind']} in {version}: {'.'.join(map(str, why.path))}: {why.message}"
    return ""


def _versions(thing: Object) -> list[str]:
    """Those that have it."""
    since = _SINCE.get(thing["apiVersion"], OLDEST)
    return [one for one in VERSIONS if tuple(int(part) for part in one.split(".")[:2]) >= since]


def test_the_versions_are_those_that_are_promised():
    assert VERSIONS[0].startswith("1.32.")
    assert len(VERSIONS) >= len(["1.32", "1.33", "1.34", "1.35", "1.36", "1.37"])


def test_kubernetes_takes_every_object():
    """One test, as most objects are the same everywhere and each is judged once."""
    seen: dict[str, str] = {}
    for name, (render, of) in _SOURCES.items():
        for thing in render(of):
            if thing["apiVersion"] != _OPERATOR:
                seen.setdefault(json.dumps(thing), name)
    assert len(seen) > len(_SOURCES)
    wrong = [
        f"{name}: {problem}"
        for text, name in seen.items()
        for version in _versions(json.loads(text))
        if (problem := _problems(json.loads(text), version))
    ]
    assert not wrong, "\n".join(wrong)


def test_a_misspelt_key_would_be_noticed():
    thing = {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {"containers": [{"name": "a", "imge": "b"}]},
    }
    assert "imge" in _problems(thing, VERSIONS[-1])


@pytest.mark.parametrize("source", ["monitoring", "chart, all values"])
def test_the_operators_objects_fit_its_types(source):
    render, of = _SOURCES[source]
    found = [thing for thing in render(of) if thing["apiVersion"] == _OPERATOR]
    assert found
    for thing in found:
        programs.run("monitors", given=yaml.safe_dump(thing))


def test_a_misspelt_key_of_the_operator_would_be_noticed():
    wrong = {"apiVersion": _OPERATOR, "kind": "PodMonitor", "spec": {"selectr": {}}}
    with pytest.raises(AssertionError, match="selectr"):
        programs.run("monitors", given=yaml.safe_dump(wrong))
