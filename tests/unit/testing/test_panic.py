"""A held ID that leaves a list may be the kubelet's end (A6)."""

import threading

import pytest

from device_plugin._api.deviceplugin.v1beta1 import deviceplugin_pb2 as pb
from device_plugin.testing import Container, FakeKubelet, KubeletPanic, Pod

X = "example.com/x"


@pytest.fixture
def holding(folder, plugin):
    """Let a Pod hold devices "a" and "b", and do more before the kubelet stops."""

    def run(inside, **settings):
        with FakeKubelet(folder, **settings) as kubelet:
            made = plugin()
            made.register()
            kubelet.wait_for(lambda k: k.devices(X))
            held = kubelet.admit(Pod("holder", [Container("main", {X: 2})]))
            inside(kubelet, made, held)

    return run


@pytest.fixture
def lost(holding):
    """Lose device "a" while a Pod holds it, and do more."""

    def run(inside, **settings):
        def lose(kubelet, plugin, held):
            plugin.send(b="Healthy")
            with kubelet._state.condition:
                assert kubelet._state.condition.wait_for(lambda: kubelet.panics, timeout=5)
            inside(kubelet, held)

        holding(lose, **settings)

    return run


LOSS = r"example.com/x: 'a', held by pod 'holder' \(main\), left the list"


@pytest.mark.parametrize(
    "touch",
    [
        lambda k, held: k.capacity(X),
        lambda k, held: k.allocatable(X),
        lambda k, held: k.node_status(),
        lambda k, held: k.devices(X),
        lambda k, held: k.lists(X),
        lambda k, held: k.registrations,
        lambda k, held: k.calls,
        lambda k, held: k.is_streaming(X),
        lambda k, held: k.wait_for(lambda k: True),
        lambda k, held: k.admit(Pod("other")),
        lambda k, held: k.create_container(held, "main"),
        lambda k, held: k.allocated(held, "main", X),
        lambda k, held: k.allocated_resources_status(held, "main"),
        lambda k, held: k.pod_status(held),
        lambda k, held: None,  # leaving is enough
    ],
)
def test_the_next_look_fails_loudly(lost, touch):
    with pytest.raises(KubeletPanic, match=LOSS):
        lost(touch)


def test_it_may_be_allowed(lost):
    seen = []
    lost(lambda k, held: seen.extend(k.panics), allow_panic=True)
    assert [(panic.resource, panic.id) for panic in seen] == [(X, "a")]


def test_it_does_not_hide_another_error(lost):
    def fail(kubelet, held):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine") as caught:
        lost(fail)
    assert "panicked" in caught.value.__notes__[0]


def test_the_first_list_after_a_restart_counts_too(holding):
    def restart(kubelet, plugin, held):
        kubelet.create_container(held, "main")
        kubelet.restart()
        plugin.stop()
        plugin.send(b="Healthy").serve().register()
        kubelet.wait_for(lambda k: k.lists(X)[1:])

    with pytest.raises(KubeletPanic, match=LOSS):
        holding(restart)


def test_an_id_lost_during_allocate(holding):
    def lose_meanwhile(kubelet, plugin, held):
        plugin.send(a="Healthy", b="Healthy", c="Healthy")
        kubelet.wait_for(lambda k: k.capacity(X) == 3)

        def lose(ids):
            plugin.send(a="Healthy", b="Healthy")
            kubelet.wait_for(lambda k: k.capacity(X) == 2)
            return pb.ContainerAllocateResponse()

        plugin.on_allocate = lose
        kubelet.admit(Pod("other", [Container("main", {X: 1})]))

    with pytest.raises(KubeletPanic, match="'c', held by pod 'other'"):
        holding(lose_meanwhile)


def test_free_ids_may_leave(running):
    kubelet, plugin = running()
    removed = kubelet.admit(Pod("gone", [Container("main", {X: 2})]))
    kubelet.remove(removed)
    plugin.send()
    kubelet.wait_for(lambda k: k.capacity(X) == 0)


def test_unhealthy_is_what_to_say(running):
    kubelet, plugin = running()
    kubelet.admit(Pod("holder", [Container("main", {X: 2})]))
    plugin.send(a="Unhealthy", b="Unhealthy")
    kubelet.wait_for(lambda k: k.allocatable(X) == 0)


def test_waiters_wake_up_for_it(holding):
    def wait(kubelet, plugin, held):
        threading.Thread(target=plugin.send).start()
        kubelet.wait_for(lambda k: False, timeout=30)

    with pytest.raises(KubeletPanic):
        holding(wait)
