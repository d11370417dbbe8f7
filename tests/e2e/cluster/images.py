"""The images, made on the spot: nothing is pulled but Debian's packages and the locked wheels.

Each is an OCI archive in the cache, named by what it is made of, so that it is made once.
"""

import hashlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from cluster import base, build, wheels
from cluster.commands import run, scratch
from cluster.places import HERE, IMAGES, PROJECT
from device_plugin import __version__

PAUSE = "localhost/device-plugin-e2e/pause:1"
BASE = "localhost/device-plugin-e2e/base:1"
PLUGIN = f"localhost/device-plugin:{__version__}"  # as the manifests have it
_CONTAINERFILE = PROJECT / "Containerfile"


class _Buildah:
    """buildah with a storage of its own, which goes with `work`."""

    def __init__(self, work: Path) -> None:
        self._storage = ["--root", str(work / "storage"), "--runroot", str(work / "run")]

    def __call__(self, *arguments: str) -> str:
        return run(["buildah", *self._storage, "--storage-driver", "vfs", *arguments]).strip()

    def pack(self, root: Path, archive: Path, name: str, settings: Sequence[str]) -> None:
        """An image of one layer."""
        container = self("from", "scratch")
        self("copy", "--quiet", container, str(root), "/")
        self("config", *settings, container)
        self("commit", "--quiet", "--timestamp", "0", container, f"oci-archive:{archive}:{name}")


def pause() -> Path:
    """The sandbox image."""

    def make(work: Path, archive: Path) -> None:
        (work / "root").mkdir()
        build.pause(work / "root" / "pause")
        settings = ["--entrypoint", '["/pause"]']
        _Buildah(work).pack(work / "root", archive, PAUSE, settings)

    return _made("pause", [(HERE / "pause.go").read_bytes()], make)


def base_image() -> Path:
    """Debian's Python and what it needs."""

    def make(work: Path, archive: Path) -> None:
        settings = ["--env", f"PATH={base.PATH}", "--cmd", "python3"]
        _Buildah(work).pack(base.make(work), archive, BASE, settings)

    return _made("base", [Path(base.__file__).read_bytes()], make)


def plugin(named_base: str | None = None) -> Path:
    """The daemon's image from the Containerfile, on our base or on one that buildah finds."""
    source = named_base or f"oci-archive:{base_image()}"
    folder = wheels.collect(_python_of(named_base) if named_base else base.version())
    files = [_CONTAINERFILE, *sorted(folder.glob("*.whl"))]

    def make(work: Path, archive: Path) -> None:
        (work / "context").mkdir()
        shutil.copytree(folder, work / "context" / "wheels")
        buildah = _Buildah(work)
        buildah(
            *("build", "--quiet", "--isolation", "chroot", "--timestamp", "0"),
            *("--build-arg", f"BASE_IMAGE={buildah('pull', '--quiet', source)}"),
            *("--tag", PLUGIN, "--file", str(_CONTAINERFILE), str(work / "context")),
        )
        buildah("push", "--quiet", PLUGIN, f"oci-archive:{archive}:{PLUGIN}")

    return _made("plugin", [source.encode(), *(file.read_bytes() for file in files)], make)


def _python_of(name: str) -> str:
    with scratch() as work:
        buildah = _Buildah(work)
        container = buildah("from", name)
        ask = "import sys; print('%d.%d' % sys.version_info[:2])"
        return buildah("run", "--isolation", "chroot", container, "--", "python3", "-c", ask)


def _made(name: str, parts: Sequence[bytes], make: Callable[[Path, Path], None]) -> Path:
    key = hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts))
    archive = IMAGES / f"{name}-{key.hexdigest()[:12]}.tar"
    if not archive.exists():
        IMAGES.mkdir(parents=True, exist_ok=True)
        for old in IMAGES.glob(f"{name}-*"):
            old.unlink()
        part = archive.with_suffix(".part")
        with scratch() as work:
            make(work, part)
        part.rename(archive)
    return archive
