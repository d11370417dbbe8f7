"""No device to two claims: replicas, parts, shares, those who look on; from many threads."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec import structs

from device_plugin.attribute import Quantity
from device_plugin.dra.checkpoint import Prepared
from tests.unit.dra.claimed import GPU, ClaimNode, parameters, result, stick
from tests.unit.dra.made import HALF, QUARTER

TAKEN = f"gpu-0 of {GPU} is still prepared for another claim: this is tried again until its Pods"
MEMORY = {"memory": Quantity.parse("80Gi")}


@pytest.fixture
def node(tree):
    made = ClaimNode(tree)
    made.offer(stick("gpu-0"), stick("gpu-1"))
    return made


def share(number, **more):
    return result("gpu-0", shareID=f"share-{number}", **more)


def test_a_device_has_one_claim(node):
    node.prepared("a", result("gpu-0"))
    assert node.refused("b", result("gpu-0")).startswith(TAKEN)
    node.prepared("b", result("gpu-1"))
    assert node.held() == {"gpu-0": GPU, "gpu-1": GPU}


def test_it_is_so_after_a_restart(node):
    node.prepared("a", result("gpu-0"))
    node.restart()
    assert node.refused("b", result("gpu-0")).startswith(TAKEN)


def test_claims_of_earlier_names_count_by_uid(node):
    node.prepared("a", result("gpu-0"))
    assert node.refused("a", result("gpu-0"), uid="uid-again").startswith(TAKEN)


def test_twice_in_one_claim(node):
    text = f"gpu-0 of {GPU} is allocated twice in the claim"
    assert node.refused("a", result("gpu-0"), result("gpu-0", "other")) == text


def test_more_replicas_than_there_are(node):
    """The config has fewer than it had when the claim was allocated."""
    text = f"the claim takes 2 replicas of gpu-0 of {GPU}, which has 1: delete the Pod"
    assert node.refused("a", share(1, consumedCapacity={"replicas": "2"})) == text


def test_a_claim_that_was_allocated_anew_takes_its_new_devices(node):
    node.prepared("a", result("gpu-0"))
    node.prepared("a", result("gpu-1"))
    assert node.held() == {"gpu-1": GPU}
    node.prepared("b", result("gpu-0"))


def test_those_who_look_on_take_nothing(node):
    node.prepared("a", result("gpu-0"))
    watcher = node.prepared("b", result("gpu-0", adminAccess=True), result("gpu-1", "more"))
    assert [one.admin for one in watcher.devices] == [True, False]
    assert node.spec("b")["gpu"]["deviceNodes"]
    assert node.held() == {"gpu-0": GPU, "gpu-1": GPU}
    node.unprepare(node.api.allocate("a"))
    assert node.held() == {"gpu-1": GPU}
    node.prepared("c", result("gpu-0"))


def test_they_may_look_at_what_is_unhealthy(node):
    node.offer(stick("gpu-0", reason="hot"))
    node.prepared("a", result("gpu-0", adminAccess=True))


def test_shares_of_replicas_as_far_as_they_go(node):
    node.offer(stick("gpu-0", replicas=3))
    node.prepared("a", share(1, consumedCapacity={"replicas": "2"}))
    node.prepared("b", share(2))
    assert node.refused("c", share(3)).startswith(TAKEN)
    node.unprepare(node.api.allocate("b"))
    node.prepared("c", share(3))
    assert node.claims.prepared[1].devices[0].share == "share-3"


def test_two_shares_in_one_claim(node):
    node.offer(stick("gpu-0", replicas=2))
    node.prepared("a", share(1), share(2, request="other"))
    assert sorted(node.spec("a")) == ["gpu", "other"]
    assert node.refused("b", share(3)).startswith(TAKEN)


def test_a_share_of_a_device_that_is_not_shared_any_more(node):
    node.offer(stick("gpu-0", replicas=2))
    node.prepared("a", share(1))
    node.offer(stick("gpu-0"))
    assert node.refused("b", share(2)).startswith(TAKEN)


def test_replicas_under_names_of_their_own(node):
    node.offer(stick("gpu-0", replicas=2))
    node.prepared("a", result("gpu-0"))
    claim = node.prepared("b", result("gpu-0-r1"))
    assert (claim.devices[0].name, claim.devices[0].device) == ("gpu-0-r1", "gpu-0")
    assert node.refused("c", result("gpu-0-r1")).startswith("gpu-0-r1 of")
    assert "no device gpu-0-r2" in node.refused("c", result("gpu-0-r2"))


def test_parts_go_with_parts_only(node):
    node.offer(stick("gpu-0", attributes=MEMORY), partitions=(HALF, QUARTER))
    node.prepared("a", result("gpu-0-half-0"))
    node.prepared("b", result("gpu-0-quarter-0"), result("gpu-0-quarter-1", "more"))
    assert node.refused("c", result("gpu-0")).startswith(TAKEN)
    assert node.refused("c", result("gpu-0-quarter-2")).startswith("gpu-0-quarter-2 of")
    assert node.refused("c", result("gpu-0-half-0")).startswith("gpu-0-half-0 of")
    for name in "ab":
        node.unprepare(node.api.allocate(name))
    node.prepared("c", result("gpu-0"))
    assert node.refused("d", result("gpu-0-half-1")).startswith("gpu-0-half-1 of")


def test_a_part_that_the_config_dropped_still_counts(node):
    node.offer(stick("gpu-0", attributes=MEMORY), partitions=(HALF, QUARTER))
    node.prepared("a", result("gpu-0-half-0"))
    node.restart()
    whole = structs.replace(QUARTER, count=1, capacity={"memory": "60Gi"})
    node.offer(stick("gpu-0", attributes=MEMORY), partitions=(whole,))
    assert node.refused("b", result("gpu-0-quarter-0")).startswith("gpu-0-quarter-0 of")


def test_one_device_to_one_of_many_that_ask_at_once(node):
    refs = [node.api.allocate(f"c{i}", result("gpu-0")) for i in range(16)]
    with ThreadPoolExecutor(16) as threads:
        answers = [*threads.map(node.prepare, refs)]
    assert sum(isinstance(one, Prepared) for one in answers) == 1
    assert len(node.files()) == len(node.claims.prepared) == 1


def test_one_claim_for_many_pods_at_once(node):
    ref = node.api.allocate("a", result("gpu-0"), config=[parameters(env={"A": "{id}"})])
    with ThreadPoolExecutor(16) as threads:
        answers = [*threads.map(node.prepare, [ref] * 32)]
    assert len(node.claims.prepared) == 1
    assert all(answer == node.claims.prepared[0] for answer in answers)


def test_many_claims_come_and_go_at_once(node):
    node.offer(*(stick(f"gpu-{i}") for i in range(8)))

    def turn(number):
        ref = node.api.allocate(f"c{number}", result(f"gpu-{number % 8}"))
        answer = node.prepare(ref)
        if isinstance(answer, Prepared):
            assert node.held()[f"gpu-{number % 8}"] == GPU
            assert node.unprepare(ref) == ""
        return answer

    with ThreadPoolExecutor(8) as threads:
        answers = [*threads.map(turn, range(64))]
    assert any(isinstance(one, Prepared) for one in answers)
    assert not node.claims.prepared
    assert not node.files()
    node.restart()
    assert not node.claims.prepared
