"""The config in use: what a changed file changes, and what a bad one does not."""

import os
import shutil
from pathlib import Path

import pytest

from device_plugin import config
from device_plugin.reload import ConfigInUse

GOOD = "version: 1\nresources:\n"


def resource(name, devices="[{virtual: {count: 1}}]"):
    return f"  - {{name: example.com/{name}, devices: {devices}}}\n"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "config.yaml"


@pytest.fixture
def in_use(file):
    file.write_text(GOOD + resource("a") + resource("b"))
    return ConfigInUse(file, config.read(file))


def names(in_use):
    return [r.name.removeprefix("example.com/") for r in in_use.config.resources]


def test_an_unchanged_file_changes_nothing(file, in_use):
    before = in_use.sha256
    file.write_text(file.read_text())
    assert in_use.reread() is None
    assert (in_use.sha256, in_use.sha256_read, in_use.well) == (before, before, True)


def test_a_changed_file_is_taken(file, in_use):
    before, sha256 = in_use.config, in_use.sha256
    file.write_text(GOOD + resource("c"))
    assert in_use.reread() is before
    assert names(in_use) == ["c"]
    assert in_use.sha256 != sha256
    assert in_use.reread() is None


@pytest.mark.parametrize("text", ["", "version: 1", "version: 2\n", "resources: [", "\0"])
def test_a_bad_file_keeps_the_last_good_config(file, in_use, text):
    good, sha256 = file.read_text(), in_use.sha256
    file.write_text(text)
    assert in_use.reread() is None
    assert names(in_use) == ["a", "b"]
    assert (in_use.sha256, in_use.well) == (sha256, False)
    (problem,) = in_use.problems
    assert problem.startswith(f"config: the last good one is in use: {file}:")
    file.write_text(good)
    in_use.reread()
    assert (in_use.problems, in_use.well, in_use.sha256) == ([], True, sha256)


def test_a_file_that_is_gone_or_a_pipe_keeps_the_last_good_config(file, in_use):
    file.unlink()
    assert in_use.reread() is None
    os.mkfifo(file)
    assert in_use.reread() is None
    assert names(in_use) == ["a", "b"]
    assert "this is a pipe" in in_use.problems[0]


def test_a_resource_that_the_file_spoils_stays_as_it_was(file, in_use):
    old = in_use.config.resources[0]
    file.write_text(GOOD + resource("a", "[]") + resource("b", "[{path: /dev/b}]"))
    assert in_use.reread() is not None
    assert names(in_use) == ["b", "a"]
    assert in_use.config.resources[1] is old
    (problem,) = in_use.problems
    assert problem.startswith(f"example.com/a: kept as it was: {file}:3:")
    assert not in_use.well


def test_a_new_resource_with_a_mistake_is_left_out(file, in_use):
    file.write_text(GOOD + resource("b") + resource("c", "[]"))
    assert in_use.reread() is not None
    assert names(in_use) == ["b"]
    assert in_use.problems[0].startswith(f"example.com/c: left out: {file}:4:")


def test_only_what_is_still_in_the_file_is_kept(file, in_use):
    file.write_text(GOOD + resource("b") + resource("a", "[]"))
    in_use.reread()
    assert names(in_use) == ["b", "a"]
    file.write_text(GOOD + resource("b"))
    in_use.reread()
    assert names(in_use) == ["b"]


def test_the_folders_of_a_mounted_config_map(tmp_path):
    """config.yaml -> ..data/config.yaml, ..data -> ..1: a swap of ..data changes the file."""
    data = tmp_path / "..1"
    data.mkdir()
    (data / "config.yaml").write_text(GOOD + resource("a"))
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "config.yaml").symlink_to("..data/config.yaml")
    for path in (tmp_path / "config.yaml", tmp_path):
        folders = ConfigInUse(path, config.read(path)).folders
        folders = {os.path.realpath(folder) for folder in folders}
        assert folders - {str(tmp_path.parent)} == {str(tmp_path), str(data)}


def test_an_unchanged_file_is_not_parsed(file, in_use, monkeypatch):
    monkeypatch.setattr(config, "read", lambda _: pytest.fail("parsed"))
    assert in_use.reread() is None


def test_more_than_can_be_served_with_what_was_dropped_waits(file, in_use):
    served = [f"example.com/r{i}" for i in range(config.MAX_RESOURCES)]
    file.write_text(GOOD + resource("new"))
    for _ in range(2):
        assert in_use.reread(served) is None
        assert "these are 129; 128 are served at most" in in_use.problems[0]
    assert in_use.reread(served[1:]) is not None
    assert names(in_use) == ["new"]
    assert in_use.problems == []


def test_links_in_a_circle_end(tmp_path, file, in_use):
    file.unlink()
    file.symlink_to("config.yaml")
    assert in_use.reread() is None
    assert in_use.folders == {str(tmp_path)}


def test_a_link_on_the_way_to_the_file_is_watched_too(tmp_path):
    """A release folder that is swapped: app -> v1, and the config below it."""
    (tmp_path / "v1" / "etc").mkdir(parents=True)
    (tmp_path / "v1" / "etc" / "c.yaml").write_text(GOOD + resource("a"))
    (tmp_path / "app").symlink_to("v1")
    for path in (tmp_path / "app" / "etc" / "c.yaml", tmp_path / "app" / "etc"):
        folders = ConfigInUse(path, config.read(path)).folders
        assert {str(tmp_path), str(tmp_path / "v1" / "etc")} <= folders


def test_a_path_back_through_a_link_leads_where_the_kernel_goes(tmp_path):
    (tmp_path / "far" / "sub").mkdir(parents=True)
    (tmp_path / "far" / "c.yaml").write_text(GOOD + resource("a"))
    (tmp_path / "near").mkdir()
    (tmp_path / "near" / "link").symlink_to("../far/sub")
    path = tmp_path / "near" / "link" / ".." / "c.yaml"
    assert str(tmp_path / "far") in ConfigInUse(path, config.read(path)).folders


def test_a_relative_path_outlives_its_folder(tmp_path, monkeypatch):
    """Whoever removed it also removed where the process stands."""
    there = tmp_path / "there"
    there.mkdir()
    (there / "c.yaml").write_text(GOOD + resource("a"))
    monkeypatch.chdir(there)
    in_use = ConfigInUse(Path("c.yaml"), config.read(Path("c.yaml")))
    shutil.rmtree(there)
    assert in_use.folders == {str(tmp_path)}
    assert in_use.reread() is None
