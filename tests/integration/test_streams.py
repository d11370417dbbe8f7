"""ListAndWatch under stress: flapping devices, several streams, clients that come and go."""

import itertools
import threading

import grpc
import pytest

from device_plugin._api.deviceplugin.v1beta1 import deviceplugin_pb2 as pb

X = "example.com/x"
FLAPS = 1000


class Reader(threading.Thread):
    """A client of its own that keeps what it is sent."""

    def __init__(self, stub):
        super().__init__()
        self.lists = []
        self.news = threading.Condition()
        self.stream = stub.ListAndWatch(pb.Empty())
        self.error = None
        self.start()

    def run(self):
        try:
            for message in self.stream:
                with self.news:
                    self.lists.append({device.ID: device.health for device in message.devices})
                    self.news.notify_all()
        except grpc.RpcError as error:
            self.error = error.code()

    def wait_for(self, devices):
        with self.news:
            assert self.news.wait_for(lambda: self.lists and self.lists[-1] == devices, 5)

    def close(self):
        self.stream.cancel()
        self.join()


@pytest.fixture
def one(node, kubelet):
    """A device, its path and its ID, and the daemon."""
    path = node.add("/dev/x")
    daemon = node.start({"x": [{"path": node.path("/dev/x")}]})
    (id_,) = kubelet.healthy(X)
    return path, id_, daemon


def test_a_device_flaps_a_thousand_times(node, kubelet, one):
    path, id_, daemon = one
    for _ in range(FLAPS):
        path.unlink()
        node.add("/dev/x")
    kubelet.until(X, {id_: "Healthy"})
    path.unlink()
    kubelet.until(X, {id_: "Unhealthy"})
    assert len(kubelet.lists(X)) < FLAPS / 2
    assert len(kubelet.registrations) == 1
    assert len(daemon.log("device unhealthy")) <= 250, "a log that fills no disk"


def test_two_flap_and_a_third_is_told_of_in_time(node, kubelet):
    """What flaps delays nobody else's news for long."""
    flapping = [node.add(f"/dev/x{n}") for n in (1, 2)]
    node.start({"x": [{"path": node.path("/dev/x*")}], "y": [{"path": node.path("/dev/y")}]})
    kubelet.healthy(X, 2)
    kubelet.until("example.com/y", {})
    for _ in range(100):
        for path in flapping:
            path.unlink()
            node.add(f"/dev/{path.name}")
    node.add("/dev/x3")
    node.add("/dev/y")
    kubelet.healthy("example.com/y", timeout=1)
    kubelet.healthy(X, 3, timeout=1)


def test_two_streams_on_one_socket_are_told_the_same(node, kubelet, one):
    path, id_, _ = one
    reader = Reader(node.call(kubelet, X))
    for health in ("Healthy", "Unhealthy", "Healthy"):
        reader.wait_for({id_: health})
        kubelet.until(X, {id_: health})
        if health == "Healthy":
            path.unlink()
        else:
            node.add("/dev/x")
    reader.wait_for({id_: "Unhealthy"})
    kubelet.until(X, {id_: "Unhealthy"})
    reader.close()
    assert [one[id_] for one in reader.lists] == ["Healthy", "Unhealthy"] * 2
    assert all(before != after for before, after in itertools.pairwise(reader.lists))


def test_a_stream_that_opens_late_gets_what_is_now(node, kubelet, one):
    path, id_, _ = one
    path.unlink()
    kubelet.until(X, {id_: "Unhealthy"})
    reader = Reader(node.call(kubelet, X))
    reader.wait_for({id_: "Unhealthy"})
    reader.close()
    assert len(reader.lists) == 1
    assert len(kubelet.lists(X)) == 2


def test_a_hundred_cancelled_streams_take_nothing_with_them(node, kubelet, one, eventually):
    path, id_, daemon = one
    stub = node.call(kubelet, X)
    for _ in range(100):
        stream = stub.ListAndWatch(pb.Empty())
        assert next(stream)
        stream.cancel()
    eventually(lambda: _streams(daemon) == 1)
    assert daemon.threads() < 40
    stub.GetDevicePluginOptions(pb.Empty(), timeout=1)
    path.unlink()
    kubelet.until(X, {id_: "Unhealthy"})
    assert len(kubelet.registrations) == 1, "the kubelet's own stream is not theirs"


def test_a_crowd_of_streams_keeps_nobody_from_calling(node, kubelet, one, eventually):
    path, id_, daemon = one
    stub = node.call(kubelet, X)
    readers = [Reader(stub) for _ in range(20)]
    eventually(lambda: sum(reader.error is not None for reader in readers) == 13)
    assert {reader.error for reader in readers} == {None, grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert kubelet.run(X)[1].devices
    path.unlink()
    kubelet.until(X, {id_: "Unhealthy"})
    for reader in readers:
        if reader.error is None:
            reader.wait_for({id_: "Unhealthy"})
        reader.close()
    eventually(lambda: _streams(daemon) == 1)


def test_a_client_that_reads_nothing_holds_up_nobody(node, kubelet):
    """Its stream fills up; the kubelet's goes on."""
    node.start({"x": [{"virtual": {"count": 5000}}, {"path": node.path("/dev/x*")}]})
    kubelet.healthy(X, 5000)
    deaf = node.call(kubelet, X).ListAndWatch(pb.Empty())
    for n in range(6):
        node.add(f"/dev/x{n}")
        kubelet.healthy(X, 5001 + n)
    deaf.cancel()


def test_a_list_that_would_burst_is_cut_and_said(node, kubelet):
    """The kubelet takes 4 MiB and ends the stream over more (A3): what is listed stays."""
    path = node.add("/dev/x")
    name = "a-name-of-a-length-that-makes-for-long-ids"
    resource = f"example.com/{name}"
    virtual = {"virtual": {"count": 10_000}, "replicas": 10}
    selectors = [{"path": node.path("/dev/x")}, virtual, {"path": node.path("/dev/y")}]
    daemon = node.start({name: selectors})
    listed = kubelet.wait_for(lambda k: k.devices(resource), timeout=20)
    assert 40_000 < len(listed) < 100_000
    daemon.wait_log("not offered", reason="the list is full")
    assert len(daemon.log("not offered")) <= 21  # the last one counts the rest
    path.unlink()
    kubelet.wait_for(lambda k: list(k.devices(resource).values()).count("Unhealthy") == 1)
    node.add("/dev/y")
    daemon.wait_log("device unhealthy", reason="removed")
    assert len(kubelet.registrations) == 1
    assert len(kubelet.devices(resource)) == len(listed)


def _streams(daemon):
    name = f'device_plugin_list_and_watch_streams{{resource="{X}"}} '
    (line,) = [line for line in daemon.get("/metrics")[1].splitlines() if line.startswith(name)]
    return float(line.removeprefix(name))
