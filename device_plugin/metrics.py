"""Prometheus metrics of what happens; what is, `exposition` reads when it is scraped.

prometheus_client is imported at the first scrape: a node without Prometheus need not carry it, and
the first registration need not wait for it.
"""
# ruff: noqa: PLC0415

import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from prometheus_client import Metric
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

Labels = TypeVar("Labels", bound=tuple[str, ...])
_PREFIX = "device_plugin_"
OUTCOMES = ("ok", "refused", "error")
REGISTRATIONS = ("accepted", "refused", "unreachable")
RELOADS = ("applied", "refused")
HEALTHS = ("Healthy", "Unhealthy")
# Seconds. Allocate is meant to take well under 10 ms; the kubelet's sync loop waits for it.
_BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0)


class _Histogram:
    """Counts by bucket, and the sum."""

    def __init__(self) -> None:
        self._counts = [0] * (len(_BOUNDS) + 1)
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(_BOUNDS, seconds)] += 1
        self.seconds += seconds

    @property
    def buckets(self) -> list[tuple[str, int]]:
        """Cumulative, as Prometheus wants them."""
        bounds = [*map(str, _BOUNDS), "+Inf"]
        return list(zip(bounds, accumulate(self._counts), strict=True))


class Metrics:
    """Counts, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._allocations: Counter[tuple[str, str]] = Counter()  # by resource and outcome
        self._allocation_times: dict[str, _Histogram] = {}  # by resource
        self._registrations: Counter[tuple[str, str]] = Counter()  # by resource and outcome
        self._transitions: Counter[tuple[str, str]] = Counter()  # by resource and new health
        self._discovery_errors: Counter[str] = Counter()  # by resource
        self._discovery_time = _Histogram()
        self._reloads: Counter[str] = Counter()  # by outcome
        self.reloaded_at = time.time()  # when the config in use was taken

    def allocated(self, resource: str, outcome: str, seconds: float) -> None:
        """Count one Allocate call; outcome: ok, refused (the caller was told why) or error."""
        with self._lock:
            self._allocations[resource, outcome] += 1
            self._allocation_times.setdefault(resource, _Histogram()).add(seconds)

    def registered(self, resource: str, outcome: str) -> None:
        """Count one Register call; outcome: accepted, refused or unreachable."""
        with self._lock:
            self._registrations[resource, outcome] += 1

    def turned(self, resource: str, health: str, count: int) -> None:
        """Count so many devices that turned Healthy or Unhealthy."""
        with self._lock:
            self._transitions[resource, health] += count

    def looked(self, seconds: float) -> None:
        """Count one look at all devices."""
        with self._lock:
            self._discovery_time.add(seconds)

    def discovery_failed(self, resource: str, selectors: int) -> None:
        """Count selectors that failed, by a bug of ours, at one look."""
        with self._lock:
            self._discovery_errors[resource] += selectors

    def reloaded(self, outcome: str) -> None:
        """Count a config that was read anew; outcome: applied or refused."""
        with self._lock:
            self._reloads[outcome] += 1
            if outcome == "applied":
                self.reloaded_at = time.time()

    def families(self, served: Iterable[str], claimable: Iterable[str]) -> list["Metric"]:
        """What was counted of resources that the kubelet is told of, and of those for claims."""
        with self._lock:
            return list(self._counted(list(served), list(dict.fromkeys((*served, *claimable)))))

    def _counted(self, served: list[str], every: list[str]) -> Iterator["Metric"]:
        # Series begin at 0: the rate() of one that appears at 1 would miss the first event.
        from prometheus_client.core import HistogramMetricFamily

        yield counter(
            "allocations",
            "Allocate calls by outcome: ok, refused (the caller was told why) or error.",
            ["resource", "outcome"],
            {(name, how): self._allocations[name, how] for name in served for how in OUTCOMES},
        )
        duration = HistogramMetricFamily(
            f"{_PREFIX}allocation_duration_seconds", "Time to answer Allocate.", labels=["resource"]
        )
        for name in served:
            of = self._allocation_times.get(name) or _Histogram()
            duration.add_metric([name], of.buckets, of.seconds)
        yield duration
        yield counter(
            "registrations",
            "Register calls to the kubelet by outcome: accepted, refused or unreachable.",
            ["resource", "outcome"],
            {(name, o): self._registrations[name, o] for name in served for o in REGISTRATIONS},
        )
        yield counter(
            "health_transitions",
            "Devices (replicas counted) that turned to this health, new ones among them.",
            ["resource", "health"],
            {(name, how): self._transitions[name, how] for name in every for how in HEALTHS},
        )
        yield counter(
            "discovery_errors",
            "Selectors that failed unexpectedly at a look; the log has the error.",
            ["resource"],
            {(name,): self._discovery_errors[name] for name in every},
        )
        looks = HistogramMetricFamily(
            f"{_PREFIX}discovery_duration_seconds", "Time of one look at all devices."
        )
        looks.add_metric([], self._discovery_time.buckets, self._discovery_time.seconds)
        yield looks
        yield counter(
            "config_reloads",
            "Changed configs by outcome: applied or refused (the last good one stays).",
            ["outcome"],
            {(how,): self._reloads[how] for how in RELOADS},
        )


def counter(name: str, text: str, labels: list[str], values: Mapping[Labels, float]) -> "Metric":
    from prometheus_client.core import CounterMetricFamily

    return _filled(CounterMetricFamily(_PREFIX + name, text, labels=labels), values)


def gauge(name: str, text: str, labels: list[str], values: Mapping[Labels, float]) -> "Metric":
    from prometheus_client.core import GaugeMetricFamily

    return _filled(GaugeMetricFamily(_PREFIX + name, text, labels=labels), values)


def _filled(
    family: "CounterMetricFamily | GaugeMetricFamily", values: Mapping[Labels, float]
) -> "Metric":
    for labels, value in values.items():
        family.add_metric(labels, float(value))
    return family
