"""/metrics: what was counted, and what is now.

prometheus_client is imported at the first scrape: a node without Prometheus need not carry it, and
the first registration need not wait for it.
"""
# ruff: noqa: PLC0415

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from device_plugin import __version__
from device_plugin.metrics import HEALTHS, Metrics, gauge
from device_plugin.pages import Pages

if TYPE_CHECKING:
    from prometheus_client import Metric


class Exposition:
    """A collector, as prometheus_client asks them."""

    def __init__(self, metrics: Metrics, pages: Pages) -> None:
        self._metrics, self._pages = metrics, pages

    def text(self) -> str:
        """All metrics in Prometheus' text format."""
        from prometheus_client import CollectorRegistry, generate_latest

        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry).decode()

    def collect(self) -> Iterator["Metric"]:
        served = [server.resource for server in self._pages.servers()]
        yield from self._metrics.families(served, self._pages.claimable.resources)
        yield from _devices(self._pages)
        yield from _config(self._pages, self._metrics.reloaded_at)


def _devices(pages: "Pages") -> Iterator["Metric"]:
    servers = pages.servers()
    names = [server.resource for server in servers]
    claimable = pages.claimable
    offered = [(name, pages.listed(name)) for name in names]
    offered += [(name, list(claimable.snapshot(name).devices)) for name in claimable.resources]
    health = {(name, health): 0 for name, _ in offered for health in HEALTHS}
    disabled = {(name,): 0 for name, _ in offered}
    for name, devices in offered:
        for one in devices:
            health[name, one.health] += one.device.replicas
            if one.present and one.device.id in pages.disabled.reasons:
                disabled[name,] += one.device.replicas
    yield gauge(
        "devices",
        "Schedulable devices (replicas counted) by health.",
        ["resource", "health"],
        health,
    )
    yield gauge(
        "registered",
        "1 while the kubelet has accepted the registration of the resource.",
        ["resource"],
        {(server.resource,): server.registered for server in servers},
    )
    yield gauge(
        "list_and_watch_streams",
        "Open ListAndWatch streams; 0 means that the kubelet sees no device.",
        ["resource"],
        {(server.resource,): server.streams for server in servers},
    )
    yield gauge(
        "disabled_devices",
        "Devices (replicas counted) that an admin took out of service.",
        ["resource"],
        disabled,
    )
    yield gauge(
        "foreign_devices",
        "Devices on the resource's name that another plugin listed.",
        ["resource"],
        {(name,): len(pages.upkeep.foreign.get(name, ())) for name in names},
    )
    yield gauge(
        "pod_resources_up",
        "1 while the kubelet says who holds which device.",
        [],
        {(): not pages.pods.problem},
    )
    latest = pages.pods.latest
    held = {(name,): len(latest.held(name)) for name in names} if latest is not None else {}
    if (standing := pages.dynamic.standing) is not None:
        registered, in_step = standing
        text = "1 while the kubelet has claims prepared by this driver."
        yield gauge("dra_registered", text, [], {(): registered})
        text = "1 while the cluster's ResourceSlices are what the node offers."
        yield gauge("dra_slices_in_step", text, [], {(): in_step})
    claimed = {(name,): 0 for name in claimable.resources}
    for resource in pages.dynamic.held().values():
        claimed[resource,] = claimed.get((resource,), 0) + 1
    yield gauge("claimed_devices", "Devices that claims have, by DRA.", ["resource"], claimed)
    yield gauge(
        "held_devices",
        "Devices (replicas counted) that containers hold, as the kubelet said last.",
        ["resource"],
        held,
    )


def _config(pages: "Pages", reloaded_at: float) -> Iterator["Metric"]:
    yield gauge(
        "config_info", "The config in use, by its SHA-256.", ["sha256"], {(pages.config.sha256,): 1}
    )
    yield gauge(
        "config_last_reload_successful",
        "1 if all of the config as it was read last is in use.",
        [],
        {(): pages.config.well},
    )
    yield gauge(
        "config_last_reload_success_timestamp_seconds",
        "When the config in use was taken, since the epoch.",
        [],
        {(): reloaded_at},
    )
    python = ".".join(map(str, sys.version_info[:3]))
    build = {(__version__, python): 1}
    yield gauge("build_info", "The versions that run.", ["version", "python"], build)
