"""`device-plugin demo`: the plugin and an embedded kubelet in one process, on real device nodes.

What it prints has just happened: nothing is simulated but the kubelet. A pseudo terminal serves as
the stick that is pulled and plugged, because anybody may make one and the kernel removes its node.
"""

import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Self

from device_plugin import config, log
from device_plugin.config import Config
from device_plugin.daemon import CannotStart, Daemon, Options
from device_plugin.exit_codes import BAD_CONFIG, FAILED, OK
from device_plugin.reload import ConfigInUse
from device_plugin.table import WIDTH, fill, table
from device_plugin.testing import AdmissionError, Container, Created, FakeKubelet, Pod

_WAIT = 10.0  # seconds for anything that takes milliseconds
_MAX_PAIRS = 64  # somebody else may have taken the number meanwhile
_INDENT = "   "
_SERIAL = "example.com/serial"
_CONFIG = """\
version: 1
resources:
  - name: example.com/serial            # one device node, under a constant name inside
    devices:
      - path: {serial}
        to: /dev/modem
    container:
      env: {{MODEM: "{{path}}"}}
  - name: example.com/null              # one device, held up to ten times
    devices:
      - path: /dev/null
        replicas: 10
  - name: example.com/random            # a capture: /dev/urandom
    devices:
      - path: "/dev/{{kind}}random"
    container:
      env: {{RANDOM_KIND: "{{kind}}"}}
  - name: example.com/licence           # nothing to mount
    devices:
      - virtual: {{count: 3, attributes: {{edition: full}}}}
    container:
      env: {{LICENCE: "{{id}}", EDITION: "{{attribute.edition}}"}}
"""


def run(path: Path | None) -> int:
    """Show everything once, with the built-in config or the one at `path`."""
    log.configure("error", as_json=False)
    with _folder() as folder, _Stick() as stick:
        if path is not None:
            return _session(path, folder, "", None)
        text = _CONFIG.format(serial=stick.node)
        file = folder / "config.yaml"
        file.write_text(text)
        return _session(file, folder, text, stick)


def _session(path: Path, folder: Path, text: str, stick: "_Stick | None") -> int:
    checked = config.read(path)
    for problem in checked.problems:
        print(problem, file=sys.stderr)
    if checked.config is None:
        return BAD_CONFIG
    with FakeKubelet(folder / "device-plugins", root=folder) as kubelet:
        try:
            with _plugin(ConfigInUse(path, checked), folder):
                _Show(checked.config, kubelet).all(text, stick)
        except (CannotStart, AssertionError) as why:
            print(why, file=sys.stderr)
            return FAILED
    return OK


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="device-plugin-demo-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def _plugin(in_use: ConfigInUse, folder: Path) -> Iterator[None]:
    """The daemon on a thread; in a cluster it is a process of its own."""
    options = Options(
        device_plugin_dir=folder / "device-plugins",
        kubelet_root=folder,
        state_dir=folder / "state",
        cdi_dir=folder / "cdi",
        http=None,
    )
    daemon = Daemon(in_use, options)
    daemon.start()
    thread = threading.Thread(target=daemon.run)
    thread.start()
    try:
        yield
    finally:
        daemon.stop()
        thread.join()
        daemon.close()


class _Stick:
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


class _Show:
    """The steps, each printing what the kubelet saw."""

    def __init__(self, config_: Config, kubelet: FakeKubelet) -> None:
        self._names = [resource.name for resource in config_.resources]
        self._kubelet = kubelet
        self._step = 0

    def all(self, text: str, stick: _Stick | None) -> None:
        if text:
            self._title("the config")
            _indented(text)
        self._registered()
        pod = self._allocated()
        if stick is not None and pod is not None:
            self._broken_and_healed(stick, pod)
        self._kubelet_restarted()
        if pod is not None:
            self._container_restarted(pod)

    def _registered(self) -> None:
        self._title("registered with the kubelet, as `kubectl describe node` would show it")
        self._wait_for_lists(since=0)
        rows: list[tuple[str, ...]] = [("RESOURCE", "CAPACITY", "ALLOCATABLE", "DEVICES")]
        for name in self._names:
            ids = list(self._kubelet.devices(name))
            shown = ", ".join(ids[:3]) + (", ..." if len(ids) > 3 else "")  # noqa: PLR2004
            counts = (self._kubelet.capacity(name), self._kubelet.allocatable(name))
            rows.append((name, *map(str, counts), shown or "-"))
        _indented(_table(rows))

    def _allocated(self) -> Pod | None:
        there = [name for name in self._names if self._kubelet.allocatable(name)]
        absent = [name for name in self._names if name not in there]
        asks = "one of each resource" if there else "nothing: there is no device"
        self._title(f"a Pod asks for {asks}; what its container finds:")
        if not there:
            return None
        if absent:
            _indented(fill(f"not asked for, because there is none: {', '.join(absent)}"))
        pod = Pod("demo", containers=[Container("main", limits=dict.fromkeys(there, 1))])
        try:
            self._kubelet.admit(pod)
        except AdmissionError as refused:
            _indented(str(refused))
            return None
        _show_container(self._kubelet.create_container(pod, "main"))
        return pod

    def _broken_and_healed(self, stick: _Stick, pod: Pod) -> None:
        for title, act, count in (
            (f"{stick.node} is pulled", stick.pull, 0),
            (f"{stick.node} is plugged in again", stick.plug, 1),
        ):
            self._title(title)
            started = time.monotonic()
            act()
            self._wait(partial(self._serial_is, count))
            told = self._kubelet.lists(_SERIAL)[-1].received - started
            status = self._kubelet.allocated_resources_status(pod, "main")[_SERIAL]
            _indented(f"the kubelet was told after {told * 1000:.1f} ms; allocatable {count}")
            _indented("\n".join(f"the Pod's status: {id_} {text}" for id_, text in status.items()))

    def _serial_is(self, count: int) -> bool:
        return self._kubelet.allocatable(_SERIAL) == count

    def _kubelet_restarted(self) -> None:
        self._title("the kubelet restarts: it removes all plugins' sockets and forgets them")
        started = time.monotonic()
        self._kubelet.restart()
        told = self._wait_for_lists(since=started) - started
        _indented(f"every resource was listed again after {told * 1000:.1f} ms")

    def _container_restarted(self, pod: Pod) -> None:
        self._title("the container restarts: the kubelet replays the first answer, asking nobody")
        _show_container(self._kubelet.restart_container(pod, "main"))

    def _wait_for_lists(self, *, since: float) -> float:
        """Wait until every resource has sent a list, and tell when the last one came."""

        def last_lists() -> list[float]:
            lists = [self._kubelet.lists(name) for name in self._names]
            return [of_one[-1].received for of_one in lists if of_one]

        self._wait(lambda: sum(at > since for at in last_lists()) == len(self._names))
        return max(last_lists())

    def _title(self, text: str) -> None:
        self._step += 1
        print(f"\n{self._step}. {text}", flush=True)

    def _wait(self, fact: Callable[[], bool]) -> None:
        self._kubelet.wait_for(lambda _: fact(), timeout=_WAIT)


def _show_container(created: Created) -> None:
    rows = [
        ("node", node.container_path, f"is {node.host_path}, {node.type} {node.major}:{node.minor}")
        for node in sorted(created.devices, key=lambda node: node.container_path)
    ]
    rows += [("mount", mount.container_path, f"is {mount.host_path}") for mount in created.mounts]
    rows += [("env", key, value) for key, value in sorted(created.envs.items())]
    _indented(_table(rows))


def _table(rows: Iterable[tuple[str, ...]]) -> str:
    return table(rows, wrap=True, width=WIDTH - len(_INDENT))


def _indented(text: str) -> None:
    print("\n".join(f"{_INDENT}{line}" for line in text.splitlines()), flush=True)
