"""What both demos share: a daemon on a thread, a stick to pull, and how steps are printed."""

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from device_plugin.daemon import Daemon, Options
from device_plugin.reload import ConfigInUse
from device_plugin.table import WIDTH, table
from device_plugin.testing import Created, FakeKubelet

_WAIT = 10.0  # seconds for anything that takes milliseconds
_MAX_PAIRS = 64  # somebody else may have taken the number meanwhile
_INDENT = "   "


@contextmanager
def folder() -> Iterator[Path]:
    """A folder for one demo; its path is short, for sockets."""
    made = Path(tempfile.mkdtemp(prefix="device-plugin-demo-"))
    try:
        yield made
    finally:
        shutil.rmtree(made)


@contextmanager
def running(in_use: ConfigInUse, options: Options) -> Iterator[None]:
    """The daemon on a thread; in a cluster it is a process of its own. Raises CannotStart."""
    daemon = Daemon(in_use, options)
    thread = threading.Thread(target=daemon.run)
    try:
        daemon.start()
        thread.start()
        yield
    finally:
        daemon.stop()
        if thread.ident is not None:
            thread.join()
        daemon.close()


class Stick:
    """A device that can be pulled and plugged: a pseudo terminal."""

    def __enter__(self) -> Self:
        self._ends = os.openpty()
        self.node = os.ttyname(self._ends[1])
        return self

    def __exit__(self, *_: object) -> None:
        self.pull()

    def pull(self) -> None:
        for end in self._ends:
            with suppress(OSError):
                os.close(end)
        self._ends = (-1, -1)

    def plug(self) -> None:
        """Bring the same node back: the kernel gives the lowest free number."""
        pairs = [os.openpty()]
        while os.ttyname(pairs[-1][1]) != self.node and len(pairs) < _MAX_PAIRS:
            pairs.append(os.openpty())
        self._ends = pairs.pop()
        for end in (end for pair in pairs for end in pair):
            os.close(end)


class Steps:
    """Numbers the steps, and waits for what they bring about."""

    def __init__(self, kubelet: FakeKubelet) -> None:
        self.kubelet = kubelet
        self._step = 0

    def title(self, text: str) -> None:
        self._step += 1
        print(f"\n{self._step}. {text}", flush=True)

    def wait(self, fact: Callable[[], bool]) -> None:
        self.kubelet.wait_for(lambda _: fact(), timeout=_WAIT)


def show_container(created: Created) -> None:
    rows = [
        ("node", node.container_path, f"is {node.host_path}, {node.type} {node.major}:{node.minor}")
        for node in sorted(created.devices, key=lambda node: node.container_path)
    ]
    rows += [("mount", mount.container_path, f"is {mount.host_path}") for mount in created.mounts]
    rows += [("env", key, value) for key, value in sorted(created.envs.items())]
    rows += [("annotation", key, value) for key, value in sorted(created.annotations.items())]
    indented(
        as_table(rows) if rows else "nothing: its devices have no nodes, and `container` adds none"
    )


def as_table(rows: Iterable[tuple[str, ...]]) -> str:
    return table(rows, wrap=True, width=WIDTH - len(_INDENT))


def indented(text: str) -> None:
    print("\n".join(f"{_INDENT}{line}" for line in text.splitlines()), flush=True)
