"""Registration over the kubelet's life: absent, late, restarted, its socket or ours replaced."""

import pytest

X = "example.com/x"
ONE = {"x": [{"virtual": {"count": 1}}]}


@pytest.fixture(params=["1.36", "1.37"])
def behaviour(request):
    return request.param


def test_a_late_kubelet_is_met_at_once(node):
    kubelet = node.kubelet(running=False)
    node.plugins.mkdir()
    daemon = node.start(ONE)
    daemon.wait_log("not registered", reason="waiting for the kubelet: no socket at")
    daemon.wait_page("/readyz", 503, "waiting for the kubelet")
    kubelet.start()
    kubelet.healthy(X, timeout=1)
    daemon.wait_page("/readyz", 200)
    assert len(daemon.log("not registered")) == 1
    kubelet.check_order(X)


def test_a_folder_that_comes_late_is_found_at_once(node):
    node.plugins = node.folder / "var" / "lib" / "kubelet"  # none of them is there
    kubelet = node.kubelet(running=False)
    daemon = node.start(ONE)
    daemon.wait_log("not registered", reason="does not exist")
    kubelet.start()
    kubelet.healthy(X, timeout=1)
    assert len(daemon.log("not registered", reason="does not exist")) == 1


def test_the_folder_is_replaced(node, kubelet):
    """As when a node is reset, and the kubelet set up anew."""
    node.start(ONE)
    kubelet.healthy(X)
    kubelet.stop()
    node.plugins.rename(node.folder / "old")
    kubelet.start()
    kubelet.accepted(X, 2, timeout=2)
    kubelet.check_order(X)


def test_a_stale_socket_is_said_once_and_its_successor_met_at_once(node):
    kubelet = node.kubelet()
    kubelet.stop()
    daemon = node.start(ONE)
    daemon.wait_log("not registered", reason="nobody answers there")
    kubelet.start()
    kubelet.healthy(X, timeout=1)
    assert len(daemon.log("not registered", reason="nobody answers there")) == 1


def test_a_kubelet_restart(node, behaviour):
    kubelet = node.kubelet(behaviour=behaviour)
    node.start(ONE)
    ids = kubelet.healthy(X)
    for count in (2, 3):
        kubelet.restart()
        kubelet.accepted(X, count, timeout=1)
        assert kubelet.healthy(X) == ids
    kubelet.check_order(X)


def test_a_kubelet_that_is_down_for_a_while(node, kubelet):
    daemon = node.start(ONE)
    kubelet.healthy(X)
    kubelet.stop()
    daemon.wait_log("not registered", reason="nobody answers there")
    daemon.wait_page("/readyz", 503, "nobody answers there")
    kubelet.start()
    kubelet.accepted(X, 2, timeout=1)


def test_a_storm_of_restarts_ends_registered(node, behaviour):
    kubelet = node.kubelet(behaviour=behaviour)
    resources = {f"r{n}": [{"virtual": {"count": n + 1}}] for n in range(3)}
    daemon = node.start(resources)
    for count, name in enumerate(resources, 1):
        kubelet.healthy(f"example.com/{name}", count)
    threads, files = daemon.threads(), daemon.open_files()
    kubelet.restart(times=20)
    for count, name in enumerate(resources, 1):
        resource = f"example.com/{name}"
        kubelet.healthy(resource, count)
        names = [one.endpoint for one in kubelet.good(resource)]
        assert len(set(names)) == len(names), "a socket comes again"
        assert len(kubelet.streams(resource)) == 1
    assert daemon.threads() < threads + 10
    assert daemon.open_files() < files + 10


def test_a_pod_that_waits_is_admitted_again_after_a_restart(node, kubelet):
    """Until the plugin is back, such a Pod fails (A14): hence the hurry."""
    node.start(ONE)
    kubelet.healthy(X)
    pod, _ = kubelet.run(X)
    kubelet.exit_container(pod, "main")
    kubelet.restart(readmit=False)
    kubelet.accepted(X, 2, timeout=1)
    kubelet.healthy(X)
    kubelet.readmit()
    kubelet.create_container(pod, "main")
    assert kubelet.pod_status(pod).phase == "Running"


def test_kubelet_sock_is_replaced_twice_within_a_second(node, behaviour):
    kubelet = node.kubelet(behaviour=behaviour)
    node.start(ONE)
    kubelet.healthy(X)
    kubelet.replace_socket(times=2)
    kubelet.wait_for(lambda k: len(k.good(X)) >= 2)
    kubelet.healthy(X)
    assert len(kubelet.streams(X)) == 1
    kubelet.check_order(X)


def test_our_socket_is_deleted(node, behaviour):
    kubelet = node.kubelet(behaviour=behaviour)
    daemon = node.start(ONE)
    kubelet.healthy(X)
    kubelet.delete_socket(X)
    old, new = kubelet.accepted(X, 2, timeout=1)
    daemon.wait_log("socket is gone", socket=old.endpoint)
    assert (node.plugins / new.endpoint).is_socket()
    kubelet.check_order(X)


def test_our_socket_is_replaced_by_something_else(node, kubelet):
    node.start(ONE)
    kubelet.healthy(X)
    (first,) = kubelet.good(X)
    path = node.plugins / first.endpoint
    (node.folder / "file").write_text("")
    (node.folder / "file").rename(path)
    kubelet.accepted(X, 2, timeout=1)
    kubelet.check_order(X)


def test_a_chmod_of_kubelet_sock_is_no_restart(node, kubelet):
    daemon = node.start({"x": ONE["x"], "y": [{"path": node.path("/dev/y")}]})
    kubelet.healthy(X)
    (node.plugins / "kubelet.sock").chmod(0o777)
    (node.plugins / "unrelated").write_text("")
    node.add("/dev/y")  # an event that comes after the two is seen
    kubelet.healthy("example.com/y")
    assert len(kubelet.registrations) == 2
    assert not daemon.log("not registered")


@pytest.mark.parametrize("order", ["before", "after"])
def test_the_stream_may_open_before_or_after_the_reply(node, kubelet, order):
    kubelet.open_streams(order)
    node.start(ONE)
    kubelet.healthy(X)
    assert len(kubelet.registrations) == 1
