"""What the kubelet is told of the devices' health, in both versions."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from device_plugin._api.drahealth.v1 import drahealth_pb2 as v1
from device_plugin._api.drahealth.v1 import drahealth_pb2_grpc as v1_grpc
from device_plugin._api.drahealth.v1alpha1 import drahealth_pb2 as v1alpha1
from device_plugin._api.drahealth.v1alpha1 import drahealth_pb2_grpc as v1alpha1_grpc
from device_plugin.device import Device
from device_plugin.dra import health
from device_plugin.dra.health import DeviceHealth, Health, cut, report
from device_plugin.dra.service import Service
from device_plugin.listing import LIST_LIMIT, Listed
from device_plugin.plugin import Pace
from tests.unit.dra.claimed import DRIVER, POOL, ClaimNode, result, stick
from tests.unit.dra.made import HALF, offer, wait_for

VERSIONS = [
    (v1, v1_grpc.DRAResourceHealthStub),
    (v1alpha1, v1alpha1_grpc.DRAResourceHealthStub),
]
CONTEXT: Any = SimpleNamespace(add_callback=lambda _: True, is_active=lambda: True)


@pytest.fixture
def node(tree):
    made = ClaimNode(tree)
    made.offer(stick("gpu-0"), stick("gpu-1", reason="temperature is 110"))
    return made


@pytest.fixture
def service(node, short_folder):
    for name in ("plugins", "plugins_registry"):
        (short_folder / name).mkdir()
    made = Service(
        claims=node.claims,
        offers=lambda: node.offers,
        driver=DRIVER,
        pool=POOL,
        kubelet_root=short_folder,
    )
    made.start()
    wait_for(lambda: [*(short_folder / "plugins_registry").iterdir()])
    yield made
    made.stop()
    made.join(5)
    assert not made.is_alive()


@contextmanager
def stream(service, pb=v1, stub=v1_grpc.DRAResourceHealthStub):
    (path,) = service.folders[2].iterdir()
    options = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(f"unix:{path}", options) as channel:
        call = stub(channel).NodeWatchResources(pb.NodeWatchResourcesRequest())
        yield call
        call.cancel()


def told(message):
    return {one.device.device_name: one.message for one in message.devices}


@pytest.mark.parametrize(("pb", "stub"), VERSIONS)
def test_the_whole_list_at_once(service, pb, stub):
    with stream(service, pb, stub) as reports:
        healthy, broken = next(reports).devices
    assert healthy.device == pb.DeviceIdentifier(pool_name=POOL, device_name="gpu-0")
    assert (healthy.health, healthy.message) == (pb.HEALTHY, "")
    assert (broken.health, broken.message) == (pb.UNHEALTHY, "temperature is 110")
    assert abs(healthy.last_updated_time - time.time()) < 60
    assert healthy.health_check_timeout_seconds > health.RESEND * 2


def test_the_whole_list_at_every_change(service, node):
    with stream(service) as reports:
        next(reports)
        node.offer(stick("gpu-0", reason="hot"), stick("gpu-1"))
        service.news()
        assert told(next(reports)) == {"gpu-0": "hot", "gpu-1": ""}


def test_what_claims_have_is_told_when_they_have_it(service, node):
    node.offer(stick("gpu-0", replicas=2), stick("gpu-1"), partitions=(HALF,))
    with stream(service) as reports:
        assert told(next(reports)) == {"gpu-0": "", "gpu-1": ""}
        node.prepared("a", result("gpu-0-r1"))
        service.news()
        assert told(next(reports)) == {"gpu-0-r1": "", "gpu-0": "", "gpu-1": ""}


def test_it_is_sent_again_before_the_kubelet_forgets(service, monkeypatch):
    monkeypatch.setattr(health, "RESEND", 0.05)
    with stream(service) as reports:
        first = [next(reports) for _ in range(3)]
    assert told(first[0]) == told(first[2])


def test_what_is_no_news_is_not_sent():
    looked = []

    def current():
        looked.append(1)
        return now

    now = (DeviceHealth("gpu-0"),)
    made = Health(current)
    reports = made.reports(CONTEXT)
    assert next(reports) == now
    with ThreadPoolExecutor() as thread:
        second = thread.submit(next, reports)
        made.news()
        wait_for(lambda: len(looked) == 2)
        made.news()
        wait_for(lambda: len(looked) == 3)
        now = (DeviceHealth("gpu-0", "hot"),)
        made.news()
        assert second.result(10) == now


def test_the_streams_end_with_the_service(service):
    with stream(service) as reports:
        next(reports)
        service.stop()
        assert not [*reports]  # ends without an error


def test_a_stream_that_the_kubelet_ends_is_over(service):
    for _ in range(health.MAX_STREAMS * 3):
        with stream(service) as reports:
            next(reports)
        wait_for(lambda: not service._health.streams)


def test_more_streams_than_any_kubelet_has_are_turned_away(service):
    with ExitStack() as stack:
        for _ in range(health.MAX_STREAMS):
            next(stack.enter_context(stream(service)))
        with pytest.raises(grpc.RpcError) as why:
            next(stack.enter_context(stream(service)))
    assert why.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize(
    ("text", "limit", "cut_"),
    [
        ("abc", 3, "abc"),
        ("abcdef", 5, "ab..."),
        ("ééé", 6, "ééé"),
        ("éééé", 6, "é..."),
        ("aéééé", 7, "aé..."),
        ("\ud800", 9, "?"),
    ],
)
def test_messages_are_cut_between_characters(text, limit, cut_):
    assert cut(text, limit) == cut_
    assert len(cut(text, limit).encode()) <= limit


def test_long_reasons_are_for_those_who_have_the_device(node):
    long = "é" * 2000
    node.offer(stick("gpu-0"))
    node.prepared("a", result("gpu-0"))
    node.offer(stick("gpu-0", reason=long), stick("gpu-1", reason=long))
    held, other = report(node.offers, node.claims.prepared)
    assert 1000 < len(held.reason.encode()) <= health.MESSAGE_LIMIT
    assert len(other.reason.encode()) <= 128


def test_a_device_of_a_claim_that_the_config_dropped(node):
    node.prepared("a", result("gpu-0"))
    node.offers = []
    assert report([], node.claims.prepared) == (
        DeviceHealth("gpu-0", "it is not in the config any more"),
    )


def test_a_list_never_outgrows_a_message(node):
    node.prepared("a", result("gpu-0"))
    many = [Listed(Device(f"{'d' * 50}-{i}"), "x" * 200) for i in range(20_000)]
    node.offer(stick("gpu-0"))
    told = report([*node.offers, offer(*many)], node.claims.prepared)
    assert told[0].name == "gpu-0"
    assert len(told) < 20_000
    assert sum(len(one.name) + len(one.reason) + 300 for one in told) <= LIST_LIMIT


def test_a_flapping_device_does_not_wear_the_kubelet():
    count = iter(range(10**9))
    made = Health(lambda: (DeviceHealth("gpu-0", str(next(count))),))
    reports = made.reports(CONTEXT)
    next(reports)
    made.news()
    started = time.monotonic()
    next(reports)
    assert time.monotonic() - started >= Pace.REST
    made.end_streams()
    assert not [*reports]
