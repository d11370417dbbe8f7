"""Programs from Go modules: one go.mod per upstream, so that none lifts another's dependencies."""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cluster import needs
from cluster.places import CACHE, HERE, MODULES, PROGRAMS, CannotStart

_VERSION_VARIABLES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
_TAGS = {"containerd": "no_btrfs,no_devmapper,no_zfs,no_aufs"}
# Go names a program after its package.
_NAMES = {"etcd": ("server", "etcd"), "gvisor": ("gvisor", "containerd-shim-runsc-v1")}
_LAST_LINES = 15

Say = Callable[[str], None]


@dataclass(frozen=True)
class _Module:
    name: str

    @property
    def folder(self) -> Path:
        return MODULES / self.name

    @property
    def flags(self) -> list[str]:
        link = "-s -w"
        release = re.search(r"k8s.io/kubernetes (v\S+)", (self.folder / "go.mod").read_text())
        if release:  # else the node calls itself v0.0.0
            link += "".join(f" -X {name}.gitVersion={release[1]}" for name in _VERSION_VARIABLES)
        tags = _TAGS.get(self.name)
        return ["-trimpath", "-ldflags", link, *(["-tags", tags] if tags else [])]

    @property
    def ours(self) -> list[str]:
        """A program of our own beside the module's tools."""
        return sorted(path.name for path in self.folder.glob("*.go"))

    @property
    def built(self) -> Path:
        """Where its programs are, once they are all there."""
        key = hashlib.sha256(" ".join(self.flags).encode())
        for path in ("go.mod", "go.sum", *self.ours):
            key.update((self.folder / path).read_bytes())
        return PROGRAMS / f"{self.name}-{key.hexdigest()[:12]}"


def programs(version: str, say: Say) -> list[Path]:
    """The folders of the cluster's programs, built where they are not in the cache."""
    names = ("etcd", "cni", "containerd", "gvisor", f"kubernetes-{version}")
    modules = [_Module(name) for name in names]
    missing = [module for module in modules if not module.built.exists()]
    if missing:
        needs.check_room(needs.BUILD_ROOM)
    for module in missing:
        say(f"building {module.name} ...")
        _build(module)
    return [module.built for module in modules]


def _build(module: _Module) -> None:
    part = module.built.with_suffix(".part")  # renamed when whole: half a cache is no cache
    for old in PROGRAMS.glob(f"{module.name}-????????????*"):
        shutil.rmtree(old)
    part.mkdir(parents=True)
    go(["mod", "download"], module.folder)
    packages = ["tool", "."] if module.ours else ["tool"]
    go(["build", *module.flags, "-o", f"{part}/", *packages], module.folder)
    if module.name in _NAMES:
        built, name = _NAMES[module.name]
        (part / built).rename(part / name)
    part.rename(module.built)


def pause(target: Path) -> None:
    """The program of the sandbox image."""
    go(["build", "-trimpath", "-ldflags", "-s -w", "-o", str(target), "pause.go"], HERE)


def go(arguments: list[str], folder: Path) -> None:
    """Run Go; a newer toolchain is fetched where a module asks for one. Raises CannotStart."""
    log = CACHE / "go.log"
    environment = {"GOTOOLCHAIN": "auto"} | os.environ | {"CGO_ENABLED": "0"}
    with log.open("w") as output:
        done = subprocess.run(
            ["go", *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode:
        lines = log.read_text(errors="replace").splitlines()[-_LAST_LINES:]
        raise CannotStart(
            "\n".join([f"go {arguments[0]} failed in {folder}; its last lines:", *lines])
        )
