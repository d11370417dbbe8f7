"""One server a resource; one that the config dropped is served until nothing of it is listed."""

from collections.abc import Callable, Collection
from pathlib import Path

import structlog

from device_plugin.cdi import Specs
from device_plugin.config import Config, Resource
from device_plugin.inventory import Inventory
from device_plugin.metrics import Metrics
from device_plugin.plugin import Plugin
from device_plugin.server import Server

# Takes what says how the config has the resource now, and what to call when a stream opens or ends.
MakePlugin = Callable[[Callable[[], Resource], Callable[[], None]], Plugin]

_log = structlog.get_logger()


class Serving:
    """The servers, in step with the config and the inventory. Called on the daemon's loop."""

    def __init__(
        self,
        folder: Path,
        inventory: Inventory,
        specs: Specs,
        metrics: Metrics,
        make_plugin: MakePlugin,
    ) -> None:
        self._folder = folder
        self._inventory = inventory
        self._specs = specs
        self._metrics = metrics
        self._make_plugin = make_plugin
        self._resources: dict[str, Resource] = {}  # in the form that they had last
        self._servers: dict[str, Server] = {}

    @property
    def servers(self) -> list[Server]:
        return list(self._servers.values())

    @property
    def names(self) -> Collection[str]:
        return list(self._servers)

    @property
    def streaming(self) -> list[str]:
        """The resources whose list the kubelet takes from us."""
        return [server.resource for server in self.servers if server.streams]

    def follow(self, config: Config) -> None:
        """Start what is new, and stop what nothing is left of."""
        self._resources |= {resource.name: resource for resource in config.resources}
        for name in self._inventory.resources:
            if name not in self._servers:
                self._resources.setdefault(name, Resource(name, devices=()))
                server = Server(name, self._folder, self._plugin, self._metrics)
                server.start()
                self._servers[name] = server
        self._stop_idle({one.name for one in config.resources if one.api == "device-plugin"})

    def wake(self) -> None:
        """Let every server look at the facts again."""
        for server in self.servers:
            server.wake()

    def stop(self) -> None:
        """Take the sockets away and end the streams: all at once, each takes its time."""
        self._stop(self.names)

    def _stop_idle(self, in_config: Collection[str]) -> None:
        idle = [
            name
            for name in self.names
            if name not in in_config and not self._inventory.snapshot(name).devices
        ]
        self._stop(idle)
        for name in idle:
            self._inventory.remove(name)
            self._specs.remove(name)
            del self._servers[name], self._resources[name]
            _log.info("no longer served", resource=name, reason="nothing of it is left")

    def _stop(self, names: Collection[str]) -> None:
        for name in names:
            self._servers[name].stop()
        for name in names:
            self._servers[name].join()

    def _plugin(self, resource: str, changed: Callable[[], None]) -> Plugin:
        return self._make_plugin(lambda: self._resources[resource], changed)
