"""Lists, capacity, the end of a stream in two releases (A5, A6, A7)."""

import time

import grpc
import pytest

from device_plugin._api.deviceplugin.v1beta1 import deviceplugin_pb2 as pb
from device_plugin.testing import FakeKubelet

X = "example.com/x"


def amounts(kubelet):
    return kubelet.capacity(X), kubelet.allocatable(X)


def test_each_list_replaces_the_one_before(running):
    kubelet, plugin = running()
    plugin.send(b="Unhealthy", c="Healthy")
    kubelet.wait_for(lambda k: "c" in k.devices(X))
    assert kubelet.devices(X) == {"b": "Unhealthy", "c": "Healthy"}
    assert amounts(kubelet) == (2, 1)
    assert [[one[0] for one in each.devices] for each in kubelet.lists(X)] == [
        ["a", "b"],
        ["b", "c"],
    ]
    assert kubelet.lists(X)[0].received <= kubelet.lists(X)[1].received


def test_only_the_word_healthy_is_healthy(running):
    kubelet, plugin = running()
    plugin.send(a="healthy", b="", c="HEALTHY", d="Healthy ", e="Healthy")
    kubelet.wait_for(lambda k: k.capacity(X) == 5)
    assert kubelet.allocatable(X) == 1


def test_an_id_listed_both_ways_counts_twice(running):
    kubelet, plugin = running()
    plugin.send(pb.Device(ID="a", health="Healthy"), pb.Device(ID="a", health="Unhealthy"))
    kubelet.wait_for(lambda k: k.devices(X) == {"a": "Unhealthy"})
    assert amounts(kubelet) == (2, 1)


def test_an_id_listed_twice_alike_counts_once(running):
    kubelet, plugin = running()
    plugin.send(pb.Device(ID="a", health="Healthy"), pb.Device(ID="a", health="Healthy"))
    kubelet.wait_for(lambda k: amounts(k) == (1, 1))


def test_empty_ids_and_empty_lists_are_accepted(running):
    kubelet, plugin = running()
    plugin.send(pb.Device(ID="", health="Healthy"))
    kubelet.wait_for(lambda k: k.devices(X) == {"": "Healthy"})
    plugin.send()
    kubelet.wait_for(lambda k: amounts(k) == (0, 0))
    assert kubelet.is_streaming(X)


def test_topology_is_recorded(running):
    kubelet, plugin = running()
    nodes = [pb.NUMANode(ID=1), pb.NUMANode(ID=-1)]
    plugin.send(pb.Device(ID="n", health="Healthy", topology=pb.TopologyInfo(nodes=nodes)))
    kubelet.wait_for(lambda k: k.capacity(X) == 1)
    assert kubelet.lists(X)[-1].devices == (("n", "Healthy", (1, -1)),)


def test_a_resource_is_unknown_until_its_first_list(kubelet, plugin):
    started, made = kubelet(), plugin()
    started.withhold_streams()
    made.register()
    assert amounts(started) == (None, None)


def test_a_stream_s_end_makes_all_unhealthy(running):
    kubelet, plugin = running()
    plugin.end_streams()
    kubelet.wait_for(lambda k: not k.is_streaming(X))
    kubelet.wait_for(lambda k: amounts(k) == (2, 0))
    assert kubelet.devices(X) == {"a": "Healthy", "b": "Healthy"}  # the list itself stays (A7)
    assert kubelet.registrations[0].stream_error is None


def test_a_cancelled_stream(running):
    kubelet, plugin = running()
    kubelet.cancel_stream(X)
    assert amounts(kubelet) == (2, 0)
    with plugin._changed:
        assert plugin._changed.wait_for(lambda: plugin.streams == 0, timeout=5)
    plugin.register()
    kubelet.wait_for(lambda k: amounts(k) == (2, 2))


def test_the_node_status_comes_with_the_tick(running):
    kubelet, plugin = running({"status_interval": 0.05})
    kubelet.wait_for(lambda k: k.node_status().allocatable == {X: 2})
    plugin.send(a="Unhealthy", b="Healthy")
    kubelet.wait_for(lambda k: k.node_status().allocatable == {X: 1})
    assert kubelet.node_status().capacity == {X: 2}


def test_the_node_status_does_not_come_before(running):
    kubelet, _ = running()
    assert kubelet.allocatable(X) == 2
    with pytest.raises(AssertionError, match="not so within"):
        kubelet.wait_for(lambda k: k.node_status().capacity, timeout=0.2)


def test_after_the_grace_a_stopped_resource_reads_zero_but_stays(running):
    kubelet, plugin = running({"status_interval": 0.05, "grace": 0.3})
    kubelet.wait_for(lambda k: k.node_status().allocatable == {X: 2})
    plugin.end_streams()
    kubelet.wait_for(lambda k: k.node_status().allocatable == {X: 0})
    assert kubelet.node_status().capacity == {X: 2}
    kubelet.wait_for(lambda k: k.node_status().capacity == {X: 0})
    assert amounts(kubelet) == (0, 0)
    plugin.register()
    kubelet.wait_for(lambda k: k.node_status().allocatable == {X: 2})


@pytest.fixture
def pair(running, plugin):
    """Two instances of one plugin, both streaming: an update with maxSurge 1."""

    def start(behaviour, socket="new.sock"):
        kubelet, old = running({"behaviour": behaviour})
        new = plugin(socket=socket).send(a="Healthy", b="Healthy", c="Healthy")
        new.register()
        kubelet.wait_for(lambda k: k.capacity(X) == 3)
        assert len(kubelet.streams(X)) == 2
        return kubelet, old, new

    return start


@pytest.mark.parametrize("behaviour", ["1.36", "1.37"])
def test_both_streams_are_read(pair, behaviour):
    kubelet, old, _ = pair(behaviour)
    old.send(a="Healthy")
    kubelet.wait_for(lambda k: k.capacity(X) == 1)


def test_in_1_36_the_old_stream_s_end_disconnects_the_new_client(pair):
    kubelet, old, new = pair("1.36")
    old.stop()
    kubelet.wait_for(lambda k: amounts(k) == (3, 0))
    kubelet.wait_for(lambda k: not k.streams(X))
    with new._changed:
        assert new._changed.wait_for(lambda: new.streams == 0, timeout=5)


def test_in_1_37_the_old_stream_s_end_harms_nobody(pair):
    kubelet, old, _ = pair("1.37")
    old.stop()
    kubelet.wait_for(lambda k: len(k.streams(X)) == 1)
    assert kubelet.is_streaming(X)
    assert amounts(kubelet) == (3, 3)


def test_in_1_37_the_new_stream_s_end_leaves_the_old_one_in_charge(pair):
    kubelet, _, new = pair("1.37")
    new.stop()
    kubelet.wait_for(lambda k: len(k.streams(X)) == 1)
    kubelet.wait_for(lambda k: k.is_streaming(X))
    assert amounts(kubelet) == (3, 3)


def test_in_1_36_a_failed_second_registration_orphans_the_first(running):
    kubelet, plugin = running({"behaviour": "1.36", "dial_timeout": 0.2})
    plugin.refused(endpoint="missing.sock")
    plugin.end_streams()
    kubelet.wait_for(lambda k: not k.is_streaming(X))
    assert amounts(kubelet) == (2, 2)  # nobody notices: still Healthy (A5)


def test_in_1_37_a_failed_second_registration_changes_nothing(running):
    kubelet, plugin = running({"behaviour": "1.37", "dial_timeout": 0.2})
    plugin.refused(endpoint="missing.sock")
    plugin.end_streams()
    kubelet.wait_for(lambda k: amounts(k) == (2, 0))


ALREADY = "device plugin already connected: {}/x.sock"


def test_in_1_37_a_socket_is_registered_once(running, folder):
    kubelet, plugin = running({"behaviour": "1.37"})
    assert plugin.refused()[1] == ALREADY.format(folder)
    plugin.send(a="Healthy")  # the stream goes on, and its lists are taken
    kubelet.wait_for(lambda k: amounts(k) == (1, 1))


def no_options(plugin):
    plugin.on_options = lambda context: context.abort(grpc.StatusCode.INTERNAL, "no options today")
    plugin.refused()
    del plugin.on_options


def twice(plugin):
    plugin.refused()


@pytest.mark.parametrize("fail", [twice, no_options])
def test_in_1_37_a_failed_registration_on_a_living_socket_orphans_it(running, folder, fail):
    """Nobody sees the stream end, and the socket is refused until the kubelet restarts (A5)."""
    kubelet, plugin = running({"behaviour": "1.37", "status_interval": 0.05, "grace": 0.1})
    fail(plugin)
    plugin.stop()
    kubelet.wait_for(lambda k: not k.streams(X))
    time.sleep(0.3)  # longer than the grace
    assert amounts(kubelet) == (2, 2)
    assert kubelet.node_status().allocatable == {X: 2}
    plugin.serve()
    plugin.on_options = lambda context: plugin.options
    assert plugin.refused()[1] == ALREADY.format(folder)
    kubelet.restart()
    plugin.stop()
    plugin.serve().register()
    kubelet.wait_for(lambda k: amounts(k) == (2, 2))
    plugin.stop()
    kubelet.wait_for(lambda k: amounts(k) == (2, 0))


def test_in_1_37_a_socket_whose_stream_has_ended_may_come_again(running):
    kubelet, plugin = running({"behaviour": "1.37"})
    plugin.end_streams()
    kubelet.wait_for(lambda k: amounts(k) == (2, 0))
    plugin.register()
    kubelet.wait_for(lambda k: amounts(k) == (2, 2))


@pytest.mark.parametrize("path", ["missing.sock", "other.sock"])
def test_in_1_37_a_failed_registration_elsewhere_harms_nobody(running, plugin, path):
    kubelet, first = running({"behaviour": "1.37", "dial_timeout": 0.2})
    other = plugin(socket="other.sock")
    other.on_options = lambda context: context.abort(grpc.StatusCode.INTERNAL, "no options today")
    first.refused(endpoint=path)
    first.end_streams()
    kubelet.wait_for(lambda k: amounts(k) == (2, 0))


def successor(kubelet, plugin, seed):
    """Three instances, of which the oldest leaves; returns the socket that is called from then."""
    with kubelet(seed=seed) as started:
        sockets = ["1.sock", "2.sock", "3.sock"]
        made = [plugin(socket=name).register() for name in sockets]
        started.wait_for(lambda k: len(k.lists(X)) == len(sockets))
        made[0].stop()
        started.wait_for(lambda k: len(k.streams(X)) == len(sockets) - 1)
        started.wait_for(lambda k: len(k._state.devices.sockets[X]) == len(sockets) - 1)
        path = started._state.devices.client(X).path
        for each in made[1:]:
            each.stop()
        return path.rpartition("/")[2]


def test_in_1_37_any_instance_that_is_left_may_be_called(folder, plugin):
    def kubelet(**settings):
        return FakeKubelet(folder, behaviour="1.37", **settings)

    found = {successor(kubelet, plugin, seed) for seed in range(8)}
    assert found == {"2.sock", "3.sock"}


def test_in_1_36_a_socket_may_be_registered_twice(running):
    kubelet, plugin = running({"behaviour": "1.36"})
    plugin.register()
    kubelet.wait_for(lambda k: len(k.streams(X)) == 2)


def test_a_failed_wait_tells_what_there_is(running):
    kubelet, _ = running()
    with pytest.raises(AssertionError) as caught:
        kubelet.wait_for(lambda k: k.capacity(X) == 7, timeout=0)
    text = str(caught.value)
    assert "not so within 0 s" in text
    assert "resource example.com/x: capacity 2, allocatable 2, stream open, 1 lists" in text
    assert "registration 1" in text
    assert "a=Healthy" in text
