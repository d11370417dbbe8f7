"""Devices that vanish, return or turn into something else, as events tell: nothing polls here."""

import os
import socket

import pytest

X = "example.com/x"


def fifo(path):
    os.mkfifo(path)


def regular_file(path):
    path.write_text("")


def dangling_link(path):
    path.symlink_to("nowhere")


def link_cycle(path):
    path.symlink_to(path.name)


def unix_socket(path):
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(path))


def empty_folder(path):
    path.mkdir()


CHANGELINGS = {
    fifo: "is a FIFO, not a device node",
    regular_file: "is a regular file, not a device node",
    dangling_link: "nowhere, which does not exist",
    link_cycle: "is a link cycle",
    unix_socket: "is a socket, not a device node",
    empty_folder: "is a folder without device nodes",
}


@pytest.fixture(scope="module")
def changing(shared_node):
    """One daemon for all kinds of changes, a resource for each."""
    names = [_name(make) for make in CHANGELINGS]
    for name in names:
        shared_node.add(f"/dev/{name}")
    kubelet = shared_node.kubelet()
    daemon = shared_node.start(
        {name: [{"path": shared_node.path(f"/dev/{name}")}] for name in names}
    )
    return shared_node, kubelet, daemon


def _name(make):
    return make.__name__.replace("_", "-")


@pytest.mark.parametrize("make", CHANGELINGS, ids=_name)
def test_replaced_by_what_is_no_device(changing, make):
    node, kubelet, daemon = changing
    name = _name(make)
    path, resource = node.at(f"/dev/{name}"), f"example.com/{name}"
    (id_,) = kubelet.healthy(resource)
    path.unlink()
    make(path)
    daemon.wait_log("device unhealthy", device=id_, reason=CHANGELINGS[make])
    kubelet.until(resource, {id_: "Unhealthy"})
    (path.rmdir if make is empty_folder else path.unlink)()
    node.add(f"/dev/{name}")
    kubelet.until(resource, {id_: "Healthy"})


def test_unlinked_and_back(node, kubelet):
    path = node.add("/dev/x")
    daemon = node.start({"x": [{"path": node.path("/dev/x"), "replicas": 3}]})
    ids = kubelet.healthy(X, 3)
    pod, _ = kubelet.run(X)
    for round_ in (1, 2):
        path.unlink()
        kubelet.until(X, dict.fromkeys(ids, "Unhealthy"))
        daemon.wait_log("device unhealthy", device=ids[0], reason="removed", times=round_)
        (held,) = kubelet.allocated(pod, "main", X)
        assert kubelet.allocated_resources_status(pod, "main") == {X: {held: "Unhealthy"}}
        node.add("/dev/x")
        kubelet.until(X, dict.fromkeys(ids, "Healthy"))
        daemon.wait_log("device healthy", device=ids[0], times=round_)


def test_others_are_left_alone(node, kubelet):
    paths = [node.add(f"/dev/x{n}") for n in range(12)]
    node.start({"x": [{"path": node.path("/dev/x*")}]})
    ids = kubelet.healthy(X, 12)
    paths[10].unlink()
    kubelet.until(X, {id_: "Unhealthy" if id_ == ids[10] else "Healthy" for id_ in ids})


def test_a_newcomer_joins(node, kubelet):
    """An empty list first: the resource is known, and nothing is there (peers 57, 66)."""
    daemon = node.start({"x": [{"path": node.path("/dev/x*")}]})
    kubelet.until(X, {})
    daemon.wait_log("not offered", reason="matches nothing")
    node.add("/dev/x1")
    first = kubelet.healthy(X)
    node.add("/dev/x2")
    assert kubelet.healthy(X, 2)[0] == first[0]


def test_a_companion_is_lost_and_found(node, kubelet):
    node.add("/dev/x0")
    companion = node.add("/dev/y0")
    selector = {"path": node.path("/dev/x{n}"), "with": [node.path("/dev/y{n}")]}
    daemon = node.start({"x": [selector]})
    (id_,) = kubelet.healthy(X)
    companion.unlink()
    kubelet.until(X, {id_: "Unhealthy"})
    daemon.wait_log("device unhealthy", reason=f"{node.path('/dev/y0')} does not exist")
    node.add("/dev/y0")
    kubelet.until(X, {id_: "Healthy"})


def test_one_node_of_a_folder_goes(node, kubelet):
    """A folder is one device: it is well as long as it has a node, and gives what is there."""
    node.at("/dev/d").mkdir()
    first, _ = node.add("/dev/d/a"), node.add("/dev/d/b")
    node.start({"x": [{"path": node.path("/dev/d")}], "y": [{"path": node.path("/dev/y")}]})
    (id_,) = kubelet.healthy(X)
    first.unlink()
    node.add("/dev/y")  # seen later than the change before, which no list tells of
    kubelet.healthy("example.com/y")
    _, created = kubelet.run(X)
    assert [device.container_path for device in created.devices] == [node.path("/dev/d/b")]
    node.at("/dev/d/b").unlink()
    kubelet.until(X, {id_: "Unhealthy"})
