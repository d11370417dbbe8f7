"""/metrics: names and labels that dashboards rely on."""

import threading
from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from device_plugin.device import Candidate, Device
from device_plugin.exposition import Exposition
from device_plugin.inventory import Inventory
from device_plugin.metrics import Metrics
from device_plugin.podresources import Holdings

R, S, T = "example.com/r", "example.com/s", "example.com/t"  # T is offered by DRA


@pytest.fixture
def pages():
    """What the daemon knows, in short."""
    inventory = Inventory()
    a, b = (Candidate(Device(id_, replicas=n)) for id_, n in (("a", 3), ("b", 2)))
    inventory.replace(R, [a, b])
    inventory.replace(R, [a], disabled={"a": "disabled"})
    inventory.replace(S, [])
    claimable = Inventory()
    claimable.replace(T, [Candidate(Device("g")), Candidate(Device("h"))])
    holders = {R: {"a": (), "a-r1": ()}}
    servers = (
        SimpleNamespace(resource=R, registered=True, streams=2),
        SimpleNamespace(resource=S, registered=False, streams=0),
    )
    return SimpleNamespace(
        inventory=inventory,
        servers=lambda: servers,
        disabled=SimpleNamespace(reasons={"a": "disabled", "absent": "disabled"}),
        pods=SimpleNamespace(latest=Holdings(1.0, holders), problem=""),
        upkeep=SimpleNamespace(foreign={R: frozenset(("x", "y"))}),
        claimable=claimable,
        dynamic=SimpleNamespace(held=lambda: {"g": T}, standing=(True, False)),
        listed=lambda name: inventory.snapshot(name).devices,
        config=SimpleNamespace(sha256="abc", well=True),
    )


@pytest.fixture
def metrics():
    return Metrics()


@pytest.fixture
def families(metrics, pages):
    def families():
        text = Exposition(metrics, pages).text()
        return {family.name: family for family in text_string_to_metric_families(text)}

    return families


@pytest.fixture
def samples(families):
    """Values by name and labels, with labels in their order of names."""
    return lambda: {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in families().values()
        for sample in family.samples
    }


def test_names_and_types_are_what_the_docs_say(families):
    assert {name: family.type for name, family in families().items()} == {
        "device_plugin_allocations": "counter",
        "device_plugin_allocation_duration_seconds": "histogram",
        "device_plugin_build_info": "gauge",
        "device_plugin_claimed_devices": "gauge",
        "device_plugin_config_info": "gauge",
        "device_plugin_config_last_reload_success_timestamp_seconds": "gauge",
        "device_plugin_config_last_reload_successful": "gauge",
        "device_plugin_config_reloads": "counter",
        "device_plugin_devices": "gauge",
        "device_plugin_disabled_devices": "gauge",
        "device_plugin_dra_registered": "gauge",
        "device_plugin_dra_slices_in_step": "gauge",
        "device_plugin_discovery_duration_seconds": "histogram",
        "device_plugin_discovery_errors": "counter",
        "device_plugin_foreign_devices": "gauge",
        "device_plugin_health_transitions": "counter",
        "device_plugin_held_devices": "gauge",
        "device_plugin_list_and_watch_streams": "gauge",
        "device_plugin_pod_resources_up": "gauge",
        "device_plugin_registered": "gauge",
        "device_plugin_registrations": "counter",
    }
    assert all(family.documentation for family in families().values())


def test_every_counter_begins_at_zero(samples):
    counted = {key: value for key, value in samples().items() if key[0].endswith("_total")}
    for name, *labels in (
        ("allocations", "refused", R),
        ("registrations", "unreachable", S),
        ("health_transitions", "Unhealthy", R),
        ("discovery_errors", S),
        ("health_transitions", "Unhealthy", T),  # there is an alert, whoever offers it
        ("discovery_errors", T),
        ("config_reloads", "refused"),
    ):
        assert (f"device_plugin_{name}_total", *labels) in counted
    assert set(counted.values()) == {0}


def test_what_is_is_read_at_the_scrape(samples, pages):
    assert (
        samples().items()
        >= {
            ("device_plugin_devices", "Healthy", R): 0,
            ("device_plugin_devices", "Unhealthy", R): 5,
            ("device_plugin_devices", "Healthy", S): 0,
            ("device_plugin_devices", "Unhealthy", S): 0,
            ("device_plugin_registered", R): 1,
            ("device_plugin_registered", S): 0,
            ("device_plugin_list_and_watch_streams", R): 2,
            ("device_plugin_list_and_watch_streams", S): 0,
            ("device_plugin_disabled_devices", R): 3,
            ("device_plugin_foreign_devices", R): 2,
            ("device_plugin_foreign_devices", S): 0,
            ("device_plugin_held_devices", R): 2,
            ("device_plugin_held_devices", S): 0,
            ("device_plugin_devices", "Healthy", T): 2,
            ("device_plugin_claimed_devices", T): 1,
            ("device_plugin_dra_registered",): 1,
            ("device_plugin_dra_slices_in_step",): 0,
            ("device_plugin_pod_resources_up",): 1,
            ("device_plugin_config_info", "abc"): 1,
            ("device_plugin_config_last_reload_successful",): 1,
        }.items()
    )
    pages.pods.problem, pages.config.well, pages.pods.latest = "nobody answers", False, None
    now = samples()
    assert now["device_plugin_pod_resources_up",] == 0
    assert now["device_plugin_config_last_reload_successful",] == 0
    assert ("device_plugin_held_devices", R) not in now


def test_what_happens_is_counted(metrics, samples):
    for outcome, times in (("ok", 3), ("refused", 2), ("error", 1)):
        for _ in range(times):
            metrics.allocated(R, outcome, 0.001)
    metrics.registered(R, "accepted")
    metrics.turned(R, "Unhealthy", 4)
    metrics.discovery_failed(S, 2)
    metrics.turned(T, "Unhealthy", 5)
    metrics.discovery_failed(T, 3)
    metrics.looked(0.02)
    metrics.reloaded("refused")
    before = samples()["device_plugin_config_last_reload_success_timestamp_seconds",]
    metrics.reloaded("applied")
    counted = samples()
    expected = {
        ("allocations_total", "ok", R): 3,
        ("allocations_total", "refused", R): 2,
        ("allocations_total", "error", R): 1,
        ("allocation_duration_seconds_count", R): 6,
        ("registrations_total", "accepted", R): 1,
        ("health_transitions_total", "Unhealthy", R): 4,
        ("discovery_errors_total", S): 2,
        ("health_transitions_total", "Unhealthy", T): 5,
        ("discovery_errors_total", T): 3,
        ("discovery_duration_seconds_count",): 1,
        ("config_reloads_total", "refused"): 1,
        ("config_reloads_total", "applied"): 1,
    }
    for (name, *labels), value in expected.items():
        assert counted[f"device_plugin_{name}", *labels] == value
    assert counted["device_plugin_config_last_reload_success_timestamp_seconds",] >= before


def test_a_resource_that_is_served_no_more_has_no_series(metrics, pages, samples):
    metrics.allocated("example.com/gone", "ok", 0.1)
    metrics.registered("example.com/gone", "accepted")
    assert not [key for key in samples() if "example.com/gone" in key]


@pytest.mark.parametrize(
    ("seconds", "below", "at"),
    [
        (0.0, None, "0.0005"),
        (0.0005, None, "0.0005"),
        (0.0006, "0.0005", "0.001"),
        (9, "5.0", "+Inf"),
    ],
)
def test_a_duration_counts_in_every_bucket_that_holds_it(metrics, samples, seconds, below, at):
    metrics.allocated(R, "ok", seconds)
    counted = samples()
    name = "device_plugin_allocation_duration_seconds"
    assert counted[f"{name}_bucket", at, R] == counted[f"{name}_bucket", "+Inf", R] == 1
    assert below is None or counted[f"{name}_bucket", below, R] == 0
    assert counted[f"{name}_sum", R] == seconds


def test_threads_lose_no_count(metrics, families, samples):
    def allocate():
        for _ in range(1000):
            metrics.allocated(R, "ok", 0.01)

    threads = [threading.Thread(target=allocate) for _ in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        families()
    assert samples()["device_plugin_allocations_total", "ok", R] == 8000
