"""Claims of an earlier boot: which are let go, and which are kept."""

import os

import pytest

from device_plugin.dra import place
from device_plugin.dra.checkpoint import held
from device_plugin.dra.cluster import ApiError
from tests.unit.dra.claimed import GPU, ClaimNode, full, reboot, result, stick


@pytest.fixture
def node(tree):
    made = ClaimNode(tree)
    made.offer(stick("gpu-0"), stick("gpu-1"))
    return made


def test_claims_of_an_earlier_boot_that_are_gone(node, monkeypatch):
    for number, name in enumerate(("here", "gone")):
        node.prepared(name, result(f"gpu-{number}"))
    del node.api.claims["team", "gone"]
    assert node.claims.forget_stale()
    assert node.held() == {"gpu-0": GPU, "gpu-1": GPU}  # its containers may run yet
    claims = reboot(monkeypatch, node)
    node.api.refuse = lambda _: ApiError("no answer")
    assert not claims.forget_stale()
    assert held(claims.prepared) == {"gpu-0": GPU, "gpu-1": GPU}
    node.api.refuse = lambda _: None
    assert claims.forget_stale()
    assert held(claims.prepared) == {"gpu-0": GPU}


def test_a_claim_of_an_earlier_boot_that_has_a_successor(node, monkeypatch):
    node.prepared("a", result("gpu-0"))
    node.api.allocate("a", result("gpu-1"), uid="another")
    claims = reboot(monkeypatch, node)
    assert claims.forget_stale()
    assert not held(claims.prepared)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"kind": "Status", "metadata": {"uid": "another"}},
        {"metadata": {"uid": "another"}},
        {"status": None},
        {"status": {"allocation": None}},
        {"status": {"allocation": {}}},
        {"status": {"allocation": {"devices": {"results": [{}]}}}},
        {"status": []},
    ],
)
def test_an_odd_answer_lets_go_of_nothing(node, monkeypatch, answer):
    node.prepared("a", result("gpu-0"))
    odd = {**node.api.claims["team", "a"], **answer} if "status" in answer else answer
    node.api.claims["team", "a"] = odd
    claims = reboot(monkeypatch, node)
    assert not claims.forget_stale()
    assert held(claims.prepared) == {"gpu-0": GPU}


@pytest.mark.parametrize("status", [{}, {"reservedFor": []}, "none"])
def test_a_claim_of_an_earlier_boot_without_devices(node, monkeypatch, status):
    node.prepared("a", result("gpu-0"))
    claim = node.api.claims["team", "a"]
    if status == "none":
        del claim["status"]
    else:
        claim["status"] = status
    claims = reboot(monkeypatch, node)
    assert claims.forget_stale()
    assert not held(claims.prepared)


def test_a_claim_of_an_earlier_boot_that_is_prepared_again_is_of_this_one(node, monkeypatch):
    ref = node.api.allocate("a", result("gpu-0"))
    node.prepare(ref)
    claims = reboot(monkeypatch, node)
    assert claims.prepare([ref])[ref.uid] == claims.prepared[0]
    assert claims.prepared[0].boot == "another"
    monkeypatch.setattr(node.restart(), "_boot", "another")
    node.api.claims.clear()
    assert node.claims.forget_stale()
    assert node.held() == {"gpu-0": GPU}  # a Pod that is being deleted still runs


def test_a_claim_that_is_prepared_again_meanwhile_is_kept(node, monkeypatch):
    ref = node.api.allocate("a", result("gpu-0"))
    node.prepare(ref)
    claims = reboot(monkeypatch, node)

    def gone():
        node.api.before_answer = lambda: None
        claims.prepare([ref])
        node.api.claims.clear()

    node.api.before_answer = gone
    assert claims.forget_stale()
    assert held(claims.prepared) == {"gpu-0": GPU}


def test_a_boot_that_cannot_be_noted_is_tried_again(node, monkeypatch):
    ref = node.api.allocate("a", result("gpu-0"))
    node.prepare(ref)
    claims = reboot(monkeypatch, node)

    def no_space(_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("os.fsync", no_space)
    assert claims.prepare([ref])[ref.uid] == full(node)
    assert held(claims.prepared) == {"gpu-0": GPU}


def test_after_a_boot_claims_of_another_driver_go_too(node, monkeypatch):
    node.prepared("a", result("gpu-0"))
    path = node.state / place.CLAIMS
    path.write_bytes(path.read_bytes().replace(b"gpu.example.com", b"old.example.com"))
    del node.api.claims["team", "a"]
    claims = reboot(monkeypatch, node)
    assert claims.forget_stale()
    assert not held(claims.prepared)
