"""PodResources' socket, its rate limit, and what tests can make go wrong there (B)."""

import contextlib
import socket
import stat

import grpc
import pytest

from device_plugin._api.podresources.v1 import podresources_pb2 as pr
from device_plugin.testing import FakeKubelet
from device_plugin.testing.podresources import Limiter

EMPTY = pr.ListPodResourcesResponse()


def pods(client):
    return client.List(pr.ListPodResourcesRequest(), timeout=5, wait_for_ready=True)


def allocatable(client):
    return client.GetAllocatableResources(pr.AllocatableResourcesRequest())


def refusal(call):
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value.code(), caught.value.details()


def test_too_many_calls_at_once_are_rejected(kubelet, client, root):
    started = kubelet(root=root)
    calls = [client.List.future(pr.ListPodResourcesRequest()) for _ in range(20)]
    calls += [
        client.GetAllocatableResources.future(pr.AllocatableResourcesRequest()) for _ in range(20)
    ]
    errors = [call.exception() for call in calls]
    refused = [error for error in errors if error]
    assert 1 <= len(refused) <= 30
    assert {(error.code(), error.details()) for error in refused} == {
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
    }
    queries = started.pod_resources.queries
    assert len(queries) == 40
    assert [query.error for query in queries].count("rejected by rate limit") == len(refused)
    started.restart()
    assert pods(client) == EMPTY


def test_the_bucket_is_filled_a_hundred_times_a_second():
    now = 0.0
    limiter = Limiter(100, 10, clock=lambda: now)
    assert [limiter.allow() for _ in range(11)] == [True] * 10 + [False]
    now = 0.0201
    assert [limiter.allow() for _ in range(3)] == [True, True, False]
    now = 60.0
    assert [limiter.allow() for _ in range(11)] == [True] * 10 + [False]


def test_the_socket(kubelet, client, root):
    folder = root / "pod-resources"
    folder.mkdir()
    (folder / "kubelet.sock").write_text("of an earlier life")
    started = kubelet(root=root)
    assert stat.S_ISSOCK((folder / "kubelet.sock").stat().st_mode)
    assert pods(client) == EMPTY
    assert [path.name for path in folder.iterdir()] == ["kubelet.sock"]  # the other name is gone
    started.stop()
    with socket.socket(socket.AF_UNIX) as late, pytest.raises(ConnectionRefusedError):
        late.connect(str(folder / "kubelet.sock"))
    started.start()
    assert pods(client) == EMPTY


def test_its_folder_is_for_root_and_its_group(kubelet, root):
    kubelet(root=root)
    assert stat.S_IMODE((root / "pod-resources").stat().st_mode) & 0o027 == 0


def test_without_a_root_there_is_none(kubelet, folder):
    started = kubelet()
    with pytest.raises(RuntimeError, match="no PodResources without a root"):
        _ = started.pod_resources
    assert {path.name for path in folder.iterdir()} == {"kubelet.sock"}


def test_no_socket(folder, root):
    path = root / "pod-resources" / "kubelet.sock"
    kubelet = FakeKubelet(folder, root=root)
    kubelet.pod_resources.vanish()
    with kubelet:
        assert not path.exists()
        kubelet.pod_resources.appear()
        assert path.is_socket()
        kubelet.pod_resources.vanish()
        assert not path.exists()
        kubelet.restart()
        assert not path.exists()
        kubelet.stop()
        kubelet.pod_resources.appear()
        assert not path.exists()
        kubelet.start()
        assert path.is_socket()


def test_slow_answers(kubelet, client, root):
    resources = kubelet(root=root).pod_resources
    resources.slow(0.2, times=1)
    assert refusal(lambda: client.List(pr.ListPodResourcesRequest(), timeout=0.05)) == (
        grpc.StatusCode.DEADLINE_EXCEEDED,
        "Deadline Exceeded",
    )
    assert pods(client) == EMPTY  # at once again
    resources.slow(60)
    waiting = client.List.future(pr.ListPodResourcesRequest())
    with contextlib.suppress(grpc.FutureTimeoutError):
        waiting.result(timeout=0.1)
    assert not waiting.done()
    resources.recover()
    assert waiting.result(timeout=5) == pr.ListPodResourcesResponse()


def test_a_stop_does_not_wait_for_slow_answers(kubelet, client, root):
    started = kubelet(root=root)
    started.pod_resources.slow(60)
    waiting = client.List.future(pr.ListPodResourcesRequest(), wait_for_ready=True)
    with contextlib.suppress(grpc.FutureTimeoutError):
        waiting.result(timeout=0.1)
    started.stop()
    started.wait_for(lambda k: k.pod_resources.queries)
    assert waiting.exception(timeout=5).code() is grpc.StatusCode.UNAVAILABLE


def test_errors(kubelet, client, root):
    resources = kubelet(root=root).pod_resources
    resources.fail(grpc.StatusCode.INTERNAL, "out of sorts", times=2)
    for _ in range(2):
        assert refusal(lambda: pods(client)) == (grpc.StatusCode.INTERNAL, "out of sorts")
    assert pods(client) == EMPTY
    resources.fail(grpc.StatusCode.UNIMPLEMENTED, "no such thing", "GetAllocatableResources")
    assert refusal(lambda: allocatable(client))[0] is grpc.StatusCode.UNIMPLEMENTED
    assert pods(client) == EMPTY
    resources.recover()
    assert allocatable(client) == pr.AllocatableResourcesResponse()
    assert [query.error for query in resources.queries] == [
        *["out of sorts"] * 2,
        None,
        "no such thing",
        None,
        None,
    ]


def test_nonsense(kubelet, client, root):
    resources = kubelet(root=root).pod_resources
    resources.answer(b"\xff\xff\xff")
    assert refusal(lambda: pods(client)) == (
        grpc.StatusCode.INTERNAL,
        "Exception deserializing response!",
    )
    foreign = pr.ContainerDevices(resource_name="example.org/y", device_ids=["q", "", "q"])
    container = pr.ContainerResources(name="", devices=[foreign])
    made = pr.ListPodResourcesResponse(pod_resources=[pr.PodResources(containers=[container])])
    resources.answer(made.SerializeToString(), "List")
    assert client.List(pr.ListPodResourcesRequest()) == made
    assert refusal(lambda: allocatable(client))[0] is grpc.StatusCode.INTERNAL
