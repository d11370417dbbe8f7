"""/metrics: names and labels that dashboards rely on."""

import threading
from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from device_plugin.device import Candidate, Device
from device_plugin.inventory import Inventory
from device_plugin.metrics import Metrics

R, S = "example.com/r", "example.com/s"


@pytest.fixture
def metrics():
    made = Metrics()
    inventory = Inventory([R, S])
    inventory.replace(R, [Candidate(Device("a", replicas=3)), Candidate(Device("b", replicas=2))])
    inventory.replace(R, [Candidate(Device("a", replicas=3))])
    servers = (
        SimpleNamespace(resource=R, registered=True, streams=2),
        SimpleNamespace(resource=S, registered=False, streams=0),
    )
    made.collect_from(inventory, lambda: servers)
    return made


def families(metrics):
    text = metrics.exposition().decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def samples(metrics):
    """Values by name and labels, with labels in their order of names."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in families(metrics).values()
        for sample in family.samples
    }


def test_names_and_types_are_what_the_docs_say(metrics):
    assert {name: family.type for name, family in families(metrics).items()} == {
        "device_plugin_allocations": "counter",
        "device_plugin_allocation_duration_seconds": "histogram",
        "device_plugin_devices": "gauge",
        "device_plugin_registered": "gauge",
        "device_plugin_list_and_watch_streams": "gauge",
    }
    assert all(family.documentation for family in families(metrics).values())


def test_every_series_of_allocations_begins_at_zero(metrics):
    counted = {key: value for key, value in samples(metrics).items() if "allocation" in key[0]}
    assert ("device_plugin_allocations_total", "refused", R) in counted
    assert ("device_plugin_allocation_duration_seconds_count", S) in counted
    assert set(counted.values()) == {0}


def test_what_is_is_read_at_the_scrape(metrics):
    present = {key: value for key, value in samples(metrics).items() if "allocation" not in key[0]}
    assert present == {
        ("device_plugin_devices", "Healthy", R): 3,
        ("device_plugin_devices", "Unhealthy", R): 2,
        ("device_plugin_devices", "Healthy", S): 0,
        ("device_plugin_devices", "Unhealthy", S): 0,
        ("device_plugin_registered", R): 1,
        ("device_plugin_registered", S): 0,
        ("device_plugin_list_and_watch_streams", R): 2,
        ("device_plugin_list_and_watch_streams", S): 0,
    }


def test_allocations_are_counted_by_outcome(metrics):
    for outcome, times in (("ok", 3), ("refused", 2), ("error", 1)):
        for _ in range(times):
            metrics.allocated(R, outcome, 0.001)
    counted = samples(metrics)
    assert counted["device_plugin_allocations_total", "ok", R] == 3
    assert counted["device_plugin_allocations_total", "refused", R] == 2
    assert counted["device_plugin_allocations_total", "error", R] == 1
    assert counted["device_plugin_allocation_duration_seconds_count", R] == 6


@pytest.mark.parametrize(
    ("seconds", "below", "at"),
    [
        (0.0, None, "0.0005"),
        (0.0005, None, "0.0005"),
        (0.0006, "0.0005", "0.001"),
        (9, "5.0", "+Inf"),
    ],
)
def test_a_duration_counts_in_every_bucket_that_holds_it(metrics, seconds, below, at):
    metrics.allocated(R, "ok", seconds)
    counted = samples(metrics)
    name = "device_plugin_allocation_duration_seconds"
    assert counted[f"{name}_bucket", at, R] == counted[f"{name}_bucket", "+Inf", R] == 1
    assert below is None or counted[f"{name}_bucket", below, R] == 0
    assert counted[f"{name}_sum", R] == seconds


def test_before_anything_is_served_there_is_an_answer():
    assert samples(Metrics()) == {}


def test_threads_lose_no_count(metrics):
    def allocate():
        for _ in range(1000):
            metrics.allocated(R, "ok", 0.01)

    threads = [threading.Thread(target=allocate) for _ in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        families(metrics)
    assert samples(metrics)["device_plugin_allocations_total", "ok", R] == 8000
