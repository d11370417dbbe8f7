"""A checkpoint that is corrupt: nothing is given away while forgotten claims may have devices."""

import pytest

from device_plugin.dra import checkpoint, place
from tests.unit.dra.claimed import DRIVER, GPU, ClaimNode, result, stick


@pytest.fixture
def node(tree):
    made = ClaimNode(tree)
    made.offer(stick("gpu-0"), stick("gpu-1"), stick("gpu-2"))
    return made


def corrupt(node):
    (node.state / place.CLAIMS).write_bytes(b"{")
    node.restart()


def closed(node, count):
    aside = node.state / checkpoint.ASIDE
    return (
        f"the claims of this node were forgotten ({aside}) and {count} of them may still have"
        " devices: drain the node; this is tried again"
    )


@pytest.mark.parametrize("data", [b"", b"\0" * 200, b"[]", b'{"version": 1}', b"[" * 100_000])
def test_a_corrupt_checkpoint_is_put_aside(node, data):
    node.prepared("a", result("gpu-0"))
    (node.state / place.CLAIMS).write_bytes(data)
    node.restart()
    assert not node.held()
    assert (node.state / checkpoint.ASIDE).read_bytes() == data
    assert node.spec("a")  # its containers may restart
    assert node.unprepare(node.api.allocate("a")) == ""
    assert not node.files()


def test_nothing_is_given_away_until_the_forgotten_are_given_back(node):
    first, second = (node.api.allocate(name, result(f"gpu-{i}")) for i, name in enumerate("ab"))
    node.claims.prepare([first, second])
    corrupt(node)
    assert node.claims.problem == closed(node, 2)
    assert node.refused("c", result("gpu-0")) == closed(node, 2)
    node.restart()  # which finds a checkpoint that is whole
    assert node.refused("c", result("gpu-2")) == closed(node, 2)
    assert node.unprepare(first) == ""
    assert node.refused("c", result("gpu-0")) == closed(node, 1)
    assert node.unprepare(second) == ""
    assert node.claims.problem == ""
    node.prepared("c", result("gpu-0"))


def test_a_forgotten_claim_itself_is_prepared_again(node):
    node.prepared("a", result("gpu-0"))
    node.prepared("b", result("gpu-1"))
    corrupt(node)
    node.prepared("a", result("gpu-0"))
    assert node.claims.problem == closed(node, 1)
    node.prepared("b", result("gpu-1"))
    assert node.claims.problem == ""
    assert node.held() == {"gpu-0": GPU, "gpu-1": GPU}
    node.prepared("c", result("gpu-2"))


def test_what_cannot_be_noted_stays_forgotten(node, monkeypatch):
    ref = node.api.allocate("a", result("gpu-0"))
    node.prepare(ref)
    corrupt(node)

    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(node.claims._checkpoint, "put", full)
        assert "No space left" in node.prepare(ref)
    assert node.spec("a")
    assert node.claims.problem == closed(node, 1)


def test_a_spec_that_cannot_be_read_may_be_one(node):
    node.prepared("a", result("gpu-0"))
    (node.cdi / node.files()[0]).write_bytes(b"")
    corrupt(node)
    assert node.claims.problem == closed(node, 1)


def test_specs_of_other_drivers_are_none(node):
    node.prepared("a", result("gpu-0"))
    path = node.cdi / node.files()[0]
    path.write_text(path.read_text().replace(DRIVER, "nic.example.com"))
    (node.cdi / "other.json").write_text("{}")
    corrupt(node)
    assert node.claims.problem == ""
    node.prepared("b", result("gpu-1"))


def test_it_is_over_with_the_boot(node, monkeypatch):
    node.prepared("a", result("gpu-0"))
    corrupt(node)
    monkeypatch.setattr(node.restart(), "_boot", "another")
    assert node.claims.problem == ""
    node.prepared("b", result("gpu-1"))


def test_a_spec_that_nobody_knows_is_no_harm_as_long_as_nothing_is_corrupt(node):
    node.prepared("a", result("gpu-0"))
    (node.state / place.CLAIMS).unlink()  # as whoever knows what he does
    node.restart()
    node.prepared("b", result("gpu-1"))
