"""The daemon: wiring, and one loop that looks again whenever something says so.

watch, uevents, programs ─> "look again" ─> upkeep: discovery, holders, ... ─> inventory ─> streams
watch (inotify) ─> "look again" ─> servers (our socket, kubelet.sock)
watch (inotify) ─> "read again" ─> the config ─> resources served
"""

import os
import queue
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import structlog

from device_plugin.cdi import Specs
from device_plugin.config import Config, Resource
from device_plugin.dra.place import Place
from device_plugin.dynamic import Dynamic
from device_plugin.endpoint import remove_leftovers
from device_plugin.host import Host
from device_plugin.inventory import Inventory
from device_plugin.metrics import Metrics
from device_plugin.pages import Pages
from device_plugin.plugin import Plugin
from device_plugin.podresources import SOCKET, Holdings, PodResources
from device_plugin.programs import Programs
from device_plugin.release import CHECKPOINT, Releases
from device_plugin.reload import ConfigInUse
from device_plugin.serving import Serving
from device_plugin.state import Disabled, HandedOut, lock
from device_plugin.uevents import Uevents
from device_plugin.upkeep import Upkeep
from device_plugin.watch import Folders, Watch

if TYPE_CHECKING:
    from device_plugin.http import WebServer
    from device_plugin.status import StatusServer

_TURN = 5.0  # seconds that the loop may take for a turn before /healthz says so
_FIRST_ANSWER = 0.2  # seconds to wait at start: for the kubelet to say who holds what, for programs
_REREAD = 0.1  # seconds between two readings of the config
_PAGES_AFTER = 0.05  # seconds after the first registrations: the kubelet asks for lists meanwhile

_log = structlog.get_logger()


class CannotStart(Exception):  # noqa: N818 - one line for whoever started it
    """Why the daemon cannot run, and what to do."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Where things are on this node, and what it is in the cluster."""

    device_plugin_dir: Path
    kubelet_root: Path
    host_root: str = "/"
    state_dir: Path
    cdi_dir: Path
    http: tuple[str, int] | None  # where to serve pages; None: nowhere
    pod: str = ""  # the name of the Pod that this process runs in
    node: str = ""  # the name of this node in the cluster: only DRA asks for it
    kubeconfig: Path | None = None  # None: a Pod's own access to the API server, for DRA


class _Event(Enum):
    CONFIG = auto()  # read it again, if it has changed
    LOOK = auto()  # at the devices
    HELD = auto()  # the kubelet has answered who holds what, or has not
    FOLDERS = auto()  # the kubelet's and the config's: are they the ones that we watch
    PAGES = auto()  # serve HTTP and the status socket, if that is not done yet
    STOP = auto()


_LOOKS = (_Event.FOLDERS, _Event.CONFIG, _Event.LOOK)
_AUDIT = (*_LOOKS, _Event.PAGES)


class Daemon:
    """One per node: `start`, then `run` until `stop`, then `close`."""

    def __init__(self, in_use: ConfigInUse, options: Options) -> None:
        """Take the state folder, and put together what `start` starts. Raises CannotStart."""
        self._in_use = in_use
        self._options = options
        self._host = Host(options.host_root)
        self._events: queue.SimpleQueue[_Event | threading.Event] = queue.SimpleQueue()
        self._pending: set[_Event] = set()
        self._later: dict[_Event, float] = {}  # to be posted, and when
        self._reread_after = 0.0
        self._said: dict[str, str] = {}
        self._inventory, self._claimable = Inventory(), Inventory()
        self._metrics = Metrics()
        try:
            self._lock = lock(options.state_dir)
            disabled = Disabled(options.state_dir)
        except (OSError, ValueError) as error:
            raise CannotStart(str(error)) from None
        self._handed_out = HandedOut(options.state_dir)
        self._specs = Specs(options.cdi_dir, options.state_dir)
        self._pods = PodResources(
            options.kubelet_root / SOCKET,
            in_use.config.audit_interval,
            partial(self._post, _Event.HELD),
        )
        self._watch = Watch()
        self._devices = Folders(self._watch, partial(self._post, _Event.LOOK))
        self._config_folders = Folders(
            self._watch, partial(self._post, _Event.CONFIG), contents=True
        )
        self._kubelet_folders = Folders(self._watch, self._kubelet_folder_changed)
        self._uevents = Uevents(partial(self._post, _Event.LOOK))
        self._programs = Programs(self._host, partial(self._post, _Event.LOOK))
        self._serving = Serving(
            options.device_plugin_dir, self._inventory, self._specs, self._metrics, self._plugin
        )
        self._dynamic = Dynamic(
            Place(
                node=options.node,
                kubeconfig=options.kubeconfig,
                kubelet_root=options.kubelet_root,
                state_dir=options.state_dir,
                cdi_dir=options.cdi_dir,
                host=self._host,
            ),
            self._claimable,
            changed=partial(self._post, _Event.LOOK),
            handed_out=lambda device: self._handed_out.numbers(device) is not None,
        )
        self._upkeep = Upkeep(
            host=self._host,
            inventory=self._inventory,
            handed_out=self._handed_out,
            disabled=disabled,
            releases=Releases(options.device_plugin_dir / CHECKPOINT, options.pod),
            specs=self._specs,
            metrics=self._metrics,
            answers=self._programs.answer,
            claimable=self._claimable,
            claimed=self._dynamic.held,
        )
        self._pages = Pages(
            config=in_use,
            inventory=self._inventory,
            upkeep=self._upkeep,
            pods=self._pods,
            disabled=disabled,
            servers=lambda: self._serving.servers,
            claimable=self._claimable,
            dynamic=self._dynamic,
            look=partial(self._turned, _Event.LOOK),
        )
        self._web: WebServer | None = None
        self._status: StatusServer | None = None

    def start(self) -> None:
        """Advertise the devices that are there now."""
        self._pods.start()
        if self._handed_out.problem:
            _log.error("cannot remember what was handed out", error=self._handed_out.problem)
        self._programs.serve(self._in_use.config)
        for name in remove_leftovers(self._options.device_plugin_dir):
            _log.info("removed a socket of an earlier process", socket=name)
        by_cdi = {one.name for one in self._in_use.config.resources if one.container.cdi}
        for name in self._specs.remove_leftovers(by_cdi | self._handed_out.resources):
            _log.info("removed a CDI spec of an earlier process", resource=name)
        self._uevents.open()  # before the first look: what comes after it is told
        self._programs.wait(_FIRST_ANSWER)
        self._upkeep.look(self._in_use.config)
        self._pods.wait(0.0, _FIRST_ANSWER)  # at once if there is nobody to ask
        if self._pods.latest is not None and self._take_holdings(self._pods.latest):
            self._upkeep.look(self._in_use.config)
        self._follow()
        for event in _LOOKS:
            self._post(event)
        self._later[_Event.PAGES] = time.monotonic() + _PAGES_AFTER

    def run(self) -> None:
        """Turn until `stop`."""
        audited = time.monotonic()
        while True:
            now = time.monotonic()
            audit_at = audited + self._in_use.config.audit_interval
            if now >= audit_at:  # events are hints: whatever they missed is found here
                audited = now
                self._audit()
                continue
            self._post_due(now)
            try:
                wait = min([audit_at, *self._later.values()]) - now
                event = self._events.get(timeout=max(0, wait))
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

    def reload(self) -> None:
        """Read the config again, if it has changed; callable from anywhere."""
        self._post(_Event.CONFIG)

    def close(self) -> None:
        """Take the sockets away, end the streams, free the state folder; started or not."""
        with ExitStack() as steps:  # done from the last to the first, whatever one comes to
            steps.callback(os.close, self._lock)
            steps.callback(self._handed_out.close)
            for pages in (self._web, self._status):
                if pages is not None:
                    steps.callback(pages.stop)
            steps.callback(self._uevents.close)
            steps.callback(self._watch.close)
            steps.callback(self._serving.stop)
            steps.callback(self._dynamic.stop)
            steps.callback(self._pods.stop)
            steps.callback(self._programs.close)

    def _post(self, event: _Event) -> None:
        # What waits already need not wait twice: a storm of kernel events stays one "look again".
        if event not in self._pending:
            self._pending.add(event)
            self._events.put(event)

    def _post_due(self, now: float) -> None:
        for event in [event for event, at in self._later.items() if now >= at]:
            del self._later[event]
            self._post(event)

    def _audit(self) -> None:
        for due in _AUDIT:
            self._post(due)
        self._serving.wake()
        self._dynamic.wake()

    def _turn(self, event: _Event | threading.Event) -> None:
        if isinstance(event, threading.Event):
            event.set()  # somebody asks whether the loop turns
            return
        self._pending.discard(event)
        if event is _Event.LOOK:
            self._look()
        elif event is _Event.HELD:
            self._take_answer()
        elif event is _Event.CONFIG:
            self._reread()
        elif event is _Event.FOLDERS:
            self._watch_folders()
        else:
            self._serve_pages()

    def _turned(self, event: _Event | None = None) -> bool:
        """Wait until the loop has turned, and has done this by then; for other threads."""
        if event is not None:
            self._post(event)
        turned = threading.Event()
        self._events.put(turned)
        return turned.wait(_TURN)

    def _look(self, before: Config | None = None) -> None:
        folders = self._upkeep.look(self._in_use.config, before)
        self._follow()
        if self._devices.set(map(self._host.local, folders)):
            self._post(_Event.LOOK)  # for what happened before the new watch

    def _take_answer(self) -> None:
        problem = self._pods.problem
        if self._said.get("pods") != problem:
            self._said["pods"] = problem
            if problem:
                _log.warning("nobody says who holds which device", reason=problem)
        if problem or self._pods.latest is None:
            self._upkeep.no_answer()
        elif self._take_holdings(self._pods.latest):
            self._post(_Event.LOOK)
        self._follow()

    def _follow(self) -> None:
        self._serving.follow(self._in_use.config)
        self._dynamic.follow(self._in_use.config)

    def _take_holdings(self, holdings: Holdings) -> bool:
        grace = self._in_use.config.removed_grace
        return self._upkeep.take(holdings, grace, self._serving.streaming)

    def _reread(self) -> None:
        """Take a new config; not more often than it can be worth it."""
        now = time.monotonic()
        if now < self._reread_after:
            self._later[_Event.CONFIG] = self._reread_after
            return
        self._reread_after = now + _REREAD
        self._post(_Event.FOLDERS)  # a link may lead elsewhere, be it to a file that is the same
        was, before = self._in_use.sha256_read, self._in_use.reread(self._serving.names)
        if self._in_use.sha256_read != was:
            self._metrics.reloaded("applied" if before is not None else "refused")
        if before is None:
            return
        _log.info("config applied", sha256=self._in_use.sha256)
        self._pods.interval = self._in_use.config.audit_interval
        self._pods.wake()  # it may sleep for as long as the old one
        self._look(before)  # which may need what a program listed that is dropped now
        self._programs.serve(self._in_use.config)

    def _plugin(self, resource: Callable[[], Resource], changed: Callable[[], None]) -> Plugin:
        return Plugin(
            resource=resource,
            inventory=self._inventory,
            host=self._host,
            handed_out=self._handed_out,
            metrics=self._metrics,
            changed=changed,
            suspect=partial(self._upkeep.suspect, resource().name),
            claimed=self._dynamic.held,
        )

    def _kubelet_folder_changed(self) -> None:
        self._serving.wake()
        self._dynamic.wake()
        self._pods.wake()
        self._post(_Event.FOLDERS)

    def _watch_folders(self) -> None:
        pods = (self._options.kubelet_root / SOCKET).parent
        folders = map(os.fspath, (self._options.device_plugin_dir, pods))
        if self._kubelet_folders.set([*folders, *self._dynamic.folders]):
            self._kubelet_folder_changed()  # for what came before the new watch
        if self._config_folders.set(self._in_use.folders):
            self._post(_Event.CONFIG)
            self._post(_Event.FOLDERS)

    def _serve_pages(self) -> None:
        """Devices come first: without its addresses the daemon runs on, and tries again."""
        # Imported here, after the first lists: it takes longer than all that they need.
        if self._options.http is not None and self._web is None:
            from device_plugin.exposition import Exposition  # noqa: PLC0415
            from device_plugin.http import WebServer  # noqa: PLC0415

            exposition = Exposition(self._metrics, self._pages)
            pages = {
                "/healthz": self._healthz,
                "/readyz": self._pages.readyz,
                "/metrics": lambda: (True, exposition.text()),
            }
            try:
                self._web = WebServer(self._options.http, pages)
                _log.info("serving HTTP", port=self._web.port)
            except OSError as error:
                reason = f"{error.strerror}: choose another address with --http, or --http off"
                self._complain("no HTTP", reason, address=self._options.http)
        if self._status is None:
            from device_plugin.status import StatusServer  # noqa: PLC0415

            try:
                self._status = StatusServer(self._options.state_dir, self._pages.answer)
            except OSError as error:
                reason = f"{error}: choose another folder with --state-dir"
                self._complain("no status socket", reason)

    def _complain(self, event: str, reason: str, **facts: object) -> None:
        """Log a reason once, for as long as it is the reason."""
        if self._said.get(event) != reason:
            self._said[event] = reason
            _log.error(event, reason=reason, **facts)

    def _healthz(self) -> tuple[bool, str]:
        dead = [one.resource for one in self._serving.servers if not one.is_alive()]
        if not self._turned():
            return False, f"the loop has not turned for {_TURN:g} s\n"
        return not dead, "".join(f"{name}: its thread has ended\n" for name in dead) or "ok\n"
