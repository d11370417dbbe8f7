"""/healthz, /readyz and /metrics: what they say, and that they hold up nothing."""

import signal
import socket
import threading

import pytest
from prometheus_client.parser import text_string_to_metric_families

from device_plugin.testing import AdmissionError

X = "example.com/x"
Y = "example.com/y"


def samples(daemon):
    """The metrics: value by name and labels, these in the order of their names."""
    status, text = daemon.get("/metrics")
    assert status == 200
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = (sample.labels[name] for name in sorted(sample.labels))
            found[sample.name.removeprefix("device_plugin_"), *labels] = sample.value
    return found


def test_metrics(node, kubelet, eventually):
    paths = [node.add(f"/dev/x{n}") for n in range(3)]
    x = {"devices": [{"path": node.path("/dev/x*"), "replicas": 2}], "per_container": {"max": 2}}
    daemon = node.start({"x": x, "y": [{"path": node.path("/dev/y")}]})
    kubelet.healthy(X, 6)
    kubelet.accepted(X, 1)
    paths[0].unlink()
    kubelet.wait_for(lambda k: list(k.devices(X).values()).count("Unhealthy") == 2)
    kubelet.run(X, 2)
    with pytest.raises(AdmissionError):
        kubelet.run(X, 3)
    seen = eventually(lambda: (s := samples(daemon))["registered", Y] and s)
    assert seen["devices", "Healthy", X] == 4
    assert seen["devices", "Unhealthy", X] == 2
    assert seen["devices", "Healthy", Y] == 0
    assert seen["registered", X] == 1
    assert seen["list_and_watch_streams", X] == 1
    assert seen["allocations_total", "ok", X] == 1
    assert seen["allocation_duration_seconds_count", X] == 1
    assert 0 < seen["allocation_duration_seconds_sum", X] < 0.1
    kubelet.stop()
    eventually(lambda: samples(daemon)["list_and_watch_streams", X] == 0)
    eventually(lambda: samples(daemon)["registered", X] == 0)


def test_a_refusal_is_counted(node, kubelet):
    daemon = node.start(
        {"x": {"devices": [{"virtual": {"count": 3}}], "per_container": {"max": 1}}}
    )
    kubelet.healthy(X, 3)
    with pytest.raises(AdmissionError):
        kubelet.run(X, 2)
    assert samples(daemon)["allocations_total", "refused", X] == 1


def test_readyz_names_what_is_missing(node, kubelet):
    kubelet.refuse_registration("not this one", times=1)
    kubelet.hold_registration()
    daemon = node.start({"x": [{"virtual": {"count": 1}}], "y": [{"virtual": {"count": 1}}]})
    kubelet.wait_for(lambda k: len(k.registrations) == 2)
    body = daemon.wait_page("/readyz", 503)
    assert [line.partition(":")[0] for line in body.splitlines()] == [X, Y]
    kubelet.release_registration()
    assert daemon.wait_page("/readyz", 200) == "ok\n"
    assert daemon.get("/healthz") == (200, "ok\n")


def test_no_device_is_ready_all_the_same(node, kubelet):
    """0 devices is a fact that the kubelet knows: nothing to restart a Pod for."""
    daemon = node.start({"x": [{"path": node.path("/dev/x")}]})
    kubelet.until(X, {})
    daemon.wait_page("/readyz", 200)


def test_other_pages_and_methods(node):
    daemon = node.start({"x": [{"virtual": {"count": 1}}]})
    assert daemon.get("/")[0] == 404
    assert daemon.get("/healthz?verbose")[0] == 200


def test_the_port_is_taken(node, kubelet):
    """Devices come first; and when the port is free, it is taken at the next audit."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        daemon = node.start(
            {"x": [{"virtual": {"count": 1}}]}, http=address, audit_interval="100ms"
        )
        kubelet.healthy(X)
        line = daemon.wait_log("no HTTP")
        assert "--http" in line["reason"]
    daemon.wait_log("serving HTTP")
    assert len(daemon.log("no HTTP")) == 1
    daemon.wait_page("/readyz", 200)


def test_without_http(node, kubelet):
    daemon = node.start({"x": [{"virtual": {"count": 1}}]}, http="off")
    kubelet.healthy(X)
    assert not daemon.log("serving HTTP")
    daemon.end()
    assert not daemon.log("serving HTTP")


def test_clients_that_say_nothing_hold_up_no_probe_for_long(node, kubelet):
    """Connections beyond a few are closed; what they held is free when they go."""
    daemon = node.start({"x": [{"virtual": {"count": 1}}]})
    port = daemon.wait_log("serving HTTP")["port"]
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(12)]
    kubelet.healthy(X)
    assert daemon.threads() < 40
    for connection in silent:
        connection.close()
    daemon.wait_page("/healthz", 200)


def test_a_stopped_process_answers_again(node, kubelet):
    daemon = node.start({"x": [{"virtual": {"count": 1}}]})
    kubelet.healthy(X)
    daemon.process.send_signal(signal.SIGSTOP)
    answers = []
    asking = threading.Thread(target=lambda: answers.append(daemon.get("/healthz")))
    asking.start()
    daemon.process.send_signal(signal.SIGCONT)
    asking.join()
    assert answers == [(200, "ok\n")]
