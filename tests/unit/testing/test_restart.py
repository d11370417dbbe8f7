"""Pods over a kubelet restart, and their health in the Pod status (A12, A14)."""

import time

import pytest

from device_plugin.testing import Container, Pod

X = "example.com/x"
Y = "example.com/y"


def pod(count=1, **more):
    return Pod("p", [Container("main", {X: count})], **more)


def back(kubelet, plugin):
    """The plugin notices the restart: it listens and registers again."""
    plugin.stop()
    plugin.serve().register()
    kubelet.wait_for(lambda k: k.allocatable(X))


def test_a_running_container_is_skipped(running):
    kubelet, plugin = running()
    admitted = kubelet.admit(pod(2))
    kubelet.create_container(admitted, "main")
    kubelet.restart()
    assert (kubelet.capacity(X), kubelet.allocatable(X)) == (0, 0)
    assert kubelet.pod_status(admitted).phase == "Running"
    assert kubelet.allocated(admitted, "main", X) == {"a", "b"}
    back(kubelet, plugin)
    assert [call.method for call in kubelet.calls].count("Allocate") == 1
    kubelet.restart_container(admitted, "main")


def test_a_container_that_does_not_run_fails_its_pod(running):
    kubelet, _ = running()
    crashed, pending = kubelet.admit(pod()), kubelet.admit(pod())
    kubelet.create_container(crashed, "main")
    kubelet.exit_container(crashed, "main")
    kubelet.restart()
    for each in (crashed, pending):
        status = kubelet.pod_status(each)
        assert (status.phase, status.reason) == ("Failed", "UnexpectedAdmissionError")
        assert status.message == (
            "Pod was rejected: Allocate failed due to no healthy devices present; "
            f"cannot allocate unhealthy devices {X}, which is unexpected"
        )


def test_a_finished_init_container_fails_its_pod_too(running):
    kubelet, _ = running()
    admitted = kubelet.admit(pod(init_containers=[Container("init", {X: 1})]))
    kubelet.create_container(admitted, "init")
    kubelet.create_container(admitted, "main")
    kubelet.restart()
    assert kubelet.pod_status(admitted).phase == "Failed"


def test_a_fast_plugin_saves_the_pod(running):
    kubelet, plugin = running()
    admitted = kubelet.admit(pod())
    kubelet.restart(readmit=False)
    back(kubelet, plugin)
    kubelet.readmit()
    assert kubelet.pod_status(admitted).phase == "Pending"
    kubelet.create_container(admitted, "main")


def test_pods_are_admitted_again_some_time_after_the_kubelet_listens(running):
    """As a real kubelet does it: whoever is back by then saves the Pods (A14)."""
    kubelet, plugin = running()
    admitted = kubelet.admit(pod())
    kubelet.restart(readmit_after=0.5)
    back(kubelet, plugin)
    plugin.send(a="Unhealthy", b="Unhealthy")  # so that it is seen when they are
    kubelet.wait_for(lambda k: k.allocatable(X) == 0)
    assert kubelet.pod_status(admitted).phase == "Pending"
    kubelet.wait_for(lambda k: k.pod_status(admitted).phase == "Failed")


def test_a_plugin_that_is_later_than_that_saves_nobody(running):
    kubelet, _ = running()
    admitted = kubelet.admit(pod())
    kubelet.restart(readmit_after=0.05)
    assert kubelet.pod_status(admitted).phase == "Pending"
    kubelet.wait_for(lambda k: k.pod_status(admitted).reason == "UnexpectedAdmissionError")


def test_a_kubelet_that_stops_before_admits_nobody(running):
    kubelet, _ = running()
    admitted = kubelet.admit(pod())
    kubelet.restart(readmit_after=0.2)
    kubelet.restart(readmit=False)
    time.sleep(0.3)
    assert kubelet.pod_status(admitted).phase == "Pending"


def test_held_devices_must_be_healthy_again(running):
    kubelet, plugin = running()
    admitted = kubelet.admit(pod(2))
    kubelet.restart(readmit=False)
    plugin.send(a="Healthy", b="Unhealthy")
    back(kubelet, plugin)
    kubelet.readmit()
    assert kubelet.pod_status(admitted).message == (
        "Pod was rejected: Allocate failed due to previously allocated devices are no longer "
        f"healthy; cannot allocate unhealthy devices {X}, which is unexpected"
    )


def test_held_devices_stay_held(running):
    kubelet, plugin = running()
    admitted = kubelet.admit(pod())
    kubelet.create_container(admitted, "main")
    kubelet.restart()
    back(kubelet, plugin)
    other = kubelet.admit(pod())
    assert kubelet.allocated(other, "main", X) == {"a", "b"} - kubelet.allocated(
        admitted, "main", X
    )


def health(kubelet, pod):
    return kubelet.allocated_resources_status(pod, "main")


def test_the_status_follows_the_plugin_s_words(running):
    kubelet, plugin = running()
    admitted = kubelet.admit(pod(2))
    assert health(kubelet, admitted) == {X: {"a": "Healthy", "b": "Healthy"}}
    plugin.send(a="Unhealthy", b="on fire")
    kubelet.wait_for(lambda k: health(k, admitted) == {X: {"a": "Unhealthy", "b": "on fire"}})
    assert kubelet.pod_status(admitted).phase == "Pending"  # nothing happens to the Pod


@pytest.fixture
def alike(running, plugin):
    """Two resources with the same IDs, one Pod for each."""

    def start(behaviour):
        kubelet, one = running({"behaviour": behaviour, "allow_panic": True})
        other = plugin(resource=Y, socket="y.sock").register()
        kubelet.wait_for(lambda k: k.capacity(Y) == 2)
        pods = [kubelet.admit(Pod(name, [Container("main", {name: 2})])) for name in (X, Y)]
        return kubelet, one, other, pods

    return start


def followed(kubelet, plugin, pod):
    """Count how many of 20 changes reach the Pod's status."""
    count = 0
    for turn in range(20):
        word = f"word {turn}"
        plugin.send(a=word, b="Healthy")
        kubelet.wait_for(lambda k, word=word: k.devices(X)["a"] == word)
        count += health(kubelet, pod)[X]["a"] == word
    return count


def test_in_1_36_another_resource_with_the_same_id_takes_the_news(alike):
    kubelet, one, _, (pod_, _) = alike("1.36")
    assert 0 < followed(kubelet, one, pod_) < 20


def test_in_1_37_the_news_goes_to_the_resource_s_own_pod(alike):
    kubelet, one, other, (pod_, another) = alike("1.37")
    other.send(a="Unhealthy", b="Healthy")
    kubelet.wait_for(lambda k: health(k, another)[Y]["a"] == "Unhealthy")
    other.send(b="Healthy")
    kubelet.wait_for(lambda k: k.capacity(Y) == 1)
    assert followed(kubelet, one, pod_) == 20
    assert health(kubelet, another)[Y]["a"] == "Unhealthy"  # else looked at: Healthy (A12)


def test_a_disconnect_changes_no_status(running):
    kubelet, plugin = running()
    admitted = kubelet.admit(pod(2))
    plugin.send(a="Unhealthy", b="Healthy")
    kubelet.wait_for(lambda k: health(k, admitted)[X]["a"] == "Unhealthy")
    kubelet.cancel_stream(X)
    assert health(kubelet, admitted) == {X: {"a": "Unhealthy", "b": "Healthy"}}


def test_an_id_that_the_kubelet_does_not_know_reads_healthy(running):
    kubelet, plugin = running()
    admitted = kubelet.admit(pod(2))
    kubelet.create_container(admitted, "main")
    plugin.send(a="Unhealthy", b="Unhealthy")
    kubelet.wait_for(lambda k: health(k, admitted)[X]["a"] == "Unhealthy")
    kubelet.restart()
    assert health(kubelet, admitted) == {X: {"a": "Healthy", "b": "Healthy"}}
    plugin.stop()
    plugin.serve().register()
    kubelet.wait_for(lambda k: health(k, admitted)[X]["a"] == "Unhealthy")


def test_a_dropped_id_keeps_its_last_text_until_the_restart(running):
    kubelet, plugin = running({"allow_panic": True})
    admitted = kubelet.admit(pod(2))
    kubelet.create_container(admitted, "main")
    plugin.send(a="Unhealthy", b="Healthy")
    kubelet.wait_for(lambda k: health(k, admitted)[X]["a"] == "Unhealthy")
    plugin.send(b="Healthy")
    kubelet.wait_for(lambda k: k.capacity(X) == 1)
    assert health(kubelet, admitted)[X]["a"] == "Unhealthy"
    kubelet.restart()
    back(kubelet, plugin)
    assert health(kubelet, admitted)[X]["a"] == "Healthy"


def test_init_containers_have_no_such_status(running):
    kubelet, _ = running()
    admitted = kubelet.admit(pod(init_containers=[Container("init", {X: 1})]))
    assert kubelet.allocated_resources_status(admitted, "init") == {}
