"""The demo of the device plugin: it and an embedded kubelet in one process, on real device nodes.

What it prints has just happened: nothing is simulated but the kubelet. A pseudo terminal serves as
the stick that is pulled and plugged, because anybody may make one and the kernel removes its node.
"""

import os
import sys
import time
from functools import partial
from pathlib import Path

from device_plugin import config
from device_plugin.config import Config
from device_plugin.daemon import CannotStart, Options
from device_plugin.demo.stage import (
    Steps,
    Stick,
    as_table,
    folder,
    indented,
    running,
    show_container,
)
from device_plugin.exit_codes import BAD_CONFIG, FAILED, OK
from device_plugin.reload import ConfigInUse
from device_plugin.table import fill
from device_plugin.testing import (
    AdmissionError,
    Container,
    FakeKubelet,
    Pod,
    Runtime,
    RuntimeRefusal,
)

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
    with folder() as place, Stick() as stick:
        if path is not None:
            return _session(path, place, "", None)
        text = _CONFIG.format(serial=stick.node)
        file = place / "config.yaml"
        file.write_text(text)
        return _session(file, place, text, stick)


def _session(path: Path, place: Path, text: str, stick: Stick | None) -> int:
    checked = config.read(path)
    for problem in checked.problems:
        print(problem, file=sys.stderr)
    if checked.config is None:
        return BAD_CONFIG
    options = Options(
        device_plugin_dir=place / "device-plugins",
        kubelet_root=place,
        state_dir=place / "state",
        cdi_dir=place / "cdi",
        http=None,
    )
    runtime = Runtime(cdi_directories=[os.fspath(options.cdi_dir)])
    with FakeKubelet(place / "device-plugins", root=place, runtime=runtime) as kubelet:
        try:
            with running(ConfigInUse(path, checked), options):
                _Show(checked.config, kubelet).all(text, stick)
        except (CannotStart, AssertionError, RuntimeRefusal) as why:
            print(why, file=sys.stderr)
            return FAILED
    return OK


class _Show(Steps):
    """The steps, each printing what the kubelet saw."""

    def __init__(self, config_: Config, kubelet: FakeKubelet) -> None:
        super().__init__(kubelet)
        self._names = [resource.name for resource in config_.resources]

    def all(self, text: str, stick: Stick | None) -> None:
        if text:
            self.title("the config")
            indented(text)
        self._registered()
        pod = self._allocated()
        if stick is not None and pod is not None:
            self._broken_and_healed(stick, pod)
        self._kubelet_restarted()
        if pod is not None:
            self._container_restarted(pod)

    def _registered(self) -> None:
        self.title("registered with the kubelet, as `kubectl describe node` would show it")
        self._wait_for_lists(since=0)
        rows: list[tuple[str, ...]] = [("RESOURCE", "CAPACITY", "ALLOCATABLE", "DEVICES")]
        for name in self._names:
            ids = list(self.kubelet.devices(name))
            shown = ", ".join(ids[:3]) + (", ..." if len(ids) > 3 else "")  # noqa: PLR2004
            counts = (self.kubelet.capacity(name), self.kubelet.allocatable(name))
            rows.append((name, *map(str, counts), shown or "-"))
        indented(as_table(rows))

    def _allocated(self) -> Pod | None:
        there = [name for name in self._names if self.kubelet.allocatable(name)]
        absent = [name for name in self._names if name not in there]
        asks = "one of each resource" if there else "nothing: there is no device"
        self.title(f"a Pod asks for {asks}; what its container finds:")
        if not there:
            return None
        if absent:
            indented(fill(f"not asked for, because there is none: {', '.join(absent)}"))
        pod = Pod("demo", containers=[Container("main", limits=dict.fromkeys(there, 1))])
        try:
            self.kubelet.admit(pod)
        except AdmissionError as refused:
            indented(str(refused))
            return None
        show_container(self.kubelet.create_container(pod, "main"))
        return pod

    def _broken_and_healed(self, stick: Stick, pod: Pod) -> None:
        for title, act, count in (
            (f"{stick.node} is pulled", stick.pull, 0),
            (f"{stick.node} is plugged in again", stick.plug, 1),
        ):
            self.title(title)
            started = time.monotonic()
            act()
            self.wait(partial(self._serial_is, count))
            told = self.kubelet.lists(_SERIAL)[-1].received - started
            status = self.kubelet.allocated_resources_status(pod, "main")[_SERIAL]
            indented(f"the kubelet was told after {told * 1000:.1f} ms; allocatable {count}")
            indented("\n".join(f"the Pod's status: {id_} {text}" for id_, text in status.items()))

    def _serial_is(self, count: int) -> bool:
        return self.kubelet.allocatable(_SERIAL) == count

    def _kubelet_restarted(self) -> None:
        self.title("the kubelet restarts: it removes all plugins' sockets and forgets them")
        started = time.monotonic()
        self.kubelet.restart()
        told = self._wait_for_lists(since=started) - started
        indented(f"every resource was listed again after {told * 1000:.1f} ms")

    def _container_restarted(self, pod: Pod) -> None:
        self.title("the container restarts: the kubelet replays the first answer, asking nobody")
        show_container(self.kubelet.restart_container(pod, "main"))

    def _wait_for_lists(self, *, since: float) -> float:
        """Wait until every resource has sent a list, and tell when the last one came."""

        def last_lists() -> list[float]:
            lists = [self.kubelet.lists(name) for name in self._names]
            return [of_one[-1].received for of_one in lists if of_one]

        self.wait(lambda: sum(at > since for at in last_lists()) == len(self._names))
        return max(last_lists())
