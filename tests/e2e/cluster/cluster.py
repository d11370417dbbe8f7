"""The whole: up, and down again to a host as it was before."""

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cluster import build, control, host, images, needs, node, pki, worker
from cluster.commands import clean_scratch, run
from cluster.places import CACHE, HERE, KUBECONFIG, NODE, RUN, CannotStart

Say = Callable[[str], None]
_NODE_TIMEOUT = 120
_IDENTITY = RUN / "identity"  # of what runs; written last


@dataclass(frozen=True)
class Cluster:
    """A running one-node cluster."""

    path: list[Path]
    kubeconfig: Path = KUBECONFIG
    took: dict[str, float] = field(default_factory=dict)

    def load(self, archive: Path) -> None:
        """Make an image known to the node."""
        done = worker.ctr(self.path, "images", "import", "--local", str(archive))
        if done.returncode:
            raise CannotStart(f"{archive}: {done.stderr.strip()}")

    def kubectl(self, *arguments: str) -> str:
        return run([str(self.program("kubectl")), f"--kubeconfig={self.kubeconfig}", *arguments])

    def program(self, name: str) -> Path:
        return next(folder / name for folder in self.path if (folder / name).exists())


def up(version: str, say: Say = print) -> Cluster:
    """The running cluster of that version, or a new one. Raises CannotStart."""
    needs.check()
    with _lock():
        clean_scratch()
        clock = _Clock()
        path = build.programs(version, say)
        clock.lap("build")
        if not _runs(path):
            _down()
            needs.check_room(needs.RUN_ROOM)
            sandbox = images.pause()
            clock.lap("images")
            try:
                _start(path, sandbox, say)
            except BaseException:
                _keep_logs()
                _down()
                raise
            _IDENTITY.write_text(_identity(path))
            clock.lap("start")
        return Cluster(path, took=clock.laps)


def down() -> None:
    """Leave nothing but the cache. Nothing to do is no error."""
    with _lock():
        _down()
        clean_scratch()


def _start(path: list[Path], sandbox: Path, say: Say) -> None:
    say("starting the cluster ...")
    RUN.mkdir(parents=True)
    RUN.chmod(0o700)
    host.save()
    pki.make()
    node.start()
    worker.start_containerd(path)
    control.start(path)
    cluster = Cluster(path)
    cluster.load(sandbox)
    worker.configure_kubelet()
    worker.start_kubelet(path)
    node.wait_for(
        lambda: worker.KUBELET.outer is None or _node_ready(cluster),
        _NODE_TIMEOUT,
        lambda: f"the node is not Ready\n{worker.KUBELET.last_lines()}",
    )
    if worker.KUBELET.outer is None:
        raise CannotStart(f"the kubelet ended\n{worker.KUBELET.last_lines()}")


def _node_ready(cluster: Cluster) -> bool:
    """The node is Ready, and Pods can be made: their service account is there."""
    ready = 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'
    try:
        if cluster.kubectl("get", "node", NODE, "-o", ready) != "True":
            return False
        cluster.kubectl("get", "serviceaccount", "default", "-o", "name")
    except CannotStart:
        return False
    return True


def _identity(path: list[Path]) -> str:
    """What a cluster is made of: its programs, and how this folder starts them."""
    ours = hashlib.sha256(b"\0".join(file.read_bytes() for file in sorted(HERE.glob("*.py"))))
    return "\n".join([*map(str, path), ours.hexdigest()])


def _runs(path: list[Path]) -> bool:
    """Whether the cluster of just these programs is up and well."""
    try:
        same = _IDENTITY.read_text() == _identity(path)
    except OSError:
        return False
    return same and node.running() and _node_ready(Cluster(path))


def _down() -> None:
    node.stop()
    host.restore()
    # The processes' mounts are gone with them; a folder that is still a mount is not ours to empty.
    if RUN.exists():
        shutil.rmtree(RUN)


def _keep_logs() -> None:
    kept = CACHE / "failed-logs"
    shutil.rmtree(kept, ignore_errors=True)
    if (RUN / "logs").exists():
        shutil.copytree(RUN / "logs", kept)


@contextmanager
def _lock() -> Iterator[None]:
    """One at a time; the lock is gone with its process."""
    CACHE.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(CACHE / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise CannotStart(f"another run builds or starts a cluster in {CACHE}") from None
    else:
        yield
    finally:
        os.close(descriptor)


class _Clock:
    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._since = time.monotonic()

    def lap(self, name: str) -> None:
        now = time.monotonic()
        self.laps[name], self._since = now - self._since, now
