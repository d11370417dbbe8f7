"""NodePrepareResources: batches, completeness, repetition, and the words of failures (C2)."""

import threading

import pytest

from device_plugin._api.dra.v1 import dra_pb2 as v1
from device_plugin._api.dra.v1beta1 import dra_pb2 as v1beta1
from device_plugin.testing import Container, ContainerClaim, DraTimes, Pod, PodClaim, PrepareError
from device_plugin.testing.apiserver import result

NAME, NODE = "gpu.example.com", "node-1"
SAID = "Failed to prepare dynamic resources: prepare dynamic resources: "


def refused(kubelet, pod):
    """Prepare in vain; returns what the kubelet says after its usual words."""
    with pytest.raises(PrepareError) as caught:
        kubelet.prepare(pod)
    text = str(caught.value)
    assert text.startswith(SAID)
    assert kubelet.pod_status(pod).events[-1] == f"FailedPrepareDynamicResources: {text}"
    return text.removeprefix(SAID)


def test_a_batch_for_each_driver_with_all_its_claims(connected, driver, pod, claim, api):
    kubelet, first = connected()
    second = driver(name="nic.example.com")
    kubelet.wait_for(lambda k: any(one.connected for one in k.drivers("nic.example.com")))
    made = kubelet.admit(pod("p", "one", "two"))
    api.change_claim(
        "default",
        "two",
        lambda it: it["status"]["allocation"]["devices"]["results"].append(
            result("nic", "n", driver="nic.example.com", pool=NODE)
        ),
    )
    kubelet.prepare(made)
    assert first.seen == [("prepare", v1, ["one", "two"])]
    assert second.seen == [("prepare", v1, ["two"])]
    assert [one.device for one in kubelet.prepared(made, NAME)] == ["a", "a"]
    [call] = [one for one in kubelet.claim_calls if one.driver == NAME]
    assert [one[:2] for one in call.claims] == [("default", "one"), ("default", "two")]
    assert (call.error, set(call.errors.values())) == (None, {""})


def test_v1beta1_has_no_share(connected, pod):
    kubelet, made = connected(versions=["v1beta1.DRAPlugin", "v1.DRAPlugin"])
    one = kubelet.admit(pod("p", "c"))
    kubelet.prepare(one)
    assert made.seen == [("prepare", v1beta1, ["c"])]
    assert kubelet.prepared(one, NAME)[0].share is None


def test_all_of_a_device_comes_through(connected, pod):
    kubelet, made = connected()
    device = {
        "request_names": ["gpu"],
        "pool_name": NODE,
        "device_name": "a",
        "cdi_device_ids": ["v.com/c=one", "v.com/c=two"],
        "share_id": "share",
    }
    made.on_prepare = lambda claim: ([device], "")
    one = kubelet.admit(pod("p", "c"))
    kubelet.prepare(one)
    [got] = kubelet.prepared(one, NAME)
    assert (got.pool, got.device, got.requests) == (NODE, "a", ("gpu",))
    assert (got.cdi_devices, got.share) == (("v.com/c=one", "v.com/c=two"), "share")


def test_prepared_claims_are_not_sent_again_until_the_kubelet_restarts(connected, pod, claim):
    kubelet, made = connected()
    one = kubelet.admit(pod("p", "c"))
    kubelet.prepare(one)
    kubelet.prepare(one)
    assert len(made.seen) == 1
    kubelet.restart()
    kubelet.wait_for(lambda k: any(driver.connected for driver in k.drivers(NAME)))
    kubelet.prepare(one)
    assert len(made.seen) == 2
    assert [device.device for device in kubelet.prepared(one, NAME)] == ["a"]


def test_two_pods_share_a_claim(connected, pod, claim):
    kubelet, made = connected()
    first, second = (kubelet.admit(pod(name, "c", put=False)) for name in ("p", "q"))
    claim("c", first, second)
    kubelet.prepare(first)
    kubelet.prepare(second)
    assert len(made.seen) == 1
    assert kubelet.claim_record("c").pods == {first.uid, second.uid}


def test_pods_are_prepared_at_the_same_time(connected, pod, claim):
    kubelet, made = connected()
    both = threading.Barrier(2, timeout=5)
    answer = made.on_prepare
    made.on_prepare = lambda claim: (both.wait(), answer(claim))[1]
    pods = [kubelet.admit(pod(name, "c", put=False)) for name in ("p", "q")]
    claim("c", *pods)
    threads = [threading.Thread(target=kubelet.prepare, args=[one]) for one in pods]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made.seen) == 2
    assert all(kubelet.pod_status(one).sandbox for one in pods)


def test_what_the_kubelet_finds_before_any_call(connected, pod, claim, api):
    kubelet, made = connected()
    one = kubelet.admit(pod("p", "c", put=False))
    assert refused(kubelet, one) == (
        'fetch ResourceClaim c: resourceclaims.resource.k8s.io "c" not found'
    )
    uid = claim("c")["metadata"]["uid"]
    assert refused(kubelet, one) == (
        f"pod p ({one.uid}) is not allowed to use ResourceClaim c ({uid})"
    )
    claim("c", one, devices=())
    assert refused(kubelet, one) == "ResourceClaim c: not allocated"
    claim("c", one, driver="nobody.example.com")
    assert refused(kubelet, one) == "DRA driver nobody.example.com is not registered"
    assert made.seen == []
    assert kubelet.claim_record("c") is None


def test_a_claim_of_a_template_belongs_to_its_pod(connected, claim):
    kubelet, _ = connected()
    one = kubelet.admit(Pod("p", claims=[PodClaim("gpu", "p-gpu-x", template=True)]))
    claim("p-gpu-x", one)
    assert refused(kubelet, one) == (
        "ResourceClaim default/p-gpu-x was not created for Pod default/p (Pod is not owner)"
    )
    claim("p-gpu-x", one, owner={"kind": "Pod", "uid": one.uid, "controller": True})
    kubelet.prepare(one)


def test_a_new_claim_of_the_old_name(connected, pod, claim):
    kubelet, _ = connected()
    one = kubelet.admit(pod("p", "c"))
    kubelet.prepare(one)
    old = kubelet.claim_record("c").uid
    claim("c", one)
    assert refused(kubelet, one) == (
        f"old ResourceClaim with same name c and different UID {old} still exists "
        "(previous pod force-deleted?!)"
    )


def test_what_drivers_answer_wrongly(connected, pod):
    kubelet, made = connected()
    one = kubelet.admit(pod("p", "c", "d"))
    made.change = lambda answers: answers.popitem()
    assert refused(kubelet, one) == "NodePrepareResources skipped 1 ResourceClaims"
    made.change = lambda answers: answers.update(strange=v1.NodePrepareResourceResponse())
    assert refused(kubelet, one) == (
        "NodePrepareResources returned result for unknown claim UID strange"
    )
    made.change = lambda answers: None
    made.on_prepare = lambda claim: ([], "no such device" if claim.name == "d" else "")
    assert refused(kubelet, one) == (
        "NodePrepareResources failed for ResourceClaim d: no such device"
    )
    assert not kubelet.claim_record("c").prepared
    assert not kubelet.pod_status(one).sandbox


def test_calls_that_fail(dra, driver, pod):
    kubelet = dra(dra=DraTimes(call=0.2, reconnect=0.1))
    made = driver(served=False)
    kubelet.wait_for(lambda k: k.drivers(NAME))
    one = kubelet.admit(pod("p", "c"))
    assert refused(kubelet, one) == (
        "NodePrepareResources: rpc error: code = Unavailable desc = connection error: desc = "
        f'"transport: Error while dialing: dial unix {made.socket}: '
        'connect: no such file or directory"'
    )
    made.serve()
    kubelet.wait_for(lambda k: k.drivers(NAME)[0].connected)
    waiting = threading.Event()
    made.on_prepare = lambda claim: waiting.wait()
    assert refused(kubelet, one) == (
        "NodePrepareResources: rpc error: code = DeadlineExceeded desc = context deadline exceeded"
    )
    waiting.set()


def test_an_error_of_the_call(connected, pod):
    kubelet, made = connected()

    def fail(answers):
        raise RuntimeError("broken")

    made.change = fail
    one = kubelet.admit(pod("p", "c"))
    assert refused(kubelet, one) == (
        "NodePrepareResources: rpc error: code = Unknown desc = "
        "Exception calling application: broken"
    )
    assert kubelet.claim_calls[-1].error.startswith("rpc error: code = Unknown ")


@pytest.mark.parametrize(("behaviour", "times"), [("1.36", 2), ("1.37", 1)])
def test_1_36_adds_the_devices_of_every_answer(connected, pod, behaviour, times):
    kubelet, first = connected({"behaviour": behaviour})
    answer = first.on_prepare
    one = kubelet.admit(pod("p", "c", "d"))
    first.on_prepare = lambda claim: answer(claim) if claim.name == "c" else ([], "not yet")
    while not kubelet.prepared(one, NAME):  # the answers are looked at in no order
        refused(kubelet, one)
    first.on_prepare = answer
    kubelet.prepare(one)
    assert len(kubelet.claim_record("c").drivers[NAME]) == times


def test_run_pod_tries_again(connected, pod):
    kubelet, made = connected()
    failures = iter(["not yet", "not yet"])
    answer = made.on_prepare
    made.on_prepare = lambda claim: ([], text) if (text := next(failures, "")) else answer(claim)
    containers = [Container("main", claims=[ContainerClaim("c")])]
    one = kubelet.run_pod(pod("p", "c", containers=containers))
    kubelet.wait_for(lambda k: k.pod_status(one).phase == "Running")
    assert len(kubelet.pod_status(one).events) == 2
    assert len(made.seen) == 3
