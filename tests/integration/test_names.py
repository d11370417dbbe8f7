"""Names that nobody expects, and a good device beside them that stays untouched."""

import os
import re

import pytest

from device_plugin._api.deviceplugin.v1beta1 import deviceplugin_pb2 as pb

X = "example.com/x"
Y = "example.com/y"
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

TAKEN = {
    "spaces": "x a  b ",
    "glob characters": "x[0]*?",
    "braces": "x{id}{{",
    "quotes": "x'\"`$(reboot)\\",
    "UTF-8": "xäöü-Ж-日本",
    "upper case": "xUPPER",
    "255 bytes": "x" * 255,
    "like a replica": "x-r3",
    "dots": "x.a..",
}
PASSED_OVER = {
    "newline": b"x\nINJECTED",
    "not UTF-8": b"x\xff\xfe",
    "escape": b"x\x1b[31m",
}


@pytest.fixture(scope="module")
def place(shared_node):
    """A daemon that takes every x, and a good resource beside it."""
    shared_node.add("/dev/y")
    kubelet = shared_node.kubelet()
    x = {
        "devices": [{"path": shared_node.path("/dev/x{rest}"), "to": "/dev/in-{rest}"}],
        "container": {"env": {"REST": "{rest}", "HOST": "{host_path}"}},
    }
    daemon = shared_node.start({"x": x, "y": [{"path": shared_node.path("/dev/y")}]})
    kubelet.healthy(Y)
    yield shared_node, kubelet, daemon
    kubelet.run(Y)
    assert len(kubelet.lists(Y)) == 1, "what happens to x is nothing to y"


def _add(place, name):
    """Add a node, wait for the device; returns its ID."""
    node, kubelet, _ = place
    before = set(kubelet.devices(X))
    node.add(f"/dev/{name}")
    kubelet.wait_for(lambda k: len(k.devices(X)) > len(before))
    (id_,) = set(kubelet.devices(X)) - before
    return id_


@pytest.mark.parametrize("name", TAKEN.values(), ids=TAKEN)
def test_an_odd_name_is_a_device_like_any_other(place, name):
    node, kubelet, _ = place
    id_ = _add(place, name)
    assert LABEL.fullmatch(id_)
    request = pb.AllocateRequest(
        container_requests=[pb.ContainerAllocateRequest(devices_ids=[id_])]
    )
    (answer,) = node.call(kubelet, X).Allocate(request).container_responses
    path, rest = node.path(f"/dev/{name}"), name.removeprefix("x")
    assert [(device.host_path, device.container_path) for device in answer.devices] == [
        (path, f"/dev/in-{rest}")
    ]
    assert answer.envs == {"REST": rest, "HOST": path}
    node.at(f"/dev/{name}").unlink()
    kubelet.wait_for(lambda k: k.devices(X)[id_] == "Unhealthy")


@pytest.mark.parametrize("name", PASSED_OVER.values(), ids=PASSED_OVER)
def test_a_name_that_could_do_harm_is_passed_over(place, name):
    node, _, daemon = place
    path = node.add(f"/dev/{os.fsdecode(name)}")
    shown = ascii(node.path(f"/dev/{os.fsdecode(name)}"))
    line = daemon.wait_log("not offered", reason=f"{shown} passed over")
    assert line["reason"].isprintable()
    path.unlink()


def test_many_harmful_names_are_a_short_message(place):
    node, _, daemon = place
    for number in range(2000):
        os.mkfifo(node.at(f"/dev/x\n{number}"))
    id_ = _add(place, "x-the-last")
    daemon.wait_log("devices added", devices=[id_])
    line = daemon.log("not offered", reason="more passed over")[-1]
    assert len(line["reason"]) < 200


def test_names_that_differ_only_in_what_an_id_cannot_show(place):
    assert len({_add(place, name) for name in ("x-1", "x_1", "x 1", "X-1".lower() + "-")}) == 4
