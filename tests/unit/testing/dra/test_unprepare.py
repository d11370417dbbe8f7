"""NodeUnprepareResources: when it is called, and what keeps a Pod terminating (C2)."""

import threading

import pytest

from device_plugin._api.dra.v1 import dra_pb2 as v1
from device_plugin.testing import PrepareError

NAME = "gpu.example.com"


def prepared(kubelet, pod):
    kubelet.admit(pod)
    kubelet.prepare(pod)
    return pod


def unprepared(driver):
    return [names for method, _, names in driver.seen if method == "unprepare"]


def test_a_removed_pod_is_gone_when_its_claims_are_unprepared(connected, pod):
    kubelet, made = connected()
    one = prepared(kubelet, pod("p", "c", "d"))
    kubelet.remove(one)
    kubelet.wait_for(lambda k: k.pod_status(one).removed)
    assert [sorted(names) for names in unprepared(made)] == [["c", "d"]]
    assert kubelet.claim_record("c") is None


def test_a_pod_without_claims_is_gone_at_once(connected, pod):
    kubelet, made = connected()
    one = kubelet.admit(pod("p"))
    kubelet.remove(one)
    assert kubelet.pod_status(one).removed
    assert made.seen == []


def test_only_the_last_pod_unprepares(connected, pod, claim):
    kubelet, made = connected()
    first, second = (kubelet.admit(pod(name, "c", put=False)) for name in ("p", "q"))
    claim("c", first, second)
    kubelet.prepare(first)
    kubelet.prepare(second)
    kubelet.remove(first)
    kubelet.wait_for(lambda k: k.pod_status(first).removed)
    assert unprepared(made) == []
    assert kubelet.claim_record("c").pods == {second.uid}
    kubelet.remove(second)
    kubelet.wait_for(lambda k: k.pod_status(second).removed)
    assert unprepared(made) == [["c"]]


def test_the_claim_may_be_gone(connected, pod, api):
    kubelet, made = connected()
    one = prepared(kubelet, pod("p", "c"))
    api.delete_claim("default", "c")
    kubelet.remove(one)
    kubelet.wait_for(lambda k: k.pod_status(one).removed)
    assert unprepared(made) == [["c"]]


def test_a_claim_that_was_never_prepared(connected, pod):
    """The kubelet wrote it down before its call, which the driver did not understand."""
    kubelet, made = connected()
    made.on_prepare = lambda claim: ([], "not yet")
    one = kubelet.admit(pod("p", "c"))
    with pytest.raises(PrepareError):
        kubelet.prepare(one)
    kubelet.remove(one)
    kubelet.wait_for(lambda k: k.pod_status(one).removed)
    assert unprepared(made) == [["c"]]


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (lambda _: None, "busy", "NodeUnprepareResources failed for ResourceClaim c: busy"),
        (lambda it: it.clear(), "", "NodeUnprepareResources skipped 1 ResourceClaims"),
        (
            lambda it: it.update(strange=v1.NodeUnprepareResourceResponse()),
            "",
            "NodeUnprepareResources returned result for unknown claim UID strange",
        ),
    ],
    ids=["error", "missing", "strange"],
)
def test_a_failure_keeps_the_pod(connected, pod, change, error, text):
    kubelet, made = connected()
    one = prepared(kubelet, pod("p", "c"))
    made.change, made.on_unprepare = change, lambda claim: error
    kubelet.remove(one)
    record = kubelet.pod_status(one)
    kubelet.wait_for(lambda k: len(record.errors) > 2)
    assert not record.removed
    assert set(record.errors) == {f"unprepare dynamic resources: {text}"}
    made.change, made.on_unprepare = lambda it: None, lambda claim: ""
    kubelet.wait_for(lambda k: record.removed)


def test_a_driver_that_is_gone_keeps_the_pod(connected, pod, registry):
    kubelet, made = connected()
    one = prepared(kubelet, pod("p", "c"))
    made.registry.path.unlink()
    kubelet.wait_for(lambda k: not k.drivers(NAME))
    kubelet.remove(one)
    record = kubelet.pod_status(one)
    kubelet.wait_for(lambda k: record.errors)
    assert record.errors[0] == (f"unprepare dynamic resources: DRA driver {NAME} is not registered")
    registry(
        "again-reg.sock",
        type="DRAPlugin",
        name=NAME,
        endpoint=str(made.socket),
        supported_versions=["v1.DRAPlugin"],
    )
    kubelet.wait_for(lambda k: record.removed)


def test_a_terminating_pod_survives_the_kubelets_restart(connected, pod):
    kubelet, made = connected()
    one = prepared(kubelet, pod("p", "c"))
    made.on_unprepare = lambda claim: "busy"
    kubelet.remove(one)
    kubelet.wait_for(lambda k: k.pod_status(one).errors)
    kubelet.restart()
    made.on_unprepare = lambda claim: ""
    kubelet.wait_for(lambda k: k.pod_status(one).removed)


@pytest.mark.parametrize("behaviour", ["1.36", "1.37"])
def test_a_pod_that_comes_while_its_claim_is_unprepared(connected, pod, claim, behaviour):
    kubelet, made = connected({"behaviour": behaviour})
    first, second = (kubelet.admit(pod(name, "c", put=False)) for name in ("p", "q"))
    claim("c", first, second)
    kubelet.prepare(first)
    asked, go_on = threading.Event(), threading.Event()

    def wait(claim):
        asked.set()
        go_on.wait(5)
        return ""

    made.on_unprepare = wait
    kubelet.remove(first)
    assert asked.wait(5)
    if behaviour == "1.36":
        kubelet.prepare(second)
    else:
        with pytest.raises(PrepareError, match="ResourceClaim c is being unprepared"):
            kubelet.prepare(second)
    go_on.set()
    kubelet.wait_for(lambda k: k.pod_status(first).removed)


def test_vanished_pods_are_found_by_the_reconciliation(connected, pod):
    kubelet, made = connected()
    one = prepared(kubelet, pod("p", "c"))
    kubelet.readmit()
    kubelet.force_delete(one)
    assert unprepared(made) == []
    made.on_unprepare = lambda claim: "busy"
    kubelet.reconcile()
    assert kubelet.claim_record("c") is not None
    made.on_unprepare = lambda claim: ""
    kubelet.reconcile()
    assert kubelet.claim_record("c") is None
    assert unprepared(made) == [["c"], ["c"]]
