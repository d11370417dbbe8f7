"""The program of a test Pod: it says as JSON what its container was given, then does as told.

python3 -c SOURCE [open=PATH ...] [connect=PATH ...] [mknod=MAJOR:MINOR ...] [exit=SECONDS]
"""

import errno
import json
import os
import signal
import socket
import stat
import sys
import time
from typing import Any


def _nodes() -> dict[str, str]:
    """Every device node under /dev: path to type and number."""
    found = {}
    for folder, _, names in os.walk("/dev"):
        for name in names:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            kind = {stat.S_IFCHR: "c", stat.S_IFBLK: "b"}.get(stat.S_IFMT(status.st_mode))
            if kind:
                found[path] = f"{kind} {os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    return found


def _opened(path: str) -> str:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "ok"


def _connected(path: str) -> str:
    with socket.socket(socket.AF_UNIX) as one:
        try:
            one.connect(path)
        except OSError as error:
            return errno.errorcode[error.errno or 0]
    return "ok"


def _made(number: str) -> str:
    """Make a node that the container was not given, and try to open it."""
    major, minor = map(int, number.split(":"))
    path = f"/dev/made-{major}-{minor}"
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, minor))
    said = _opened(path)
    os.unlink(path)
    return said


def _report(words: list[tuple[str, str]]) -> dict[str, Any]:
    with open("/proc/self/mounts", encoding="utf-8") as file:
        mounts = {line.split()[1]: line.split()[3] for line in file}
    return {
        "nodes": _nodes(),
        "env": dict(os.environ),
        "mounts": mounts,
        "opened": {value: _opened(value) for key, value in words if key == "open"},
        "connected": {value: _connected(value) for key, value in words if key == "connect"},
        "made": {value: _made(value) for key, value in words if key == "mknod"},
    }


def main() -> None:
    words = [(word.partition("=")[0], word.partition("=")[2]) for word in sys.argv[1:]]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print(json.dumps(_report(words)), flush=True)
    for key, value in words:
        if key == "exit":
            time.sleep(float(value))
            sys.exit(3)
        if key == "done":
            return
    while True:
        signal.pause()


main()
