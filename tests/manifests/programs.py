"""The programs that judge the manifests, built from Go modules.

One go.mod each, so that none lifts another's dependencies. Built once; the cache is
$XDG_CACHE_HOME/device-plugin-tools.

`python tests/manifests/programs.py NAME` prints where one is.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "device-plugin-tools"
_LINK = "-s -w"  # no symbols: half the size
_MODULES = _HERE / "modules"
_PROGRAMS = {
    "helm": (_MODULES / "helm", "helm.sh/helm/v4/cmd/helm"),
    "kind": (_MODULES / "kind", "sigs.k8s.io/kind"),
    # The one of the tests on a real cluster, which share the compiled packages.
    "kubectl": (
        _HERE.parent / "e2e" / "cluster" / "modules" / "kubernetes-1.37",
        "k8s.io/kubernetes/cmd/kubectl",
    ),
    "monitors": (_MODULES / "monitors", "."),
    "promtool": (_MODULES / "promtool", "github.com/prometheus/prometheus/cmd/promtool"),
}
# Discovering targets in clouds is half of Prometheus, and nothing that rules need.
_TAGS = "remove_all_sd"


def program(name: str) -> Path:
    """The program of that name, built if need be."""
    folder, package = _PROGRAMS[name]
    key = hashlib.sha256(f"{package} {_LINK} {_TAGS}".encode())
    for source in sorted([*folder.glob("go.*"), *folder.glob("*.go")]):
        key.update(source.read_bytes())
    built = _CACHE / f"{name}-{key.hexdigest()[:12]}"
    if not built.exists():
        for old in _CACHE.glob(f"{name}-*"):
            old.unlink()
        _CACHE.mkdir(parents=True, exist_ok=True)
        part = built.with_suffix(f".{os.getpid()}")
        _build(folder, package, part)
        part.rename(built)
    return built


def _build(folder: Path, package: str, target: Path) -> None:
    if shutil.which("go") is None:
        sys.exit("go is missing: Go 1.26 or newer builds the programs that judge the manifests")
    print(f"building {package} ...", file=sys.__stderr__, flush=True)
    command = ["go", "build", "-trimpath", "-ldflags", _LINK, "-tags", _TAGS, "-o", str(target)]
    environment = {"GOTOOLCHAIN": "auto"} | os.environ | {"CGO_ENABLED": "0"}
    done = subprocess.run([*command, package], cwd=folder, env=environment, check=False)
    if done.returncode:
        sys.exit(f"go build failed in {folder}")


def run(name: str, *arguments: str, given: str | None = None) -> str:
    """What the program printed. Raises AssertionError with what it complained of."""
    done = subprocess.run(
        [program(name), *arguments], input=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{name} {' '.join(arguments)}:\n{done.stdout}{done.stderr}"
    return done.stdout


if __name__ == "__main__":
    print(program(sys.argv[1]))
