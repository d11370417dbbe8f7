"""The daemon: wiring, and one loop that looks again whenever something says so.

watch (inotify) ─> "look again" ─> discover ─> check_moved ─> inventory ─> plugin streams
watch (inotify) ─> "look again" ─> servers (our socket, kubelet.sock)
"""

import fcntl
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import structlog

from device_plugin.config import Config, Problem, Resource
from device_plugin.discovery import discover
from device_plugin.endpoint import remove_leftovers
from device_plugin.health import HandedOut, check_moved
from device_plugin.host import Host
from device_plugin.inventory import Change, Inventory, Update
from device_plugin.metrics import Metrics
from device_plugin.plugin import Plugin
from device_plugin.server import Server
from device_plugin.watch import Folders, Watch

if TYPE_CHECKING:
    from device_plugin.http import WebServer

_MAX_NAMED = 20  # devices or notes in one go
_TURN = 5.0  # seconds that the loop may take for a turn before /healthz says so

_log = structlog.get_logger()


class CannotStart(Exception):  # noqa: N818 - one line for whoever started it
    """Why the daemon cannot run, and what to do."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Where things are on this node."""

    device_plugin_dir: Path = Path("/var/lib/kubelet/device-plugins")
    host_root: str = "/"
    state_dir: Path = Path("/var/lib/device-plugin")
    http: tuple[str, int] | None = ("", 8080)


class _Event(Enum):
    LOOK = auto()  # at the devices
    FOLDER = auto()  # at the kubelet's folder: is it the one that we watch
    WEB = auto()  # serve HTTP, if that is not done yet
    STOP = auto()


_AUDIT = (_Event.FOLDER, _Event.LOOK, _Event.WEB)


class Daemon:
    """One per node: `start`, then `run` until `stop`, then `close`."""

    def __init__(self, config: Config, options: Options, refused: Iterable[Problem] = ()) -> None:
        self._config = config
        self._options = options
        self._refused = tuple(refused)  # problems of resources that had to be left out
        self._host = Host(options.host_root)
        self._events: queue.SimpleQueue[_Event | threading.Event] = queue.SimpleQueue()
        self._pending: set[_Event] = set()
        self._said: dict[str, list[str]] = {}
        self.inventory = Inventory(resource.name for resource in config.resources)
        self._metrics = Metrics()
        self._watch = Watch()
        self._devices = Folders(self._watch, partial(self._post, _Event.LOOK))
        self._plugins = Folders(self._watch, self._plugin_folder_changed)
        self._servers: list[Server] = []
        self._web: WebServer | None = None

    def start(self) -> None:
        """Advertise the devices that are there now. Raises CannotStart."""
        self._lock = _lock(self._options.state_dir)
        try:
            self._handed_out = HandedOut(self._options.state_dir)
        except OSError as error:  # a full disk must not cost the node its devices
            _log.error("cannot remember what was handed out", error=str(error))
            self._handed_out = HandedOut(None)
        for name in remove_leftovers(self._options.device_plugin_dir):
            _log.info("removed a socket of an earlier process", socket=name)
        self._look_at_devices()
        self._servers = [self._server(resource) for resource in self._config.resources]
        for server in self._servers:
            server.start()
        self._metrics.collect_from(self.inventory, lambda: self._servers)
        for event in _AUDIT:
            self._post(event)

    def run(self) -> None:
        """Turn until `stop`."""
        audit_at = time.monotonic() + self._config.audit_interval
        while True:
            now = time.monotonic()
            if now >= audit_at:  # events are hints: whatever they missed is found here
                audit_at = now + self._config.audit_interval
                for due in _AUDIT:
                    self._post(due)
                self._wake_servers()
            try:
                event = self._events.get(timeout=max(0, audit_at - now))
            except queue.Empty:
                continue
            if event is _Event.STOP:
                return
            try:
                self._turn(event)
            except Exception:  # noqa: BLE001 - a bug must not end the loop
                _log.exception("a turn of the loop failed")

    def stop(self) -> None:
        """Let `run` return; callable from anywhere, a signal handler too."""
        self._post(_Event.STOP)

    def close(self) -> None:
        """Take the sockets away, end the streams, free the state folder."""
        for server in self._servers:
            server.stop()
        for server in self._servers:
            server.join()
        self._watch.close()
        if self._web is not None:
            self._web.stop()
        self._handed_out.close()
        os.close(self._lock)

    def _post(self, event: _Event) -> None:
        # What waits already need not wait twice: a storm of kernel events stays one "look again".
        if event not in self._pending:
            self._pending.add(event)
            self._events.put(event)

    def _turn(self, event: _Event | threading.Event) -> None:
        if isinstance(event, threading.Event):
            event.set()  # /healthz asks whether the loop turns
            return
        self._pending.discard(event)
        if event is _Event.LOOK:
            self._look()
        elif event is _Event.FOLDER:
            self._watch_plugin_folder()
        else:
            self._start_web()

    def _look(self) -> None:
        folders = self._look_at_devices()
        if self._devices.set(map(self._host.local, folders)):
            self._post(_Event.LOOK)  # for what happened before the new watch

    def _look_at_devices(self) -> set[str]:
        look = self._host.look()
        everything = discover(look, self._config)
        found = {c.device.id for one in everything.values() for c in one.candidates}
        for name, discovered in everything.items():
            candidates = [check_moved(look, c, self._handed_out) for c in discovered.candidates]
            candidates += self._handed_out.absent(name, found)
            self._report(name, discovered.notes, self.inventory.replace(name, candidates))
        return look.folders

    def _report(self, resource: str, notes: list[str], update: Update) -> None:
        """Log what is new, once."""
        log = _log.bind(resource=resource)
        added = [change.listed.device.id for change in update.changes if change.before is None]
        if added:
            log.info("devices added", count=len(added), devices=added[:_MAX_NAMED])
        for change in update.changes:
            _report_health(log, change)
        notes = notes + update.notes
        if notes != self._said.get(resource, []):
            self._said[resource] = notes
            for note in notes[:_MAX_NAMED]:
                log.warning("not offered", reason=note)
            if notes[_MAX_NAMED:]:
                log.warning("not offered", reason=f"and {len(notes) - _MAX_NAMED} more like these")

    def _server(self, resource: Resource) -> Server:
        def make_plugin(changed: Callable[[], None]) -> Plugin:
            return Plugin(
                resource=resource,
                inventory=self.inventory,
                host=self._host,
                handed_out=self._handed_out,
                metrics=self._metrics,
                changed=changed,
            )

        return Server(resource.name, self._options.device_plugin_dir, make_plugin)

    def _plugin_folder_changed(self) -> None:
        self._wake_servers()
        self._post(_Event.FOLDER)

    def _watch_plugin_folder(self) -> None:
        if self._plugins.set([os.fspath(self._options.device_plugin_dir)]):
            self._wake_servers()
            self._post(_Event.FOLDER)  # for what came before the new watch: a folder below, perhaps

    def _wake_servers(self) -> None:
        for server in self._servers:
            server.wake()

    def _start_web(self) -> None:
        """Devices come first: without its address the daemon runs on, and tries again."""
        if self._options.http is None or self._web is not None:
            return
        from device_plugin.http import WebServer  # noqa: PLC0415 - after the first registrations

        pages = {"/healthz": self._healthz, "/readyz": self._readyz, "/metrics": self._exposition}
        try:
            self._web = WebServer(self._options.http, pages)
        except OSError as error:
            reason = f"{error.strerror}: choose another address with --http, or --http off"
            if self._said.get("http") != [reason]:
                self._said["http"] = [reason]
                _log.error("no HTTP", address=self._options.http, reason=reason)
        else:
            _log.info("serving HTTP", port=self._web.port)

    def _healthz(self) -> tuple[bool, str]:
        turned = threading.Event()
        self._events.put(turned)
        dead = [server.resource for server in self._servers if not server.is_alive()]
        if not turned.wait(_TURN):
            return False, f"the loop has not turned for {_TURN:g} s\n"
        return not dead, "".join(f"{name}: its thread has ended\n" for name in dead) or "ok\n"

    def _readyz(self) -> tuple[bool, str]:
        problems = [f"{s.resource}: {s.problem}" for s in self._servers if s.problem]
        problems += [f"{p.resource}: left out: {p}" for p in self._refused]
        return not problems, "".join(f"{line}\n" for line in problems) or "ok\n"

    def _exposition(self) -> tuple[bool, str]:
        return True, self._metrics.exposition().decode()


def _report_health(log: structlog.typing.FilteringBoundLogger, change: Change) -> None:
    listed = change.listed
    if listed.reason == (change.before.reason if change.before is not None else ""):
        return
    if listed.healthy:
        log.info("device healthy", device=listed.device.id)
    else:
        log.warning("device unhealthy", device=listed.device.id, reason=listed.reason)


def _lock(folder: Path) -> int:
    """Hold the state folder for as long as the returned descriptor is open."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CannotStart(
            f"state folder {folder}: {error.strerror}: choose another with --state-dir"
        ) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise CannotStart(
            f"another daemon uses the state folder {folder}: stop it, or choose another with"
            " --state-dir"
        ) from None
    return lock
