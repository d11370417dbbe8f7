"""Selectors that meet on one node while the daemon runs: the first in the file has it."""

import pytest

from device_plugin.testing import AdmissionError

FIRST, SECOND = "example.com/first", "example.com/second"


@pytest.fixture
def daemon(node):
    node.at("/dev/by-id").mkdir()
    resources = {
        "first": [{"path": node.path("/dev/by-id/first*")}],
        "second": [{"path": node.path("/dev/by-id/second*")}, {"path": node.path("/dev/x*")}],
    }
    return node.start(resources)


def link(node, name, target):
    node.at(f"/dev/by-id/{name}").symlink_to(f"../{target}")


def test_the_first_in_the_file_has_it(node, kubelet, daemon):
    link(node, "first", "x0")
    link(node, "second", "x0")
    node.add("/dev/x0")
    kubelet.healthy(FIRST)
    kubelet.until(SECOND, {})
    for who in ("second", "x0"):
        line = daemon.wait_log("not offered", resource=SECOND, reason=who)
        assert "already belongs to example.com/first" in line["reason"]


def test_the_first_takes_it_even_when_it_comes_later(node, kubelet, daemon):
    """And gives it back: the second had it, so it stays listed."""
    node.add("/dev/x0")
    (id_,) = kubelet.healthy(SECOND)
    link(node, "first", "x0")
    (other,) = kubelet.healthy(FIRST)
    kubelet.until(SECOND, {id_: "Unhealthy"})
    line = daemon.wait_log("device unhealthy", resource=SECOND, device=id_)
    assert f"already belongs to example.com/first (device {other})" in line["reason"]
    with pytest.raises(AdmissionError, match="no healthy devices present"):
        kubelet.run(SECOND)
    node.at("/dev/by-id/first").unlink()
    kubelet.until(SECOND, {id_: "Healthy"})
    kubelet.until(FIRST, {other: "Unhealthy"})


def test_within_one_resource_too(node, kubelet, daemon):
    node.add("/dev/x0")
    link(node, "second-a", "x0")
    link(node, "second-b", "x0")
    link(node, "second-c", "x1")
    node.add("/dev/x1")
    kubelet.wait_for(lambda k: list(k.devices(SECOND).values()).count("Healthy") == 2)
    daemon.wait_log("not offered", reason="second-b")
