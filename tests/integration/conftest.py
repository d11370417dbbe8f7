"""The daemon as a process of its own, behind a fake kubelet: real sockets, real device nodes."""

import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import grpc
import pytest

from device_plugin._api.deviceplugin.v1beta1.deviceplugin_pb2_grpc import DevicePluginStub
from device_plugin.status import ask
from device_plugin.testing import Container, Created, FakeKubelet, Pod, Registration, Runtime

PROGRAM = (sys.executable, "-m", "device_plugin", "run")
DOMAIN = "example.com"
NULL = (1, 3)
_GRPC = re.compile(r"[IWEF]\d{4} .*\.cc:\d+\] ")  # its C core writes lines of its own

Facts = dict[str, Any]
Value = TypeVar("Value")


def _eventually(look: Callable[[], Value], timeout: float = 20) -> Value:
    """Look until it is true, where nobody can tell us when."""
    deadline = time.monotonic() + timeout
    while not (found := look()):
        assert time.monotonic() < deadline, f"not so within {timeout:g} s"
        time.sleep(0.005)
    return found


class Daemon:
    """A running `device-plugin run`, and what it logs."""

    def __init__(self, command: Sequence[str | Path]) -> None:
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self._lines: list[Facts] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def log(self, event: str = "", **facts: object) -> list[Facts]:
        """The lines of an event; text in `facts` must be found in the line's, all else be equal."""
        with self._news:
            return [line for line in self._lines if _fits(line, event, facts)]

    def wait_log(
        self, event: str, *, times: int = 1, timeout: float = 20, **facts: object
    ) -> Facts:
        """Wait for the line (or the so manieth one) and return it."""
        with self._news:
            enough = self._news.wait_for(lambda: len(self.log(event, **facts)) >= times, timeout)
            assert enough, f"no {event!r} with {facts} ({times} times) within {timeout:g} s"
            return self.log(event, **facts)[times - 1]

    def get(self, page: str) -> tuple[int, str]:
        """Ask over HTTP: status and body; 0 without an answer."""
        port = self.wait_log("serving HTTP")["port"]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{page}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def wait_page(self, page: str, status: int, text: str = "", timeout: float = 20) -> str:
        """Ask until the answer is this one; returns the body."""

        def body() -> str:
            answer = self.get(page)
            return answer[1] if answer[0] == status and text in answer[1] else ""

        return _eventually(body, timeout)

    def end(self, signum: int = signal.SIGTERM) -> float:
        """Ask it to end; returns how many seconds it took to exit well."""
        started = time.monotonic()
        self.process.send_signal(signum)
        assert self.wait() == 0
        return time.monotonic() - started

    def kill(self) -> None:
        self.process.kill()
        self.wait()

    def wait(self, timeout: float = 20) -> int:
        """Wait for the end; returns the exit code. The log is then complete."""
        code = self.process.wait(timeout)
        self._reader.join()
        return code

    def threads(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    def open_files(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def close(self) -> None:
        """End it, and find what no daemon may ever say."""
        try:
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGCONT)
                self.end()
        finally:
            self.process.kill()
            self.wait()
            for line in self.log():
                print(line.get("raw") or json.dumps(line))
        assert not [line for line in self.log() if "raw" in line or "exception" in line]

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stream:
            for line in stream:
                with self._news:
                    self._lines.append(_parsed(line))
                    self._news.notify_all()


def _parsed(line: str) -> Facts:
    try:
        facts: Facts = json.loads(line)
    except ValueError:
        return {"gRPC" if _GRPC.match(line) else "raw": line.rstrip()}
    return facts


def _fits(line: Facts, event: str, facts: Mapping[str, object]) -> bool:
    if event and line.get("event") != event:
        return False
    return all(
        value in (line.get(key) or "") if isinstance(value, str) else line.get(key) == value
        for key, value in facts.items()
    )


class Kubelet(FakeKubelet):
    """The fake one, with what the tests ask it most."""

    ids_may_leave = False  # set where a process that remembers less takes over

    def settled(self, resource: str) -> bool:
        """Whether the stream is open and no Register call pending: a list may be quicker."""
        ours = [one for one in self.registrations if one.resource == resource]
        return self.is_streaming(resource) and all(one.replied is not None for one in ours)

    def until(self, resource: str, devices: Mapping[str, str], timeout: float = 20) -> None:
        """Wait until the list is exactly this one."""
        self.wait_for(lambda k: k.settled(resource) and k.devices(resource) == devices, timeout)

    def healthy(self, resource: str, count: int = 1, timeout: float = 20) -> list[str]:
        """Wait until so many devices are listed and all are healthy; returns their IDs."""
        healths = ["Healthy"] * count
        self.wait_for(
            lambda k: k.settled(resource) and list(k.devices(resource).values()) == healths, timeout
        )
        return list(self.devices(resource))

    def run(self, resource: str, count: int = 1, *, name: str = "pod") -> tuple[Pod, Created]:
        """Admit a Pod that wants devices, and create its container."""
        pod = self.admit(Pod(name, [Container("main", {resource: count})]))
        return pod, self.create_container(pod, "main")

    def accepted(self, resource: str, count: int, timeout: float = 20) -> list[Registration]:
        """Wait until so many registrations were accepted, and a list has come for the last."""
        self.wait_for(
            lambda k: (
                k.settled(resource)
                and len(k.good(resource)) == count
                and any(
                    one.registration == k.good(resource)[-1].number for one in k.lists(resource)
                )
            ),
            timeout,
        )
        return self.good(resource)

    def good(self, resource: str) -> list[Registration]:
        return [one for one in self.registrations if one.resource == resource and one.accepted]

    def check_order(self, resource: str) -> None:
        """No Register call while another is in flight or a stream is open; no socket twice."""
        ours = [one for one in self.registrations if one.resource == resource]
        for before, one in itertools.pairwise(ours):
            assert before.replied is not None
            assert before.replied < one.received, "two calls at once"
        for number, one in enumerate(ours):
            streams = [old.stream_ended for old in ours[:number] if old.stream_opened is not None]
            # Both ends know of a stream's end; ours is a moment ahead of the kubelet's.
            assert all(ended and ended < one.received + 0.05 for ended in streams), "still streams"
        names = [one.endpoint for one in ours if one.accepted]
        assert len(set(names)) == len(names), "a socket comes again"

    def check_lists(self) -> None:
        """No list twice on one stream, no ID ever gone."""
        last: dict[str, tuple[int, tuple[tuple[str, str, tuple[int, ...]], ...]]] = {}
        names = {registration.resource for registration in self.registrations}
        for one in (one for name in names for one in self.lists(name)):
            stream, devices = last.get(one.resource, (0, ()))
            assert (stream, devices) != (one.registration, one.devices), "the same list twice"
            gone = {id_ for id_, *_ in devices} - {id_ for id_, *_ in one.devices}
            assert not gone or self.ids_may_leave, f"{gone} left the list of {one.resource}"
            last[one.resource] = (one.registration, one.devices)


class Node:
    """A place for one test: a host root, the kubelet's folder, and who runs there.

    Root makes device nodes below a host root of its own. Everybody else has the real root, where
    links in a folder of the test's lead to nodes that anybody may have: PTYs.
    """

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self.folder = folder
        self.plugins = folder / "kubelet"
        self.root = folder / "root"
        self.at("/dev").mkdir(parents=True)
        self._real_nodes = os.geteuid() == 0
        self.host_root = str(self.root) if self._real_nodes else "/"
        self._stack = stack
        self._ptys: dict[str, str] = {}

    def at(self, path: str) -> Path:
        """Where a path of the host is for us."""
        return self.root / path.lstrip("/")

    def path(self, path: str) -> str:
        """What the config and the kubelet call it."""
        return path if self._real_nodes else f"{self.root}{path}"

    def add(self, path: str, numbers: tuple[int, int] = NULL) -> Path:
        """Make a device node."""
        node = self.at(path)
        if self._real_nodes:
            os.mknod(node, 0o20666, os.makedev(*numbers))
        else:
            node.symlink_to(self._ptys.get(path) or self._pty(path))
        return node

    def _pty(self, path: str) -> str:
        ends = os.openpty()
        for end in ends:
            self._stack.callback(os.close, end)
        self._ptys[path] = os.ttyname(ends[1])
        return self._ptys[path]

    def kubelet(self, *, running: bool = True, **settings: Any) -> Kubelet:
        """Make a fake kubelet; not `running`, the test starts it later."""
        runtime = Runtime(self.host_root)
        kubelet = Kubelet(self.plugins, root=self.folder, runtime=runtime, seed=1, **settings)
        if running:
            self._stack.enter_context(kubelet)
        else:
            self._stack.push(kubelet)
        self._stack.callback(kubelet.check_lists)
        self._stack.callback(lambda: print(kubelet.dump()))
        return kubelet

    def start(
        self,
        resources: Mapping[str, Any] | str,
        *,
        audit_interval: str = "1h",  # only events can be why something was seen
        state: str = "state",
        http: str = "127.0.0.1:0",
        host_root: str = "",  # the node's own if empty
        within: Sequence[str] = (),
        config: Path | None = None,
    ) -> Daemon:
        """Start a daemon: resources by name, each a list of selectors, or all of it as the file.

        config: the file or folder is there already.
        """
        if config is None:
            config = self.configure(resources, audit_interval=audit_interval, state=state)
        command: list[str | Path] = [*within, *PROGRAM, "--config", config, "--http", http]
        command += ["--device-plugin-dir", self.plugins, "--state-dir", self.folder / state]
        command += ["--kubelet-root", self.folder]
        daemon = Daemon([*command, "--host-root", host_root or self.host_root])
        self._stack.callback(daemon.close)
        return daemon

    def configure(
        self,
        resources: Mapping[str, Any] | str,
        *,
        audit_interval: str = "1h",
        state: str = "state",
    ) -> Path:
        """Write the config of the daemon with this state folder, in one step."""
        config = self.folder / (
            "config.yaml" if state == "state" else f"{state.replace('/', '-')}.yaml"
        )
        new = config.with_suffix(".new")
        new.write_text(_config(resources, audit_interval))
        new.rename(config)
        return config

    def ask(self, command: str, **more: str) -> Facts:
        """Ask the daemon on its status socket, once that is there."""
        _eventually((self.folder / "state" / "status.sock").exists)
        return ask(self.folder / "state", {"command": command, **more})

    def call(self, kubelet: Kubelet, resource: str) -> DevicePluginStub:
        """Talk to a resource's plugin past the kubelet, on the socket that it registered last."""
        names = [one.endpoint for one in kubelet.registrations if one.resource == resource]
        channel = grpc.insecure_channel(f"unix:{self.plugins / names[-1]}")
        self._stack.callback(channel.close)
        return DevicePluginStub(channel)

    @classmethod
    @contextlib.contextmanager
    def made(cls) -> Iterator[Self]:
        # A short path: unix sockets have 107 bytes for theirs.
        folder = Path(tempfile.mkdtemp(prefix="n", dir="/tmp"))
        try:
            with contextlib.ExitStack() as stack:
                yield cls(folder, stack)
        finally:
            shutil.rmtree(folder)


def _config(resources: Mapping[str, Any] | str, audit_interval: str) -> str:
    if isinstance(resources, str):
        return resources
    listed = [
        {"name": f"{DOMAIN}/{name}", **(it if isinstance(it, dict) else {"devices": it})}
        for name, it in resources.items()
    ]
    return json.dumps({"version": 1, "audit_interval": audit_interval, "resources": listed})


@pytest.fixture
def node() -> Iterator[Node]:
    with Node.made() as made:
        yield made


@pytest.fixture(scope="module")
def shared_node() -> Iterator[Node]:
    with Node.made() as made:
        yield made


@pytest.fixture
def kubelet(node: Node) -> Kubelet:
    return node.kubelet()


@pytest.fixture
def eventually() -> Callable[..., Any]:
    return _eventually


@pytest.fixture
def limited() -> Callable[[str, int], list[str]]:
    """Make a command that runs another one in a user namespace with its own inotify limits.

    And without kernel uevents, which a network namespace of its own does not get: other tests make
    devices.
    """

    def limited(what: str, value: int) -> list[str]:
        script = f'echo {value} > /proc/sys/user/max_inotify_{what} && exec "$@"'
        command = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", script, "sh"]
        if subprocess.run([*command, "true"], check=False, capture_output=True).returncode:
            pytest.skip("needs user namespaces: limits inotify in one")
        return command

    return limited
