"""A folder is one device: which of the nodes below it a container gets, and where."""

import os

import pytest

from device_plugin.allocation import grant, shares
from device_plugin.config import Resource, Selector
from device_plugin.device import Node
from device_plugin.discovery import path as discovery
from device_plugin.listing import Listed, Snapshot


def found(tree, path="/dev/snd", **options):
    (candidate,) = discovery.find(tree.host.look(), Selector(path=path, **options)).candidates
    return candidate


def below(tree, path="/dev/snd", **options):
    """The nodes' places below the folder."""
    candidate = found(tree, path, **options)
    assert not candidate.problem
    folder = path.rstrip("/")
    return [node.host_path.removeprefix(f"{folder}/") for node in candidate.device.nodes]


def test_every_node_below_counts_in_natural_order(tree):
    for name in ("pcm10", "pcm2", "by/path/x", "seq"):
        tree.node(f"/dev/snd/{name}")
    tree.file("/dev/snd/README")
    tree.folder("/dev/snd/empty")
    assert below(tree) == ["by/path/x", "pcm2", "pcm10", "seq"]
    assert found(tree).owned == tuple(f"/dev/snd/{name}" for name in below(tree))
    assert found(tree).device.id == "snd"


def test_a_slash_at_the_end_makes_no_other_device(tree):
    tree.node("/dev/snd/seq")
    assert found(tree, "/dev/snd/") == found(tree, "/dev/snd")


def test_a_link_counts_only_where_it_leads_out(tree):
    tree.node("/dev/snd/seq")
    tree.node("/dev/dsp")
    tree.link("/dev/snd/by-path/to-seq", "../seq")
    tree.link("/dev/snd/dsp", "../dsp")
    tree.link("/dev/snd/gone", "nothing")
    tree.link("/dev/snd/loop", "loop")
    assert below(tree) == ["dsp", "seq"]
    assert found(tree).owned == ("/dev/dsp", "/dev/snd/seq")


def test_folders_behind_links_are_not_walked(tree):
    tree.node("/dev/snd/seq")
    tree.node("/dev/far/x")
    tree.link("/dev/snd/far", "/dev/far")
    tree.link("/dev/snd/self", ".")
    assert below(tree) == ["seq"]


def test_a_folder_reached_by_a_link_has_the_same_nodes(tree):
    tree.node("/dev/snd/seq")
    tree.node("/dev/snd/deep/er/x")
    tree.link("/dev/snd/to-seq", "seq")
    tree.link("/dev/sound", "snd")
    assert below(tree, "/dev/sound") == below(tree) == ["deep/er/x", "seq"]
    assert found(tree, "/dev/sound").owned == found(tree).owned


@pytest.mark.parametrize("name", ["", "file", "deep/er"])
def test_a_folder_without_nodes_is_no_device(tree, name):
    tree.folder("/dev/snd")
    if name:
        tree.file(f"/dev/snd/{name}")
    assert found(tree).problem == "/dev/snd is a folder without device nodes"


def test_hidden_nodes_count_and_unprintable_ones_do_not(tree):
    tree.node("/dev/snd/.hidden")
    tree.node("/dev/snd/a\nb")
    tree.node(f"/dev/snd/{os.fsdecode(bytes([255]))}/x")
    assert below(tree) == [".hidden"]


def test_a_folder_too_full_has_a_bound(tree):
    for i in range(1001):
        tree.node(f"/dev/snd/{i}")
    assert found(tree).problem == "/dev/snd has more than 1000 entries or 100 folders"
    tree.at("/dev/snd/7").unlink()
    assert len(below(tree)) == 1000


def test_a_folder_with_too_many_folders_has_a_bound(tree):
    tree.node("/dev/snd" + "/x" * 99)
    assert below(tree) == ["x/" * 98 + "x"]
    tree.folder("/dev/snd/y/z")
    assert found(tree).problem == "/dev/snd has more than 1000 entries or 100 folders"


def test_every_folder_below_is_watched(tree):
    tree.node("/dev/snd/by/path/x")
    look = tree.host.look()
    discovery.find(look, Selector(path="/dev/snd"))
    assert look.folders >= {"/dev/snd", "/dev/snd/by", "/dev/snd/by/path"}


def test_one_folder_a_match_with_its_captures(tree):
    tree.node("/dev/gpu0/a")
    tree.node("/dev/gpu1/a")
    tree.folder("/dev/gpu2")
    selector = Selector(path="/dev/gpu{n}/", to="/dev/gpu/{n}")
    candidates = discovery.find(tree.host.look(), selector).candidates
    assert [candidate.device.nodes for candidate in candidates] == [
        (Node("/dev/gpu0/a", "/dev/gpu/{n}/a"),),
        (Node("/dev/gpu1/a", "/dev/gpu/{n}/a"),),
        (),
    ]
    assert [candidate.problem for candidate in candidates] == [
        "",
        "",
        "/dev/gpu2 is a folder without device nodes",
    ]


def test_to_moves_the_whole_folder_and_braces_in_names_mean_nothing(tree):
    tree.node("/dev/gpu7/a/{x}")
    tree.node("/dev/gpu7/}{")
    device = found(tree, "/dev/gpu{n}/", to="/dev/{{in}}/{n}/{index}").device
    resource = Resource("example.com/gpu", ())
    given = shares(resource, Snapshot((Listed(device),)), [device.id])
    places = [node.to for node in grant(resource, given, tree.host.local).nodes]
    assert places == ["/dev/{in}/7/0/a/{x}", "/dev/{in}/7/0/}{"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look everywhere")
def test_a_folder_below_that_may_not_be_listed_is_a_problem(tree):
    tree.node("/dev/snd/seq")
    tree.folder("/dev/snd/closed")
    tree.at("/dev/snd/closed").chmod(0)
    assert "Permission denied" in found(tree).problem
    tree.at("/dev/snd/closed").chmod(0o700)
