"""Folders that are not there yet, or not the same any more. Only events can tell in time here."""

import shutil
import subprocess

import pytest

X = "example.com/x"


@pytest.fixture(params=["/dev/a/b/c/x", "/dev/a/b/c/x*", "/dev/a/*/c/x"])
def daemon(request, node):
    return node.start({"x": [{"path": node.path(request.param)}]})


def test_made_level_by_level(node, kubelet, daemon):
    kubelet.until(X, {})
    for path in ("/dev/a", "/dev/a/b", "/dev/a/b/c"):
        node.at(path).mkdir()
    node.add("/dev/a/b/c/x")
    kubelet.healthy(X)


def test_made_all_at_once_and_again(node, kubelet, daemon):
    kubelet.until(X, {})
    for _ in range(3):
        node.at("/dev/a/b/c").mkdir(parents=True)
        node.add("/dev/a/b/c/x")
        (id_,) = kubelet.healthy(X)
        shutil.rmtree(node.at("/dev/a"))
        kubelet.until(X, {id_: "Unhealthy"})


@pytest.fixture
def one(node, kubelet):
    """A daemon on one node, and the node's ID."""
    node.at("/dev/a/b").mkdir(parents=True)
    node.add("/dev/a/b/x")
    daemon = node.start({"x": [{"path": node.path("/dev/a/b/x*")}]})
    (id_,) = kubelet.healthy(X)
    return daemon, id_


def test_renamed_away_and_back(node, kubelet, one):
    _, id_ = one
    for _ in range(3):
        node.at("/dev/a/b").rename(node.at("/dev/a/away"))
        kubelet.until(X, {id_: "Unhealthy"})
        node.at("/dev/a/away").rename(node.at("/dev/a/b"))
        kubelet.until(X, {id_: "Healthy"})


def test_replaced_by_rename(node, kubelet, one):
    _, id_ = one
    node.at("/dev/a/new").mkdir()
    node.at("/dev/a/b").rename(node.at("/dev/a/old"))
    node.at("/dev/a/new").rename(node.at("/dev/a/b"))
    kubelet.until(X, {id_: "Unhealthy"})
    node.add("/dev/a/b/x")
    kubelet.until(X, {id_: "Healthy"})
    node.add("/dev/a/old/x2")
    node.add("/dev/a/b/x3")
    assert len(kubelet.healthy(X, 2)) == 2, "the old folder means nothing"


def test_replaced_by_a_file_and_by_a_folder_again(node, kubelet, one):
    daemon, id_ = one
    shutil.rmtree(node.at("/dev/a/b"))
    node.at("/dev/a/b").write_text("")
    kubelet.until(X, {id_: "Unhealthy"})
    node.at("/dev/a/b").unlink()
    node.at("/dev/a/b").mkdir()
    node.add("/dev/a/b/x")
    kubelet.until(X, {id_: "Healthy"})
    assert not daemon.log("not all folders are watched, the audit looks instead")


def test_a_linked_folder_is_turned_to_another(node, kubelet):
    for name in "pq":
        node.at(f"/dev/{name}").mkdir()
        node.add(f"/dev/{name}/x-{name}")
    link = node.at("/dev/a")
    link.symlink_to("p")
    node.start({"x": [{"path": node.path("/dev/a/x*")}]})
    (first,) = kubelet.healthy(X)
    link.unlink()
    link.symlink_to("q")
    kubelet.wait_for(lambda k: sorted(k.devices(X).values()) == ["Healthy", "Unhealthy"])
    assert kubelet.devices(X)[first] == "Unhealthy"
    node.add("/dev/q/x-new")
    kubelet.wait_for(lambda k: len(k.devices(X)) == 3)


def test_come_and_gone_a_hundred_times(node, kubelet):
    """The same inode number comes again and again, which must not be taken for the same folder."""
    node.start({"x": [{"path": node.path("/dev/a/x")}]})
    kubelet.until(X, {})
    for _ in range(100):
        node.at("/dev/a").mkdir()
        node.at("/dev/a").rmdir()
    node.at("/dev/a").mkdir()
    node.add("/dev/a/x")
    (id_,) = kubelet.healthy(X)
    node.at("/dev/a/x").unlink()
    kubelet.until(X, {id_: "Unhealthy"})


def test_renamed_further_up_is_left_to_the_audit(node, kubelet):
    node.at("/dev/a/b").mkdir(parents=True)
    node.add("/dev/a/b/x")
    node.start({"x": [{"path": node.path("/dev/a/b/x*")}]}, audit_interval="200ms")
    (id_,) = kubelet.healthy(X)
    node.at("/dev/a").rename(node.at("/dev/away"))
    kubelet.until(X, {id_: "Unhealthy"})
    node.at("/dev/away").rename(node.at("/dev/a"))
    kubelet.until(X, {id_: "Healthy"})


@pytest.fixture
def mounted(node):
    """A folder on a file system of its own."""
    folder = node.at("/dev/m")
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", folder], stderr=subprocess.DEVNULL, check=False)


@pytest.mark.root
def test_unmounted(node, kubelet, mounted):
    """The watch goes with the file system."""
    node.add("/dev/m/x")
    node.start({"x": [{"path": "/dev/m/x"}]})
    (id_,) = kubelet.healthy(X)
    subprocess.run(["umount", mounted], check=True)
    kubelet.until(X, {id_: "Unhealthy"})
    node.add("/dev/m/x")
    kubelet.until(X, {id_: "Healthy"})
