"""What the machine must have. Every check says what to do, and all are made before any work."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping

from cluster.places import CACHE, CannotStart

_GO = (1, 26)
BUILD_ROOM = 8 << 30  # from nothing: Go's own caches are the most of it
RUN_ROOM = 1 << 30
_BUILDAH = {"buildah": "buildah"}
_IMAGE = {"apt-get": "apt", "dpkg-deb": "dpkg", **_BUILDAH}  # its base is of Debian's packages
_CLUSTER = {
    "openssl": "openssl",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    **_IMAGE,
    "runc": "runc",
    "crun": "crun",  # the other OCI runtime
}


def check() -> None:
    """Raise CannotStart with the first thing that is missing."""
    if os.geteuid() != 0:
        raise CannotStart("a kubelet needs root: run as root, or name a cluster in E2E_KUBECONFIG")
    _check_go()
    _check_programs(_CLUSTER)


def check_image(base: str | None) -> None:
    """The same for `make image` alone, on a base that was named or on our own."""
    if os.geteuid() != 0:
        raise CannotStart("making an image needs root: run as root")
    _check_programs(_IMAGE if base is None else _BUILDAH)


def _check_programs(programs: Mapping[str, str]) -> None:
    for program, package in programs.items():
        if shutil.which(program) is None:
            raise CannotStart(f"{program} is missing: apt-get install {package}")


def check_room(needed: int) -> None:
    """Before the work: a disk that fills up in the midst of it fails in a hundred ways."""
    CACHE.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(CACHE).free
    if free < needed:
        raise CannotStart(
            f"{CACHE}: {free >> 20} MiB free, {needed >> 20} MiB needed:"
            " make room, or set XDG_CACHE_HOME"
        )


def _check_go() -> None:
    go = shutil.which("go")
    if go is None:
        raise CannotStart("go is missing: Go 1.26 or newer builds the cluster")
    said = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False)
    number = re.match(r"go(\d+)\.(\d+)", said.stdout)
    if number is None or (int(number[1]), int(number[2])) < _GO:
        raise CannotStart(f"{go} is {said.stdout.strip() or 'broken'}: Go 1.26 or newer is needed")
