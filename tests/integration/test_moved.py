"""A path that means another device by now: who was given it must not get the other one unasked.

The kubelet replays its first answer whenever a container restarts (A10, A14).
"""

import os

import pytest

from device_plugin.testing import AdmissionError

X = "example.com/x"
Y = "example.com/y"
NULL, ZERO, FULL = (1, 3), (1, 5), (1, 7)


@pytest.fixture
def replace(node):
    """Put another node in the place of one, in one step."""

    def replace(path, numbers):
        node.add(f"{path}.new", numbers).rename(node.at(path))

    return replace


@pytest.fixture
def resources(node):
    return {"x": [{"path": node.path("/dev/x")}], "y": [{"path": node.path("/dev/y*")}]}


@pytest.mark.root
def test_never_handed_out(node, kubelet, replace, resources):
    node.add("/dev/x", NULL)
    daemon = node.start(resources)
    kubelet.until(X, {"x": "Healthy"})
    replace("/dev/x", ZERO)
    node.add("/dev/y")  # seen later than the change before
    kubelet.healthy(Y)
    _, created = kubelet.run(X)
    assert [(device.major, device.minor) for device in created.devices] == [ZERO]
    assert len(kubelet.lists(X)) == 1
    assert not daemon.log("device unhealthy", resource=X)


@pytest.mark.root
def test_handed_out(node, kubelet, replace, resources):
    node.add("/dev/x", NULL)
    daemon = node.start(resources)
    kubelet.until(X, {"x": "Healthy"})
    pod, _ = kubelet.run(X)
    replace("/dev/x", ZERO)
    kubelet.until(X, {"x": "Unhealthy"})
    line = daemon.wait_log("device unhealthy", device="x")
    assert line["reason"] == "moved: /dev/x was c 1:3 when a container got it and is c 1:5 now"
    assert kubelet.allocated_resources_status(pod, "main") == {X: {"x": "Unhealthy"}}
    replace("/dev/x", FULL)
    daemon.wait_log("device unhealthy", device="x", reason="is c 1:7 now")
    replace("/dev/x", NULL)
    kubelet.until(X, {"x": "Healthy"})
    assert [devices for (devices,) in (one.devices for one in kubelet.lists(X))] == [
        ("x", "Healthy", ()),
        ("x", "Unhealthy", ()),
        ("x", "Healthy", ()),
    ], "a new reason alone is nothing to the kubelet"


@pytest.mark.root
def test_handed_out_and_gone_for_a_while(node, kubelet, resources):
    node.add("/dev/x", NULL)
    daemon = node.start(resources)
    kubelet.until(X, {"x": "Healthy"})
    kubelet.run(X)
    node.at("/dev/x").unlink()
    daemon.wait_log("device unhealthy", device="x", reason="removed")
    node.add("/dev/x", ZERO)
    daemon.wait_log("device unhealthy", device="x", reason="moved")
    node.at("/dev/x").unlink()
    node.add("/dev/x", NULL)
    kubelet.until(X, {"x": "Healthy"})


@pytest.mark.root
@pytest.mark.parametrize("while_down", [False, True])
def test_a_new_process_still_knows(node, kubelet, replace, resources, while_down):
    """And it lists the device, which a Pod holds, at once: without, a kubelet may panic (A6)."""
    node.add("/dev/x", NULL)
    first = node.start(resources)
    kubelet.until(X, {"x": "Healthy"})
    kubelet.run(X)
    if not while_down:
        replace("/dev/x", ZERO)
        kubelet.until(X, {"x": "Unhealthy"})
    first.kill()
    if while_down:
        replace("/dev/x", ZERO)
    second = node.start(resources)
    kubelet.until(X, {"x": "Unhealthy"})
    second.wait_log("device unhealthy", device="x", reason="moved: /dev/x was c 1:3")
    replace("/dev/x", NULL)
    kubelet.until(X, {"x": "Healthy"})


@pytest.mark.root
def test_a_companion_counts_too(node, kubelet, replace):
    node.add("/dev/x0", NULL)
    node.add("/dev/y0", NULL)
    selector = {"path": "/dev/x{n}", "with": [{"path": "/dev/y{n}", "optional": True}]}
    daemon = node.start({"x": [selector]})
    kubelet.until(X, {"x0": "Healthy"})
    kubelet.run(X)
    replace("/dev/y0", ZERO)
    daemon.wait_log("device unhealthy", device="x0", reason="moved: /dev/y0 was c 1:3")
    node.at("/dev/y0").unlink()
    daemon.wait_log("device unhealthy", device="x0", reason="moved: /dev/y0, handed to a container")
    node.add("/dev/y0", NULL)
    kubelet.until(X, {"x0": "Healthy"})


def test_a_held_device_that_is_broken_at_the_start(node, kubelet, resources):
    """What containers were given is listed, whatever state it is in."""
    node.add("/dev/x")
    first = node.start(resources)
    (id_,) = kubelet.healthy(X)
    kubelet.run(X)
    first.kill()
    node.at("/dev/x").unlink()
    os.mkfifo(node.at("/dev/x"))
    second = node.start(resources)
    kubelet.until(X, {id_: "Unhealthy"})
    second.wait_log("device unhealthy", device=id_, reason="is a FIFO")
    node.at("/dev/x").unlink()
    node.add("/dev/x")
    kubelet.until(X, {id_: "Healthy"})


def test_a_held_device_that_is_gone_at_the_start(node, kubelet, resources):
    node.add("/dev/x")
    first = node.start(resources)
    (id_,) = kubelet.healthy(X)
    kubelet.run(X)
    first.kill()
    node.at("/dev/x").unlink()
    node.start(resources)
    kubelet.wait_for(lambda k: len(k.lists(X)) == 2)
    assert kubelet.devices(X) == {id_: "Unhealthy"}
    node.add("/dev/x")
    kubelet.until(X, {id_: "Healthy"})


@pytest.mark.root
def test_a_link_that_leads_elsewhere_is_no_move(node, kubelet, resources):
    """The runtime follows it at every creation: a restarted container gets the right node."""
    node.add("/dev/a", NULL)
    node.add("/dev/b", ZERO)
    node.at("/dev/x").symlink_to("a")
    daemon = node.start(resources)
    kubelet.until(X, {"x": "Healthy"})
    pod, created = kubelet.run(X)
    assert [device.real_path for device in created.devices] == ["/dev/a"]
    node.at("/dev/x.new").symlink_to("b")
    node.at("/dev/x.new").rename(node.at("/dev/x"))
    node.add("/dev/y")
    kubelet.healthy(Y)
    created = kubelet.restart_container(pod, "main")
    assert [(device.host_path, device.real_path) for device in created.devices] == [
        ("/dev/x", "/dev/b")
    ]
    assert not daemon.log("device unhealthy", resource=X)


@pytest.mark.root
def test_moved_is_not_given_to_anybody(node, kubelet, replace, resources):
    """Even in the moment before the list says so: past the kubelet, then through it."""
    node.add("/dev/x", NULL)
    node.start(resources)
    kubelet.until(X, {"x": "Healthy"})
    kubelet.remove(kubelet.run(X)[0])
    replace("/dev/x", ZERO)
    kubelet.until(X, {"x": "Unhealthy"})
    with pytest.raises(AdmissionError, match="no healthy devices present"):
        kubelet.run(X)
