"""Asking the kubelet who holds what: its answers, its limits, its nonsense."""

import threading
import time

import grpc
import pytest

from device_plugin._api.podresources.v1 import podresources_pb2 as pb
from device_plugin.podresources import SOCKET, Holder, PodResources, Unavailable, ask
from device_plugin.testing import FakeKubelet


@pytest.fixture
def kubelet(short_folder):
    with FakeKubelet(short_folder / "device-plugins", root=short_folder) as kubelet:
        yield kubelet


@pytest.fixture
def asked(kubelet, short_folder):
    return lambda timeout=5: ask(short_folder / SOCKET, timeout)


def devices(name, *ids):
    return [pb.ContainerDevices(resource_name=name, device_ids=[id_]) for id_ in ids]


def test_entries_are_merged_by_resource_and_id(kubelet, asked):
    """One entry for each NUMA node of a device; an ID may be two containers'."""
    containers = [
        pb.ContainerResources(
            name="main", devices=[*devices("r", "a", "a", "b"), *devices("s", "a")]
        ),
        pb.ContainerResources(name="side", devices=devices("r", "b")),
    ]
    pod = pb.PodResources(name="p", namespace="n", containers=containers)
    answer = pb.ListPodResourcesResponse(pod_resources=[pod])
    kubelet.pod_resources.answer(answer.SerializeToString(), method="List")
    healthy = pb.AllocatableResourcesResponse(devices=devices("r", "a", "b", "a", "c"))
    kubelet.pod_resources.answer(healthy.SerializeToString(), method="GetAllocatableResources")
    holdings = asked()
    main, side = Holder("n", "p", "main"), Holder("n", "p", "side")
    assert holdings.holders == {"r": {"a": (main,), "b": (main, side)}, "s": {"a": (main,)}}
    assert holdings.healthy == {"r": {"a", "b", "c"}}
    assert holdings.held("other") == {}


def test_the_numa_nodes_of_a_device_are_its_entries_together(kubelet, asked):
    def entry(*nodes):
        topology = pb.TopologyInfo(nodes=[pb.NUMANode(ID=node) for node in nodes])
        return pb.ContainerDevices(resource_name="r", device_ids=["a"], topology=topology)

    container = pb.ContainerResources(name="c", devices=[entry(1), entry(0), entry(-1), entry()])
    pod = pb.PodResources(name="p", namespace="n", containers=[container])
    answer = pb.ListPodResourcesResponse(pod_resources=[pod])
    kubelet.pod_resources.answer(answer.SerializeToString(), method="List")
    assert asked().numa_nodes == {("r", "a"): (0, 1)}


def test_an_answer_beyond_grpcs_own_limit(kubelet, asked):
    ids = [f"{i:060}" for i in range(80_000)]
    container = pb.ContainerResources(name="c", devices=devices("r", *ids))
    pod = pb.PodResources(name="p", namespace="n", containers=[container])
    answer = pb.ListPodResourcesResponse(pod_resources=[pod]).SerializeToString()
    assert len(answer) > 5_000_000
    kubelet.pod_resources.answer(answer, method="List")
    assert len(asked(30).held("r")) == len(ids)


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (lambda p: p.fail(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit"), "rate"),
        (lambda p: p.fail(grpc.StatusCode.UNIMPLEMENTED, ""), "UNIMPLEMENTED"),
        (lambda p: p.answer(b"\xff\xff\xff nonsense"), "makes no sense"),
        (lambda p: p.slow(60), "no answer in time"),
        (lambda p: p.stop(), "nobody answers there"),
        (lambda p: p.vanish(), "is the kubelet's pod-resources folder mounted?"),
    ],
)
def test_troubles_have_a_reason(kubelet, asked, trouble, reason):
    trouble(kubelet.pod_resources)
    with pytest.raises(Unavailable, match=reason):
        asked(0.5)
    kubelet.pod_resources.recover()


class TestThread:
    @pytest.fixture
    def start(self, short_folder):
        started = []

        def start(interval=0.05):
            answers = threading.Semaphore(0)
            thread = PodResources(short_folder / SOCKET, interval, answers.release)
            thread.start()
            started.append(thread)
            return thread, answers

        yield start
        for thread in started:
            thread.stop()
            thread.join(5)
            assert not thread.is_alive()

    def test_it_asks_at_once_and_again(self, kubelet, start):
        thread, answers = start()
        assert thread.wait(0, 5)
        assert thread.latest is not None
        first = thread.latest
        assert answers.acquire(timeout=5)
        assert answers.acquire(timeout=5)
        assert thread.latest.asked >= first.asked + 0.2, "the kubelet's limit is for all"

    def test_a_missing_kubelet_costs_no_time(self, start):
        started = time.monotonic()
        thread, _ = start(interval=3600)
        assert thread.wait(0, 5)
        assert time.monotonic() - started < 1
        assert thread.latest is None
        assert "no socket at" in thread.problem

    def test_woken_it_asks_before_its_time(self, kubelet, start):
        thread, answers = start(interval=3600)
        for _ in range(3):
            assert answers.acquire(timeout=5)
            thread.wake()

    def test_old_news_stays_while_nobody_answers(self, kubelet, start):
        thread, answers = start()
        answers.acquire(timeout=5)
        kubelet.stop()
        while not thread.problem:
            assert answers.acquire(timeout=15)
        assert thread.latest is not None
        kubelet.start()
        while thread.problem:
            assert answers.acquire(timeout=15)
