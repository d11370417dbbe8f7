"""Allocate and GetPreferredAllocation: what may go wrong, and what users are told then."""

import grpc
import pytest

from device_plugin._api.deviceplugin.v1beta1 import deviceplugin_pb2 as pb
from device_plugin.testing import AdmissionError

X = "example.com/x"
MANY = "example.com/many"
MAX = "example.com/max"
DISTINCT = "example.com/distinct"
SENTENCE = 250  # bytes that one still reads


@pytest.fixture(scope="module")
def place(shared_node):
    node = shared_node
    for name in ("x", "d0", "d1"):
        node.add(f"/dev/{name}")
    kubelet = node.kubelet()
    daemon = node.start(
        {
            "x": [{"path": node.path("/dev/x"), "replicas": 3}],
            "many": [{"virtual": {"count": 10_000}}],
            "max": {"devices": [{"virtual": {"count": 4}}], "per_container": {"max": 2}},
            "distinct": {
                "devices": [{"path": node.path("/dev/d*"), "replicas": 2}],
                "per_container": {"distinct": True},
            },
            "mount": {
                "devices": [{"virtual": {"count": 1}}],
                "container": {
                    "mounts": [{"host_path": node.path("/dev/missing"), "path": "/missing"}]
                },
            },
        }
    )
    for resource, count in ((X, 3), (MANY, 10_000), (MAX, 4), (DISTINCT, 4)):
        kubelet.healthy(resource, count)
    yield node, kubelet, daemon
    assert all(len(kubelet.lists(one)) == 1 for one in (X, MANY, MAX, DISTINCT))


def allocate(place, resource, *containers):
    node, kubelet, _ = place
    request = pb.AllocateRequest(
        container_requests=[pb.ContainerAllocateRequest(devices_ids=ids) for ids in containers]
    )
    return list(node.call(kubelet, resource).Allocate(request, timeout=5).container_responses)


def refusal(place, resource, *containers):
    with pytest.raises(grpc.RpcError) as caught:
        allocate(place, resource, *containers)
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    text = str(caught.value.details())
    assert len(text.encode()) < SENTENCE
    assert text.isprintable()
    return text


@pytest.mark.parametrize("id_", ["nope", "", "x\n", "x-r3", "ünï", "y" * 100_000])
def test_an_unknown_id(place, id_):
    assert refusal(place, X, [id_]).startswith("example.com/x has no device ")
    assert refusal(place, X, ["x", id_]).startswith("example.com/x has no device ")


def test_an_id_of_another_resource(place):
    _, kubelet, _ = place
    (foreign, *_) = kubelet.devices(MAX)
    assert f"has no device '{foreign}'" in refusal(place, X, [foreign])


def test_nothing_is_asked(place):
    assert allocate(place, X) == []
    assert allocate(place, X, []) == [pb.ContainerAllocateResponse()]
    assert len(allocate(place, X, [], [])) == 2


def test_one_id_twice_counts_once(place):
    _, kubelet, _ = place
    (id_, *_) = kubelet.devices(X)
    assert allocate(place, X, [id_, id_]) == allocate(place, X, [id_])
    (one, two, *_) = kubelet.devices(MAX)
    assert allocate(place, MAX, [one, two, one]) == allocate(place, MAX, [one, two])


def test_the_same_again_is_the_same(place):
    """The kubelet asks anew for a Pod's next container, or after a rejected Pod (A8, A14)."""
    _, kubelet, _ = place
    ids = list(kubelet.devices(X))
    answers = [allocate(place, X, order) for order in (ids, ids[::-1], ids)]
    assert answers[0] == answers[1] == answers[2]


def test_several_containers_in_one_call(place):
    _, kubelet, _ = place
    one, two, _ = kubelet.devices(X)
    first, second = allocate(place, X, [one], [two])
    assert first == second


def test_ten_thousand_ids_in_one_call(place):
    _, kubelet, _ = place
    assert allocate(place, MANY, list(kubelet.devices(MANY))) == [pb.ContainerAllocateResponse()]
    pod, _ = kubelet.run(MANY, 10_000)
    assert len(kubelet.allocated(pod, "main", MANY)) == 10_000
    kubelet.remove(pod)


def test_ten_thousand_unknown_ids(place):
    assert "has no device" in refusal(place, X, [f"id{n}" for n in range(10_000)])


def test_too_many_for_a_container(place):
    _, kubelet, daemon = place
    kubelet.remove(kubelet.run(MAX, 2)[0])
    text = "a container may have at most 2 of example.com/max and asks for 3: lower its limit"
    with pytest.raises(AdmissionError, match=text) as caught:
        kubelet.run(MAX, 3)
    assert caught.value.reason == "UnexpectedAdmissionError"
    daemon.wait_log("allocation refused", resource=MAX, reason=text)


def test_replicas_of_one_device_where_they_must_be_distinct(place):
    _, kubelet, _ = place
    pod, _ = kubelet.run(DISTINCT, 2)
    devices = {id_.removesuffix("-r1") for id_ in kubelet.allocated(pod, "main", DISTINCT)}
    assert len(devices) == 2, "preferred so, for the kubelet alone would choose any"
    kubelet.remove(pod)
    with pytest.raises(AdmissionError, match="may not have two replicas of one device"):
        kubelet.run(DISTINCT, 3)


def test_a_mount_that_is_missing(place):
    _, kubelet, _ = place
    with pytest.raises(AdmissionError, match=r"mount /.*missing of example.com/mount does not"):
        kubelet.run("example.com/mount")


@pytest.mark.parametrize(
    ("available", "must", "size"),
    [(["nope"], [], 1), ([], [], 1), (["x"], ["nope"], 1), (["x"], [], 0), (["x"], [], -1)],
)
def test_preferred_is_never_an_error(place, available, must, size):
    """An error there fails the Pod (A9): in doubt the kubelet chooses itself."""
    node, kubelet, _ = place
    wanted = {
        "available_deviceIDs": available,
        "must_include_deviceIDs": must,
        "allocation_size": size,
    }
    request = pb.PreferredAllocationRequest(
        container_requests=[pb.ContainerPreferredAllocationRequest(**wanted)]
    )
    answer = node.call(kubelet, X).GetPreferredAllocation(request, timeout=5)
    assert [list(one.deviceIDs) for one in answer.container_responses] == [[]]


@pytest.mark.parametrize("how", ["gone", "a file", "dangling"])
def test_the_node_vanished_just_now(node, kubelet, limited, how):
    """Nobody has told us yet, and the runtime would fail: better say so at once (peers 48)."""
    path = node.add("/dev/x")
    daemon = node.start({"x": [{"path": node.path("/dev/x")}]}, within=limited("instances", 0))
    (id_,) = kubelet.healthy(X)
    path.unlink()
    if how == "a file":
        path.write_text("")
    elif how == "dangling":
        path.symlink_to("nowhere")
    with pytest.raises(AdmissionError) as caught:
        kubelet.run(X)
    says = {
        "gone": "does not exist",
        "a file": "is a regular file, not a device node",
        "dangling": f"is a link to {node.path('/dev/nowhere')}, which does not exist",
    }
    sentence = f"device {id_} of example.com/x: {node.path('/dev/x')} {says[how]}"
    assert f"desc = {sentence}, which is unexpected" in caught.value.message
    daemon.wait_log("allocation refused", reason=sentence)
