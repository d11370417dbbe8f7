"""Process 1 of the node's namespaces: mounts what must be private, then reaps. No imports of ours.

python3 -I node_init.py RUN: /var/lib, /var/log and /run are the node's own, so that the host's stay
as they are. When this process is killed, all others in its PID namespace die with it, and with the
last of them the mounts and the network of every Pod.
"""

import signal
import subprocess
import sys
from pathlib import Path

_UNIFIED = Path("/sys/fs/cgroup/unified")


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, stdin=subprocess.DEVNULL)


def _folder(path: Path) -> str:
    path.mkdir(exist_ok=True)
    return str(path)


def main() -> None:
    run = Path(sys.argv[1])
    upper, work = _folder(run / "var-lib"), _folder(run / "var-lib-work")
    options = f"lowerdir=/var/lib,upperdir={upper},workdir={work}"
    _mount("-t", "overlay", "-o", options, "overlay", "/var/lib")
    # On the plain file system, so that sockets and inotify work from outside of the node as well.
    _mount("--bind", _folder(run / "kubelet"), _folder(Path("/var/lib/kubelet")))
    _mount("--bind", _folder(run / "log"), "/var/log")
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    if _UNIFIED.is_mount():  # crun knows no mixture of cgroups' versions
        subprocess.run(["umount", str(_UNIFIED)], check=True, stdin=subprocess.DEVNULL)
    _mount("--make-rshared", "/")  # among our own; unshare has cut the way to the host's
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    (run / "node.ready").touch()
    while True:
        signal.pause()


main()
