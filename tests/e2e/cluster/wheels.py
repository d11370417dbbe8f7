"""The wheels that go into the image: locked dependencies, the daemon itself, and pip to install."""

import hashlib
import os
import shutil
import sys
from pathlib import Path

from cluster.commands import run, scratch
from cluster.places import CACHE, PROJECT

_LOCK = PROJECT / ".ci" / "requirements" / "image.txt"  # with the extra `kubernetes`
_PLATFORMS = ("manylinux2014", "manylinux_2_17", "manylinux_2_28")
_SOURCE = ("pyproject.toml", "README.md", "LICENSE")
_EPOCH = "315532800"  # of every file in our wheel: the same tree makes the same wheel


def collect(python: str) -> Path:
    """A folder with all wheels for that version of Python."""
    folder = CACHE / "wheels" / python
    key = hashlib.sha256(_LOCK.read_bytes()).hexdigest()
    stamp = folder / "key"
    if not stamp.exists() or stamp.read_text() != key:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _download(folder, python)
        stamp.write_text(key)
    for old in folder.glob("device_plugin-*.whl"):
        old.unlink()
    _build_ours(folder)
    return folder


def _download(folder: Path, python: str) -> None:
    target = ["--python-version", python, "--implementation", "cp", "--only-binary", ":all:"]
    for platform in _PLATFORMS:
        target += ["--platform", f"{platform}_{os.uname().machine}"]
    pip("download", "--require-hashes", "-r", str(_LOCK), *target, "-d", str(folder))
    pip("download", "--no-deps", "pip", *target, "-d", str(folder))
    next(folder.glob("pip-*.whl")).rename(folder / "pip.whl")


def _build_ours(folder: Path) -> None:
    with scratch() as source:  # a build leaves things in its tree
        for name in _SOURCE:
            shutil.copy(PROJECT / name, source)
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PROJECT / "device_plugin", source / "device_plugin", ignore=ignored)
        pip("wheel", "--no-deps", str(source), "-w", str(folder))


def pip(*arguments: str) -> None:
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
    environment = {"SOURCE_DATE_EPOCH": _EPOCH}
    run([sys.executable, "-m", "pip", arguments[0], *quiet, *arguments[1:]], environment)
