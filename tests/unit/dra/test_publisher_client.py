"""The publisher with the real client, at an API server that judges slices as a real one does."""

import pytest

from device_plugin.dra.publisher import Publisher
from device_plugin.testing.apiserver import ApiServer
from tests.unit.dra.made import DRIVER, HALF, NODE, bare, gpu, offer, wait_for

client = pytest.importorskip("device_plugin.dra.client", exc_type=ImportError)
OFFERS = (
    offer(gpu("a", replicas=3), gpu("b", "it smokes")),
    offer(gpu("c"), parts=(HALF,), name="example.com/c"),
    offer(*bare(*(f"d{n}" for n in range(130))), name="example.com/d"),
)
NAMES = ["a", "b", "c-half-0", "c-half-1", "c", *(f"d{n}" for n in range(130))]


@pytest.fixture
def server():
    with ApiServer(NODE) as server:
        yield server


@pytest.fixture
def publisher(server, tmp_path):
    api = client.connect(server.kubeconfig(tmp_path / "kubeconfig"))
    one = Publisher(api, DRIVER, NODE)
    yield one
    one.stop()
    api.close()


def begin(server, publisher, *offers):
    publisher.start()
    publisher.publish(offers)
    wait_for(lambda: not publisher.problem)
    server.wait_for(watches)


def verbs(server):
    """What was asked, but for the watch, which has a thread of its own."""
    return [one.verb for one in server.requests if one.verb != "watch"]


def watches(server):
    return sum(one.verb == "watch" for one in server.requests)


def test_all_that_is_offered(server, publisher):
    begin(server, publisher, *OFFERS)
    assert server.devices(DRIVER) == NAMES
    (pool,) = server.pools(DRIVER).values()
    assert not pool.problems
    assert verbs(server) == ["get", "list", *["create"] * 4]


def test_the_kubelet_wipes(server, publisher):
    begin(server, publisher, *OFFERS)
    server.delete_slices(node=NODE)
    server.wait_for(lambda s: s.devices(DRIVER) == NAMES)


def test_a_device_breaks_and_heals(server, publisher):
    begin(server, publisher, offer(gpu("a"), gpu("b")))
    publisher.publish([offer(gpu("a", "broken"), gpu("b"))])
    server.wait_for(lambda s: s.slices(DRIVER)[0]["spec"]["devices"][0].get("taints"))
    publisher.publish([offer(gpu("a"), gpu("b"))])
    server.wait_for(lambda s: not s.slices(DRIVER)[0]["spec"]["devices"][0].get("taints"))
    assert verbs(server) == ["get", "list", "create", "update", "update"]


def test_the_server_is_away_for_a_while(server, publisher):
    begin(server, publisher, offer(gpu("a")))
    server.go_away()
    publisher.publish([offer(gpu("b"))])
    wait_for(lambda: "refused" in publisher.problem)
    server.start()
    server.wait_for(lambda s: s.devices(DRIVER) == ["b"], timeout=10)
    wait_for(lambda: not publisher.problem)
    server.delete_slices()
    server.wait_for(lambda s: s.devices(DRIVER) == ["b"], timeout=10)


def test_watches_that_end(server, publisher):
    begin(server, publisher, offer(gpu("a")))
    server.cut_watches()
    server.wait_for(lambda s: watches(s) == 2)
    server.delete_slices()
    server.wait_for(lambda s: s.devices(DRIVER) == ["a"])
    server.forget_events()
    server.delete_slices()
    server.wait_for(lambda s: s.devices(DRIVER) == ["a"])


def test_not_allowed(server, publisher):
    server.forbid("create")
    publisher.start()
    publisher.publish(OFFERS)
    wait_for(lambda: "create" in publisher.problem)
    assert "needs the ClusterRole" in publisher.problem
    assert server.devices(DRIVER) == []


def test_not_allowed_to_watch(server, publisher):
    server.forbid("watch")
    publisher.start()
    publisher.publish([offer(gpu("a"))])
    server.wait_for(lambda s: s.devices(DRIVER) == ["a"])
    wait_for(lambda: "watch" in publisher.problem)
    assert verbs(server).count("list") == 1


def test_it_is_asked_to_slow_down(server, publisher):
    server.throttle(1, times=2)
    publisher.start()
    publisher.publish([offer(gpu("a"))])
    server.wait_for(lambda s: s.devices(DRIVER) == ["a"], timeout=10)
    first, second, third = [one.started for one in server.requests if one.verb == "get"]
    assert second - first >= 1
    assert third - second >= 1


@pytest.mark.parametrize(
    ("gate", "names"),
    [
        ("DRAConsumableCapacity", ["a", "a-r1", "a-r2", *NAMES[1:]]),
        ("DRAPartitionableDevices", ["a", "b", "c", *NAMES[5:]]),
        ("DRADeviceTaints", ["a", *NAMES[2:]]),
    ],
)
def test_a_gate_is_off(server, publisher, gate, names):
    server.disable(gate)
    begin(server, publisher, *OFFERS)
    assert server.devices(DRIVER) == names
    assert publisher.notes


def test_no_such_api(server, publisher):
    server.serves_resources = False
    publisher.start()
    publisher.publish([offer(gpu("a"))])
    wait_for(lambda: "from 1.34 on" in publisher.problem)
