"""Which devices a Pod gets, and why it does not (A8, A9)."""

import threading

import pytest

from device_plugin._api.deviceplugin.v1beta1 import deviceplugin_pb2 as pb
from device_plugin.testing import AdmissionError, Container, Pod

X = "example.com/x"
Y = "example.com/y"


def pod(count=1, name="p", **more):
    return Pod(name, containers=[Container("main", {X: count})], **more)


def rejected(kubelet, pod):
    """Admit in vain; returns what was wrong, without the words around it."""
    with pytest.raises(AdmissionError) as caught:
        kubelet.admit(pod)
    error = caught.value
    assert error.reason == "UnexpectedAdmissionError"
    before, after = "Pod was rejected: Allocate failed due to ", ", which is unexpected"
    assert error.message.startswith(before)
    assert error.message.endswith(after)
    status = kubelet.pod_status(pod)
    assert (status.phase, status.reason) == ("Failed", error.reason)
    assert status.message == error.message
    return error.message.removeprefix(before).removesuffix(after)


def allocations(kubelet):
    return [set(call.ids) for call in kubelet.calls if call.method == "Allocate"]


def test_a_pod_gets_free_healthy_devices(running):
    kubelet, plugin = running()
    plugin.send(a="Healthy", b="Unhealthy", c="Healthy")
    kubelet.wait_for(lambda k: k.capacity(X) == 3)
    first = kubelet.admit(pod())
    second = kubelet.admit(pod())
    got = [kubelet.allocated(each, "main", X) for each in (first, second)]
    assert sorted(map(sorted, got)) == [["a"], ["c"]]
    assert allocations(kubelet) == got


def test_ids_come_in_an_order_that_the_seed_repeats(running):
    orders = set()
    for seed in (1, 1, 2, 3):
        kubelet, plugin = running({"seed": seed})
        plugin.send(*(pb.Device(ID=f"{i}", health="Healthy") for i in range(8)))
        kubelet.wait_for(lambda k: k.capacity(X) == 8)
        kubelet.admit(pod(8))
        orders.add(kubelet.calls[-1].ids)
        kubelet.stop()
        plugin.stop()
    assert len(orders) == 3


def test_unknown_resources_are_skipped_in_silence(running):
    kubelet, _ = running()
    admitted = kubelet.admit(Pod("p", [Container("main", {Y: 3, "cpu": 1})]))
    assert kubelet.allocated(admitted, "main", Y) == set()


def test_a_resource_that_the_node_still_lists_does_not_fit(running):
    kubelet, plugin = running({"status_interval": 0.05, "grace": 0.1})
    plugin.end_streams()
    kubelet.wait_for(lambda k: k.node_status().capacity == {X: 0})
    with pytest.raises(AdmissionError) as caught:
        kubelet.admit(pod())
    assert caught.value.reason == f"OutOf{X}"
    assert caught.value.message == (
        f"Pod was rejected: Node didn't have enough resource: {X}, "
        "requested: 1, used: 0, capacity: 0"
    )


def test_too_few_are_left(running):
    kubelet, _ = running()
    kubelet.admit(pod())
    assert rejected(kubelet, pod(2)) == (
        f"requested number of devices unavailable for {X}. Requested: 2, Available: 1"
    )


def test_no_device_is_healthy(running):
    kubelet, plugin = running()
    plugin.send(a="Unhealthy")
    kubelet.wait_for(lambda k: k.allocatable(X) == 0)
    text = f"no healthy devices present; cannot allocate unhealthy devices {X}"
    assert rejected(kubelet, pod()) == text
    assert rejected(kubelet, pod(0)) == text  # even if none is wanted (A8.7)


def test_the_plugin_s_error_reaches_the_user(running):
    kubelet, plugin = running()

    def fail(ids):
        raise LookupError("a: unplugged")

    plugin.on_allocate = fail
    text = "rpc error: code = NotFound desc = a: unplugged"
    assert rejected(kubelet, pod()) == text
    assert kubelet.calls[-1].error == text
    plugin.on_allocate = lambda ids: pb.ContainerAllocateResponse()
    kubelet.admit(pod(2))  # the failed Pod holds nothing


def test_an_empty_response_fails_and_keeps_its_ids_for_a_while(running):
    kubelet, plugin = running()
    answer, plugin.on_allocate = plugin.on_allocate, lambda ids: None
    assert rejected(kubelet, pod()).startswith("no containers return in allocation response")
    plugin.on_allocate = answer
    assert "Requested: 2, Available: 1" in rejected(kubelet, pod(2))
    other = kubelet.admit(pod())
    kubelet.remove(other)
    kubelet.admit(pod(2))  # the departed Pod made the kubelet count again


def test_a_hung_allocate_ends_at_the_safety_deadline(running):
    kubelet, plugin = running({"rpc_timeout": 0.2})
    over = threading.Event()
    plugin.on_allocate = lambda ids: over.wait(5)
    text = rejected(kubelet, pod())
    over.set()
    assert text == "rpc error: code = DeadlineExceeded desc = context deadline exceeded"
    assert kubelet.calls[-1].duration >= 0.2


def test_ids_come_back_when_somebody_looks(running):
    kubelet, _ = running()
    first = kubelet.admit(pod(2))
    kubelet.remove(first)
    assert kubelet.allocated(first, "main", X) == {"a", "b"}  # nobody has looked yet
    kubelet.admit(pod(2))
    assert kubelet.allocated(first, "main", X) == set()


def test_a_pod_that_is_dropped_after_allocate(running):
    kubelet, _ = running()
    dropped = pod(2)
    kubelet.admit_and_drop(dropped)
    assert kubelet.pod_status(dropped).phase == "Failed"
    kubelet.admit(pod(2))
    assert allocations(kubelet) == [{"a", "b"}, {"a", "b"}]


def test_a_changed_request_is_refused(running):
    kubelet, _ = running()
    first = kubelet.admit(pod())
    assert rejected(kubelet, pod(2, uid=first.uid)) == (
        f'pod "{first.uid}" container "main" changed request for resource "{X}" from 1 to 2'
    )


# What could go well by chance is tried this often.
OFTEN = 8


def test_init_containers_come_first_and_lend_their_devices(running):
    kubelet, _ = running()
    for _ in range(OFTEN):
        admitted = kubelet.admit(
            Pod(
                "p",
                containers=[Container("main", {X: 1}), Container("other", {X: 1})],
                init_containers=[Container("one", {X: 2}), Container("two", {X: 1})],
            )
        )
        assert kubelet.allocated(admitted, "one", X) == {"a", "b"}
        assert kubelet.allocated(admitted, "two", X) < {"a", "b"}
        got = [kubelet.allocated(admitted, name, X) for name in ("main", "other")]
        assert sorted(map(sorted, got)) == [["a"], ["b"]]
        kubelet.remove(admitted)
    assert len(allocations(kubelet)) == 4 * OFTEN


def test_a_sidecar_keeps_its_devices(running):
    kubelet, _ = running()
    for _ in range(OFTEN):
        admitted = kubelet.admit(
            Pod(
                "p",
                containers=[Container("main", {X: 1})],
                init_containers=[
                    Container("one", {X: 2}),
                    Container("proxy", {X: 1}, restart_policy="Always"),
                ],
            )
        )
        held = kubelet.allocated(admitted, "proxy", X)
        assert held | kubelet.allocated(admitted, "main", X) == {"a", "b"}
        assert not held & kubelet.allocated(admitted, "main", X)
        kubelet.remove(admitted)


def test_one_call_for_each_container_and_resource(running, plugin):
    kubelet, _ = running()
    plugin(resource=Y, socket="y.sock").register()
    kubelet.wait_for(lambda k: k.capacity(Y) == 2)
    both = {X: 1, Y: 1}
    kubelet.admit(Pod("p", [Container("one", both), Container("two", both)]))
    calls = [call for call in kubelet.calls if call.method == "Allocate"]
    assert sorted(call.resource for call in calls) == [X, X, Y, Y]
    assert all(len(call.ids) == 1 for call in calls)


def test_a_stopped_plugin_has_no_healthy_devices(running):
    kubelet, _ = running()
    kubelet.cancel_stream(X)
    assert rejected(kubelet, pod()).startswith("no healthy devices present")


def test_an_orphaned_plugin_is_still_called(running):
    """In 1.36, whose failed re-registration lost sight of the stream (A5)."""
    kubelet, plugin = running({"behaviour": "1.36", "dial_timeout": 0.2})
    plugin.refused(endpoint="missing.sock")
    plugin.stop()
    kubelet.wait_for(lambda k: not k.streams(X))
    assert rejected(kubelet, pod()).startswith("rpc error: code = Unavailable desc = ")


@pytest.fixture
def preferring(running):
    """A plugin with four devices, which is asked for its preference."""

    def start():
        kubelet, plugin = running(get_preferred_allocation_available=True)
        plugin.send(a="Healthy", b="Healthy", c="Healthy", d="Healthy")
        kubelet.wait_for(lambda k: k.capacity(X) == 4)
        return kubelet, plugin

    return start


def preferences(kubelet):
    return [call for call in kubelet.calls if call.method == "GetPreferredAllocation"]


def test_a_preference_is_followed(preferring):
    kubelet, plugin = preferring()
    plugin.on_preferred = lambda request: ["d", "b"]
    admitted = kubelet.admit(pod(2))
    assert kubelet.allocated(admitted, "main", X) == {"b", "d"}
    [call] = preferences(kubelet)
    assert sorted(call.ids) == ["a", "b", "c", "d"]
    assert (call.must_include, call.size) == ((), 2)


def test_it_is_asked_even_where_nothing_is_left_to_choose(preferring):
    kubelet, _ = preferring()
    kubelet.admit(pod(4))
    assert len(preferences(kubelet)) == 1


def test_it_is_not_asked_unless_it_says_so(running):
    kubelet, _ = running()
    kubelet.admit(pod())
    assert preferences(kubelet) == []


def test_it_is_not_asked_when_reuse_is_enough(preferring):
    kubelet, _ = preferring()
    container = Container("main", {X: 2})
    kubelet.admit(Pod("p", [container], [Container("init", {X: 2})]))
    assert len(preferences(kubelet)) == 1


def test_reused_ids_must_be_included(preferring):
    kubelet, plugin = preferring()
    plugin.on_preferred = lambda request: [*request.must_include_deviceIDs, "d"]
    admitted = kubelet.admit(Pod("p", [Container("main", {X: 3})], [Container("init", {X: 2})]))
    lent = kubelet.allocated(admitted, "init", X)
    call = preferences(kubelet)[-1]
    assert set(call.must_include) == lent
    assert set(call.ids) == {"a", "b", "c", "d"}
    assert call.size == 3
    assert kubelet.allocated(admitted, "main", X) >= lent


def test_a_missing_must_include_is_taken_all_the_same(preferring):
    kubelet, plugin = preferring()
    plugin.on_preferred = lambda request: []
    admitted = kubelet.admit(Pod("p", [Container("main", {X: 3})], [Container("init", {X: 2})]))
    main, init = (kubelet.allocated(admitted, name, X) for name in ("main", "init"))
    assert main > init
    assert len(main) == 3


def test_too_few_preferred_are_filled_up_and_unknown_ones_ignored(preferring):
    kubelet, plugin = preferring()
    plugin.on_preferred = lambda request: ["c", "nonsense"]
    got = kubelet.allocated(kubelet.admit(pod(2)), "main", X)
    assert len(got) == 2
    assert "c" in got
    assert got < {"a", "b", "c", "d"}


def test_too_many_preferred_are_cut_at_random(preferring):
    kubelet, plugin = preferring()
    plugin.on_preferred = lambda request: ["a", "b", "c"]
    seen = set()
    for _ in range(20):
        admitted = kubelet.admit(pod(1))
        seen |= kubelet.allocated(admitted, "main", X)
        kubelet.remove(admitted)
    assert seen == {"a", "b", "c"}


def test_a_preference_s_error_fails_the_pod(preferring):
    kubelet, plugin = preferring()

    def fail(request):
        raise RuntimeError("bug")

    plugin.on_preferred = fail
    assert rejected(kubelet, pod()).startswith(
        "device plugin GetPreferredAllocation rpc failed with err: "
        "rpc error: code = Unknown desc = "
    )
