"""Other programs: run to the end, or one clear line."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from cluster.places import CACHE, CannotStart

_LAST_LINES = 8


def run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """What it printed. Raises CannotStart with its last lines."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        stdin=subprocess.DEVNULL,
        env=os.environ | dict(environment or {}),
    )
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()[-_LAST_LINES:]
        raise CannotStart("\n".join([f"{' '.join(command[:3])} ... failed; it said:", *lines]))
    return done.stdout


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder in the cache, gone afterwards; what a killed run left goes with `clean_scratch`."""
    (CACHE / "scratch").mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=CACHE / "scratch"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def clean_scratch() -> None:
    shutil.rmtree(CACHE / "scratch", ignore_errors=True)
