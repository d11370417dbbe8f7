"""Calls for claims: how many go on at once, who is waited for, and what a failing one spares."""

import threading

import pytest
import structlog

from device_plugin.dra.checkpoint import Prepared
from tests.unit.dra.claimed import GPU, ClaimNode, result, stick
from tests.unit.dra.made import wait_for


@pytest.fixture
def node(tree):
    made = ClaimNode(tree)
    made.offer(stick("gpu-0"), stick("gpu-1"))
    return made


def test_nobody_is_asked_for_a_kubelet_that_is_away_already(node):
    refs = [node.api.allocate(name, result(f"gpu-{i}")) for i, name in enumerate("ab")]
    answers = node.claims.prepare(refs, lambda: False)
    assert set(answers.values()) == {"it was given up meanwhile"}
    waits = iter([True, True, True, False])  # for its turn, for the first claim, twice
    answers = node.claims.prepare(refs, lambda: next(waits))
    assert isinstance(answers["uid-a"], Prepared)
    assert answers["uid-b"] == "it was given up meanwhile"
    assert node.api.calls == ["claim"]


def test_few_ask_at_once_and_whoever_gives_back_waits_for_none(node, monkeypatch):
    monkeypatch.setattr("device_plugin.dra.claims._LOOK", 0.01)
    release = threading.Event()
    node.api.before_answer = lambda: release.wait(20)
    ref = node.api.allocate("a", result("gpu-0"))
    calls = [threading.Thread(target=node.claims.prepare, args=([ref],)) for _ in range(40)]
    for call in calls:
        call.start()
    wait_for(lambda: len(node.api.calls) == 16)
    looks = iter(range(3))
    assert node.claims.prepare([ref], lambda: next(looks, None) is not None) == {
        ref.uid: "it was given up meanwhile"
    }
    assert node.unprepare(ref) == ""
    assert len(node.api.calls) == 16
    release.set()
    for call in calls:
        call.join(20)
    assert len(node.api.calls) == 40
    node.prepared("a", result("gpu-0"))


def test_a_bug_in_giving_back_one_claim_spares_the_others(node, monkeypatch):
    bad, good = (node.api.allocate(name, result(f"gpu-{i}")) for i, name in enumerate("ab"))
    node.claims.prepare([bad, good])
    remove = node.claims._specs.remove

    def fails(uid):
        if uid == bad.uid:
            raise ZeroDivisionError("bug")
        remove(uid)

    monkeypatch.setattr(node.claims._specs, "remove", fails)
    answers = node.claims.unprepare([bad, good])
    assert answers == {bad.uid: "failed, please report: ZeroDivisionError('bug')", good.uid: ""}
    assert node.held() == {"gpu-0": GPU}


def test_only_what_was_known_is_said_to_be_given_back(node):
    ref = node.api.allocate("a", result("gpu-0"))
    node.prepare(ref)
    with structlog.testing.capture_logs() as logs:
        node.unprepare(ref)
        node.unprepare(ref)
    assert [line["event"] for line in logs] == ["claim unprepared"]
