"""Prometheus metrics: counters are counted here, everything else is read when it is scraped."""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from device_plugin.inventory import Inventory

# Allocate is meant to take well under 10 ms; above a second the kubelet's sync loop suffers.
_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5)


class Served(Protocol):
    """One resource as its server sees it."""

    @property
    def resource(self) -> str: ...
    @property
    def registered(self) -> bool: ...
    @property
    def streams(self) -> int: ...


class Metrics:
    """What happened (counted) and what is (collected at scrape)."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._allocations = Counter(
            "device_plugin_allocations",
            "Allocate calls by outcome: ok, refused (the caller was told why) or error.",
            ["resource", "outcome"],
            registry=self._registry,
        )
        self._duration = Histogram(
            "device_plugin_allocation_duration_seconds",
            "Time to answer Allocate.",
            ["resource"],
            buckets=_BUCKETS,
            registry=self._registry,
        )

    def allocated(self, resource: str, outcome: str, seconds: float) -> None:
        self._allocations.labels(resource, outcome).inc()
        self._duration.labels(resource).observe(seconds)

    def collect_from(self, inventory: Inventory, servers: Callable[[], Iterable[Served]]) -> None:
        """Name what is read at every scrape."""
        self._registry.register(_State(inventory, servers))

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)


class _State(Collector):
    def __init__(self, inventory: Inventory, servers: Callable[[], Iterable[Served]]) -> None:
        self._inventory = inventory
        self._servers = servers

    def collect(self) -> Iterator[Metric]:
        devices = GaugeMetricFamily(
            "device_plugin_devices",
            "Schedulable devices (replicas counted) by health.",
            labels=["resource", "health"],
        )
        registered = GaugeMetricFamily(
            "device_plugin_registered",
            "1 while the kubelet has accepted the registration of the resource.",
            labels=["resource"],
        )
        streams = GaugeMetricFamily(
            "device_plugin_list_and_watch_streams",
            "Open ListAndWatch streams; 0 means that the kubelet sees no device.",
            labels=["resource"],
        )
        for server in self._servers():
            counts = {"Healthy": 0, "Unhealthy": 0}
            for listed in self._inventory.snapshot(server.resource).devices:
                counts["Healthy" if listed.healthy else "Unhealthy"] += listed.device.replicas
            for health, count in counts.items():
                devices.add_metric([server.resource, health], count)
            registered.add_metric([server.resource], server.registered)
            streams.add_metric([server.resource], server.streams)
        yield from (devices, registered, streams)
