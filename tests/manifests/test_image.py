"""The container image: its recipe, and its wheels for both machines."""

import subprocess
import sys
from pathlib import Path

import pytest
from rendered import ROOT

HADOLINT = Path(sys.executable).parent / "hadolint"
LOCK = ROOT / ".ci" / "requirements" / "image.txt"
# What container images are made for; Debian 12 and the newest have glibc 2.36 and later.
PLATFORMS = {
    "amd64": "x86_64",
    "arm64": "aarch64",
}
_GLIBC = ("manylinux2014", "manylinux_2_17", "manylinux_2_28")


def test_hadolint():
    done = subprocess.run(
        [HADOLINT, "--failure-threshold=info", str(ROOT / "Containerfile")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
@pytest.mark.parametrize("machine", PLATFORMS)
def test_every_dependency_has_a_wheel(machine, python, tmp_path):
    """An image is built without a compiler."""
    where = ["--only-binary=:all:", "--implementation=cp", f"--python-version={python}"]
    where += [f"--platform={glibc}_{PLATFORMS[machine]}" for glibc in _GLIBC]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--dry-run", "--ignore-installed", f"--target={tmp_path}", "--require-hashes"]
    done = subprocess.run(
        [*command, *where, "--requirement", str(LOCK)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
