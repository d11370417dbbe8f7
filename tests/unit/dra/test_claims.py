"""Claims: what is prepared, what is refused, and that answers stay the same."""

import pytest
from msgspec import structs

from device_plugin.dra.checkpoint import Prepared
from device_plugin.dra.cluster import ApiError
from device_plugin.listing import HELD_BY_PLUGIN, NOT_IN_CONFIG
from tests.unit.dra.claimed import DRIVER, GPU, POOL, ClaimNode, result, stick


@pytest.fixture
def node(tree):
    made = ClaimNode(tree)
    made.offer(stick("gpu-0"), stick("gpu-1"), env={"GPU": "{id}"})
    return made


def test_a_claim_gets_its_devices(node):
    claim = node.prepared("a", result("gpu-1"))
    assert [(one.name, one.request) for one in claim.devices] == [("gpu-1", "gpu")]
    assert (claim.pool, claim.driver) == (POOL, DRIVER)
    assert node.spec("a") == {
        "gpu": {
            "env": ["GPU=gpu-1"],
            "deviceNodes": [{"path": "/dev/gpu-1", "permissions": "rw"}],
        }
    }
    assert node.held() == {"gpu-1": GPU}
    assert node.changes == 1


def test_it_is_the_same_each_time_and_after_a_restart(node):
    first = node.prepared("a", result("gpu-1"))
    spec = (node.cdi / node.files()[0]).read_bytes()
    again = node.prepared("a", result("gpu-1"))
    node.restart()
    later = node.prepared("a", result("gpu-1"))
    assert first == again == later
    assert (node.cdi / node.files()[0]).read_bytes() == spec


def test_a_claim_is_given_back(node):
    ref = node.api.allocate("a", result("gpu-1"))
    node.prepare(ref)
    assert node.unprepare(ref) == ""
    assert not node.files()
    assert not node.held()
    node.restart()
    assert not node.held()
    assert node.prepared("b", result("gpu-1"))


def test_what_allocate_gave_away_meanwhile_is_refused(node):
    """The look that withholds it comes too late."""
    node.handed_out.add("gpu-1")
    assert node.refused("a", result("gpu-1")) == (
        "gpu-1 of example.com/gpu: a container holds it through the device plugin: this is tried"
        " again"
    )
    assert not node.files()
    assert not node.held()
    assert node.prepared("b", result("gpu-1", adminAccess=True))
    node.handed_out.clear()
    assert node.prepared("c", result("gpu-1"))


def test_what_was_never_prepared_is_given_back_too(node):
    assert node.unprepare(node.api.allocate("a", result("gpu-0"))) == ""
    assert node.claims.unprepare([structs.replace(node.api.allocate("b"), uid="../x")]) == {
        "../x": ""
    }


def test_it_is_given_back_although_it_is_gone_from_the_api_server(node):
    ref = node.api.allocate("a", result("gpu-1"))
    node.prepare(ref)
    node.api.claims.clear()
    node.api.refuse = lambda _: ApiError("no answer")
    assert node.unprepare(ref) == ""
    assert not node.held()


def test_each_claim_of_a_call_has_its_own_answer(node):
    good = node.api.allocate("a", result("gpu-1"))
    bad = node.api.allocate("b", result("gpu-7"))
    answers = node.claims.prepare([bad, good])
    assert answers[bad.uid] == (
        "this node offers no device gpu-7 now: a container may still hold it through the device"
        " plugin, or the config has it no more (`device-plugin status` says)"
    )
    assert isinstance(answers[good.uid], Prepared)


def test_a_bug_in_one_claim_spares_the_others(node):
    bad, good = (node.api.allocate(name, result(f"gpu-{i}")) for i, name in enumerate("ab"))

    def fails_once():
        node.api.before_answer = lambda: None
        raise ZeroDivisionError("bug")

    node.api.before_answer = fails_once
    answers = node.claims.prepare([bad, good])
    assert answers[bad.uid] == "failed, please report: ZeroDivisionError('bug')"
    assert isinstance(answers[good.uid], Prepared)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ApiError("not found", 404), "it does not exist any more: delete the Pod"),
        (
            ApiError("forbidden", 403),
            "this plugin may not read it: give its service account `get` on `resourceclaims`",
        ),
        (ApiError("timed out"), "it cannot be read: timed out: this is tried again"),
        (ApiError("too many", 429), "it cannot be read: too many: this is tried again"),
    ],
)
def test_the_api_server_fails(node, error, text):
    node.api.refuse = lambda _: error
    assert node.refused("a", result("gpu-0")) == text
    node.api.refuse = lambda _: None
    node.prepared("a", result("gpu-0"))


def test_without_the_api_server_what_is_prepared_stays_so(node):
    first = node.prepared("a", result("gpu-0"))
    node.restart()
    node.api.refuse = lambda _: ApiError("no answer")
    assert node.prepared("a", result("gpu-0")) == first


def test_what_is_prepared_and_gone_is_not_prepared_again(node):
    ref = node.api.allocate("a", result("gpu-0"))
    node.prepare(ref)
    node.api.claims.clear()
    assert node.prepare(ref) == "it does not exist any more: delete the Pod"
    assert node.held() == {"gpu-0": GPU}  # until the kubelet gives it back


def test_a_slow_api_server_does_not_outlast_the_kubelet(node, monkeypatch):
    refs = [node.api.allocate(name, result(f"gpu-{i}")) for i, name in enumerate("ab")]
    monkeypatch.setattr("device_plugin.dra.claims._PATIENCE", -1.0)
    answers = node.claims.prepare(refs)
    assert set(answers.values()) == {
        "the API server took too long over other claims: this is tried again"
    }


def test_nothing_is_kept_for_a_kubelet_that_went_away_meanwhile(node):
    ref = node.api.allocate("a", result("gpu-0"))
    answers = node.claims.prepare([ref], lambda: "claim" not in node.api.calls)
    assert answers == {ref.uid: "it was given up meanwhile"}
    assert not node.held()
    assert not node.files()


def test_another_claim_of_the_same_name(node):
    ref = node.api.allocate("a", result("gpu-0"))
    node.api.allocate("a", result("gpu-1"), uid="another")
    assert node.prepare(ref) == "it is gone, and another claim has its name: delete the Pod"


def test_a_claim_that_is_not_allocated(node):
    ref = node.api.allocate("a")
    del node.api.claims["team", "a"]["status"]["allocation"]
    assert node.prepare(ref) == "it is not allocated any more: delete the Pod"
    del node.api.claims["team", "a"]["status"]
    assert node.prepare(ref) == "it is not allocated any more: delete the Pod"


def test_only_what_is_ours_of_a_claim_over_several_drivers(node):
    other = {**result("nic-0", "nic"), "driver": "nic.example.com", "pool": "fabric"}
    claim = node.prepared("a", other, result("gpu-0"))
    assert [one.name for one in claim.devices] == ["gpu-0"]
    text = f"nothing of it is allocated from {DRIVER}, which is asked: delete the Pod"
    assert node.refused("b", other) == text


def test_a_device_of_another_node(node):
    strange = {**result("gpu-0"), "pool": "node-b"}
    assert node.refused("a", strange) == "it has devices of the node node-b, and this is node-a"


def test_a_claim_that_is_none(node):
    ref = node.api.allocate("a")
    node.api.claims["team", "a"]["status"] = {"allocation": {"devices": {"results": [{}]}}}
    assert "not as resource.k8s.io/v1 has it" in node.prepare(ref)


def test_a_uid_that_would_be_a_path(node):
    text = node.refused("a", result("gpu-0"), uid="../../etc/x")
    assert text == "'../../etc/x' is no UID"


def test_an_unhealthy_device_is_for_those_only_who_have_it(node):
    node.prepared("a", result("gpu-0"))
    node.offer(stick("gpu-0", reason="authorized is 0"), env={"GPU": "{id}"})
    node.prepared("a", result("gpu-0"))
    node.unprepare(node.api.allocate("a"))
    text = f"device gpu-0 of {GPU} is unhealthy: authorized is 0"
    assert node.refused("b", result("gpu-0")) == text


def test_a_claim_may_tolerate_what_is_wrong(node):
    node.offer(stick("gpu-0", reason="hot"), stick("gpu-1", reason=HELD_BY_PLUGIN))
    other = {"key": "example.com/maintenance", "operator": "Exists"}
    assert "hot" in node.refused("a", result("gpu-0", tolerations=[other]))
    ours = {"key": f"{DRIVER}/unhealthy", "operator": "Exists", "effect": "NoSchedule"}
    any_ = {"operator": "Exists"}
    assert HELD_BY_PLUGIN in node.refused("b", result("gpu-1", tolerations=[ours, any_]))
    node.prepared("a", result("gpu-0", tolerations=[other, ours]))


def test_a_device_that_is_gone_is_given_to_nobody(node):
    node.offer(stick("gpu-0", reason="removed", present=False))
    any_ = [{"operator": "Exists"}]
    text = f"device gpu-0 of {GPU} is unhealthy: removed"
    assert node.refused("a", result("gpu-0", tolerations=any_)) == text
    assert node.refused("a", result("gpu-0", adminAccess=True)) == text


def test_what_was_prepared_says_so_when_it_is_gone(node):
    node.prepared("a", result("gpu-0"))
    node.offer(stick("gpu-0", reason="removed", present=False))
    assert node.refused("a", result("gpu-0")) == f"device gpu-0 of {GPU} is gone: removed"
    node.offer(stick("gpu-0"))
    node.prepared("a", result("gpu-0"))


def test_a_node_that_is_missing_although_the_device_is_listed(node):
    node.tree.at("/dev/gpu-0").unlink()
    assert node.refused("a", result("gpu-0")) == "/dev/gpu-0 does not exist"
    node.tree.file("/dev/gpu-0")
    text = "/dev/gpu-0 is a regular file, not a device node"
    assert node.refused("a", result("gpu-0")) == text


def test_what_the_config_dropped_stays_as_it_was(node):
    node.prepared("a", result("gpu-0"))
    before = node.spec("a")
    node.offer(stick("gpu-0", reason=NOT_IN_CONFIG, present=False))
    node.claims.renew()
    assert node.spec("a") == before
    node.offers = []
    node.claims.renew()
    assert node.spec("a") == before
    assert node.prepared("a", result("gpu-0"))
    (node.cdi / node.files()[0]).unlink()  # as a reboot does
    assert node.refused("a", result("gpu-0")) == f"device gpu-0 of {GPU} is gone: not in config"
