"""Prometheus metrics: allocations are counted here, everything else is read when it is scraped.

prometheus_client is imported at the first scrape: a node without Prometheus need not carry it, and
the first registration need not wait for it.
"""
# ruff: noqa: PLC0415

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol

from device_plugin.inventory import Inventory

if TYPE_CHECKING:
    from prometheus_client import Metric

# Seconds. Allocate is meant to take well under 10 ms; the kubelet's sync loop waits for it.
OUTCOMES = ("ok", "refused", "error")
_BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0)


class Served(Protocol):
    """One resource as its server sees it."""

    resource: str

    @property
    def registered(self) -> bool: ...
    @property
    def streams(self) -> int: ...


class Metrics:
    """What happened (counted) and what is (collected at scrape)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._outcomes: Counter[tuple[str, str]] = Counter()  # by resource and outcome
        self._durations: dict[str, list[int]] = {}  # counts by bucket, by resource
        self._seconds: dict[str, float] = {}  # by resource
        self._inventory: Inventory | None = None
        self._servers: Callable[[], Iterable[Served]] = tuple

    def allocated(self, resource: str, outcome: str, seconds: float) -> None:
        """Count one Allocate call; outcome: ok, refused (the caller was told why) or error."""
        with self._lock:
            self._outcomes[resource, outcome] += 1
            buckets = self._durations.setdefault(resource, [0] * (len(_BOUNDS) + 1))
            buckets[bisect_left(_BOUNDS, seconds)] += 1
            self._seconds[resource] = self._seconds.get(resource, 0.0) + seconds

    def collect_from(self, inventory: Inventory, servers: Callable[[], Iterable[Served]]) -> None:
        """Name what is read at every scrape."""
        self._inventory, self._servers = inventory, servers

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format."""
        from prometheus_client import CollectorRegistry, generate_latest

        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)

    def collect(self) -> Iterator["Metric"]:
        """As prometheus_client asks its collectors."""
        yield from self._counted()
        yield from self._present()

    def _counted(self) -> Iterator["Metric"]:
        from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

        # Series begin at 0: the rate() of one that appears at 1 would miss the first event.
        names = [server.resource for server in self._servers()]
        with self._lock:
            outcomes = {(name, how): 0 for name in names for how in OUTCOMES} | self._outcomes
            seconds = dict.fromkeys(names, 0.0) | self._seconds
            counts = {name: [0] * (len(_BOUNDS) + 1) for name in names} | self._durations
            durations = {name: list(accumulate(of)) for name, of in counts.items()}
        allocations = CounterMetricFamily(
            "device_plugin_allocations",
            "Allocate calls by outcome: ok, refused (the caller was told why) or error.",
            labels=["resource", "outcome"],
        )
        for labels, count in outcomes.items():
            allocations.add_metric(labels, count)
        yield allocations
        duration = HistogramMetricFamily(
            "device_plugin_allocation_duration_seconds",
            "Time to answer Allocate.",
            labels=["resource"],
        )
        bounds = [*map(str, _BOUNDS), "+Inf"]
        for name, buckets in durations.items():
            duration.add_metric([name], list(zip(bounds, buckets, strict=True)), seconds[name])
        yield duration

    def _present(self) -> Iterator["Metric"]:
        from prometheus_client.core import GaugeMetricFamily

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
            for health, count in self._by_health(server.resource).items():
                devices.add_metric([server.resource, health], count)
            registered.add_metric([server.resource], server.registered)
            streams.add_metric([server.resource], server.streams)
        yield from (devices, registered, streams)

    def _by_health(self, resource: str) -> dict[str, int]:
        counts = {"Healthy": 0, "Unhealthy": 0}
        if self._inventory is not None:
            for listed in self._inventory.snapshot(resource).devices:
                counts[listed.health] += listed.device.replicas
        return counts
