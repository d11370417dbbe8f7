"""What a kubelet changes on its host outside of our namespaces: remembered, and put back."""

import contextlib
import json
import os
import socket
from pathlib import Path

from cluster.places import RUN, CannotStart

CGROUP = "device-plugin-e2e"
_CGROUPS = Path("/sys/fs/cgroup")
_CONTROLLERS = ("cpuset", "cpu", "io", "memory", "pids")  # of version 2
_SYSCTLS = (
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "net/ipv4/ip_forward",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)
_SAVED = RUN / "sysctl.json"
_CAP_SYS_RESOURCE = 24


def cgroup_v2() -> bool:
    return (_CGROUPS / "cgroup.controllers").exists()


def may_lower_oom_scores() -> bool:
    """Whether root here has CAP_SYS_RESOURCE."""
    status = Path("/proc/self/status").read_text()
    effective = next(line for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(effective.split()[1], 16) >> _CAP_SYS_RESOURCE & 1)


def save() -> None:
    """Remember what a kubelet sets, and make the cgroups that it works in."""
    values = {
        name: (Path("/proc/sys") / name).read_text().strip()
        for name in _SYSCTLS
        if (Path("/proc/sys") / name).exists()
    }
    _SAVED.write_text(json.dumps(values))
    for folder in _roots():
        try:
            (folder / CGROUP).mkdir(exist_ok=True)
            if cgroup_v2():
                _delegate(folder)
        except OSError as error:
            raise CannotStart(f"cgroup {folder / CGROUP}: {error.strerror}") from None


def restore() -> None:
    """Put back what `save` remembered; the processes of the node must be gone."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        for name, value in json.loads(_SAVED.read_text()).items():
            place = Path("/proc/sys") / name
            if place.read_text().strip() != value:
                place.write_text(value)
    for root in _roots():
        for folder, _, _ in os.walk(root / CGROUP, topdown=False):
            with contextlib.suppress(FileNotFoundError):
                Path(folder).rmdir()


def _delegate(root: Path) -> None:
    """Let the cgroup below have the controllers that a kubelet wants."""
    has = (root / CGROUP / "cgroup.controllers").read_text().split()
    missing = [f"+{name}" for name in _CONTROLLERS if name not in has]
    if missing:
        (root / "cgroup.subtree_control").write_text(" ".join(missing))


def _roots() -> list[Path]:
    """The cgroup hierarchies that have controllers."""
    if cgroup_v2():
        return [_CGROUPS]
    return [path for path in _CGROUPS.iterdir() if path.is_dir() and not path.is_symlink()]


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that nobody uses now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for free in sockets:
            free.bind(("127.0.0.1", 0))
        return [free.getsockname()[1] for free in sockets]
