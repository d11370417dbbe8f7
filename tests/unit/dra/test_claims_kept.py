"""What of claims outlives the process, and what happens where it cannot."""

import json
import os

import pytest
from msgspec import structs

from device_plugin.dra import checkpoint, place
from tests.unit.dra.claimed import GPU, ClaimNode, full, reboot, result, stick


@pytest.fixture
def node(tree):
    made = ClaimNode(tree)
    made.offer(stick("gpu-0"), stick("gpu-1"))
    return made


@pytest.fixture
def disk(monkeypatch):
    """What is to fail with whichever error number."""
    errors: dict[str, int] = {}
    for name in ("fsync", "replace"):
        real = getattr(os, name)

        def call(*args, name=name, real=real):
            if name in errors:
                raise OSError(errors[name], os.strerror(errors[name]))
            return real(*args)

        monkeypatch.setattr(f"os.{name}", call)
    return errors


def blocked(node):
    """Let nobody write the CDI folder, root neither."""
    node.cdi.rename(node.cdi.with_name("away"))
    node.cdi.touch()


def mended(node):
    node.cdi.unlink()
    node.cdi.with_name("away").rename(node.cdi)


def test_a_full_disk_leaves_nothing_behind(node, disk):
    disk["fsync"] = 28
    assert node.refused("a", result("gpu-0")) == full(node)
    assert not node.files()
    assert sorted(path.name for path in node.state.iterdir()) == []
    disk.clear()
    node.prepared("b", result("gpu-0"))


def test_what_cannot_be_noted_is_not_given_back(node, disk):
    ref = node.api.allocate("a", result("gpu-0"))
    node.prepare(ref)
    disk["fsync"] = 28
    assert node.unprepare(ref) == full(node)
    assert node.held() == {"gpu-0": GPU}
    why = f"a claim cannot be taken back, its Pod cannot end: {full(node)}"
    assert node.claims.problem == why
    node.claims.renew()
    assert node.claims.problem == why
    disk.clear()
    assert node.unprepare(ref) == ""
    assert node.claims.problem == ""
    assert not node.held()


def test_a_cdi_folder_that_nobody_can_write(node):
    blocked(node)
    ref = node.api.allocate("a", result("gpu-0"))
    path = node.cdi / "device-plugin-claim-uid-a.json"
    no_folder = f"{path}: {node.cdi} is no folder: name one with --cdi-dir"
    assert node.prepare(ref) == f"cannot write {no_folder}"
    assert not node.held()
    mended(node)
    node.prepared("a", result("gpu-0"))
    blocked(node)
    assert node.unprepare(ref) == f"cannot remove {no_folder}"
    assert node.held() == {"gpu-0": GPU}
    mended(node)
    assert node.unprepare(ref) == ""


def test_specs_are_written_again_after_a_reboot(node, monkeypatch):
    node.prepared("a", result("gpu-0"))
    before = node.spec("a")
    claims = reboot(monkeypatch, node)
    claims.renew()
    assert node.spec("a") == before
    assert claims.problem == ""


def test_a_spec_follows_its_device(node):
    node.tree.link("/dev/by-id/x", "../one")
    node.tree.node("/dev/one")
    node.tree.node("/dev/two")
    node.offer(stick("gpu-0", "/dev/by-id/x"), env={"PATH_IN": "{path}"})
    node.prepared("a", result("gpu-0"))

    def nodes():
        return node.spec("a")["gpu"]["deviceNodes"]

    inside = {"path": "/dev/by-id/x", "permissions": "rw"}
    assert nodes() == [{**inside, "hostPath": "/dev/one"}]
    node.tree.at("/dev/by-id/x").unlink()
    node.tree.link("/dev/by-id/x", "../two")
    node.claims.renew()
    assert nodes() == [{**inside, "hostPath": "/dev/two"}]
    assert node.spec("a")["gpu"]["env"] == ["PATH_IN=/dev/by-id/x"]


def test_a_device_that_is_gone_takes_its_request_along(node):
    node.prepared("a", result("gpu-0"), result("gpu-1", "other"))
    node.offer(stick("gpu-0", reason="removed", present=False), stick("gpu-1"))
    node.claims.renew()
    assert list(node.spec("a")) == ["other"]
    node.offer(stick("gpu-0", reason="disabled"), stick("gpu-1"))
    node.claims.renew()
    assert sorted(node.spec("a")) == ["gpu", "other"]
    gone = [stick(f"gpu-{i}", reason="removed", present=False) for i in range(2)]
    node.offer(*gone)
    node.claims.renew()
    assert not node.files()


def test_a_spec_is_written_only_when_it_differs(node):
    node.prepared("a", result("gpu-0"))
    path = node.cdi / node.files()[0]
    before = path.stat().st_ino
    node.claims.renew()
    assert path.stat().st_ino == before
    path.write_text("{}")
    node.claims.renew()
    assert "gpu" in node.spec("a")


def test_specs_that_cannot_be_renewed_are_a_problem(node):
    node.prepared("a", result("gpu-0"))
    blocked(node)
    node.claims.renew()
    assert node.claims.problem.startswith("cannot write ")
    mended(node)
    node.claims.renew()
    assert node.claims.problem == ""


def test_a_newer_checkpoint_is_left_alone(node):
    path = node.state / place.CLAIMS
    content = json.dumps({"version": 2, "claims": {"new": "form"}})
    path.write_text(content)
    with pytest.raises(checkpoint.Unusable) as why:
        node.restart()
    assert str(why.value) == (
        f"{path} is of version 2 and this program reads 1: run the newer program, or drain the"
        " node and remove the file"
    )
    assert path.read_text() == content


def test_a_checkpoint_with_more_than_we_know(node):
    claim = node.prepared("a", result("gpu-0"))
    path = node.state / place.CLAIMS
    content = json.loads(path.read_bytes())
    content["claims"][0]["devices"][0]["later"] = True
    path.write_text(json.dumps(content | {"later": [1]}))
    node.restart()
    assert node.claims.prepared == [claim]


def test_it_is_for_its_owner_alone(node):
    node.prepared("a", result("gpu-0"))
    assert (node.state / place.CLAIMS).stat().st_mode & 0o777 == 0o600


def test_claims_of_another_driver_keep_their_devices(node):
    claim = node.prepared("a", result("gpu-0"))
    path = node.state / place.CLAIMS
    path.write_bytes(path.read_bytes().replace(b"gpu.example.com", b"old.example.com"))
    node.restart()
    assert node.claims.prepared == [structs.replace(claim, driver="old.example.com")]
    assert node.claims.problem == (
        "1 claims of old.example.com are prepared and the driver is gpu.example.com now: put the"
        " old `dra.driver` back until they are gone, else their Pods cannot end"
    )
    assert "still prepared" in node.refused("b", result("gpu-0"))
    (node.cdi / node.files()[0]).unlink()
    node.claims.renew()
    assert b"old.example.com/claim" in (node.cdi / node.files()[0]).read_bytes()
