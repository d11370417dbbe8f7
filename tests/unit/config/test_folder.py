"""A folder of files is one config."""

import hashlib
import itertools
import os
import threading
import time
from pathlib import Path

import pytest

from device_plugin.config import Config, Dra, Resource, Selector, fingerprint, read, source

TOO_LARGE = "the files of the folder are larger than 1 MiB together"
HEAD = "version: 1\nresources:\n"
A = "- {name: example.com/a, devices: [{path: /dev/a}]}\n"
B = "- {name: example.com/b, devices: [{path: /dev/b}]}\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Write files, by name; what is read names them below `conf`."""
    monkeypatch.chdir(tmp_path)
    path = (tmp_path / "conf").relative_to(tmp_path)

    def write(files):
        path.mkdir(exist_ok=True)
        for name, text in files.items():
            (path / name).write_text(text)
        return path

    return write


def said(path):
    """The problems, with the resource that is refused for each."""
    return [
        f"{problem.resource}: {problem}" if problem.resource else str(problem)
        for problem in read(path).problems
    ]


def test_files_are_merged_in_name_order(folder):
    path = folder(
        {
            "20.yml": HEAD + B,
            "10.yaml": HEAD + A,
            "00.yaml": "version: 1\naudit_interval: 5s\n",
            "30.yaml": "version: 1\nremoved_grace: 2m\nresources: []\n",
        }
    )
    checked = read(path)
    assert checked.problems == ()
    assert checked.config == Config(
        version=1,
        resources=(
            Resource("example.com/a", (Selector(path="/dev/a"),)),
            Resource("example.com/b", (Selector(path="/dev/b"),)),
        ),
        audit_interval=5,
        removed_grace=120,
    )


def test_what_is_no_file_of_it_is_not_read(folder):
    path = folder({"a.yaml": HEAD + A, ".b.yaml": "][", "c.yaml~": "][", "d.json": "][", "e": "]["})
    (path / "..data").mkdir()
    (path / ".f.yaml").mkdir()
    (path / "more").mkdir()
    assert said(path) == []


def test_a_config_map_as_kubernetes_mounts_it(folder):
    path = folder({})
    (path / "..2026_11_29").mkdir()
    (path / "..2026_11_29" / "a.yaml").write_text(HEAD + A)
    (path / "..data").symlink_to("..2026_11_29")
    (path / "a.yaml").symlink_to("..data/a.yaml")
    assert said(path) == []


def test_one_file_in_a_folder_is_as_the_file(folder):
    path = folder({"a.yaml": "version: 1\n"})
    assert said(path) == said(path / "a.yaml") == ["conf/a.yaml:1:1: `resources` is missing"]


def cases():
    """Yield name, files and expected lines of each case of folders.txt."""
    for case in Path(__file__).with_name("folders.txt").read_text().split("\n## ")[1:]:
        name, *lines = case.strip("\n").split("\n")
        files, expected = {}, []
        for line in lines:
            if line.startswith("@ "):
                files[line[2:]] = ""
            elif line.startswith("=> "):
                expected.append(line[3:])
            else:
                files[list(files)[-1]] += f"{line}\n"
        yield pytest.param(files, expected, id=name)


@pytest.mark.parametrize(("files", "expected"), [*cases()])
def test_problems(folder, files, expected):
    path = folder(files)
    assert said(path) == expected
    assert read(path).config is None


def test_a_driver_is_that_of_all_files(folder):
    by_claim = A.replace("devices:", "api: dra, devices:")
    path = folder({"a.yaml": HEAD + by_claim, "b.yaml": "version: 1\ndra: {driver: a.b}\n"})
    assert said(path) == []
    assert read(path).config == Config(
        version=1,
        resources=(Resource("example.com/a", (Selector(path="/dev/a"),), api="dra"),),
        dra=Dra("a.b"),
    )


HALF = "#" * (1 << 19) + "\n"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {"a.yaml": HEAD + A, "b.yaml": HALF, "c.yaml": HALF},
            ["conf/b.yaml:1:1: the file holds only comments", f"conf:1:1: {TOO_LARGE}"],
        ),
        ({"a.yaml": HALF * 2}, ["conf/a.yaml:1:1: the file is larger than 1 MiB"]),
        (
            {f"{number}.yaml": "x" for number in range(101)},
            ["conf:1:1: the folder holds 101 files; at most 100 are read"],
        ),
    ],
    ids=["larger than a config may be", "one is", "too many files"],
)
def test_limits(folder, files, expected):
    assert said(folder(files)) == expected


def test_files_that_cannot_be_read(folder):
    path = folder({"a.yaml": HEAD + A})
    (path / "b.yaml").mkdir()
    os.mkfifo(path / "c.yaml")
    (path / "d.yaml").symlink_to("..data/d.yaml")
    assert said(path) == [
        "conf/b.yaml:1:1: this is a folder; move its files up, or rename it",
        "conf/c.yaml:1:1: this is a pipe, not a file",
        "conf/d.yaml:1:1: cannot read the file: No such file or directory",
    ]


def test_a_folder_that_cannot_be_read(folder, monkeypatch):
    path = folder({"a.yaml": HEAD + A})

    def refuse(_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "listdir", refuse)  # root reads everything
    assert said(path) == ["conf:1:1: cannot read the folder: Permission denied"]


def test_names_of_files_are_shown_printably(folder):
    path = folder({"a\x1b[31m.yaml": "version: 2\n", "b.yaml": HEAD + B})
    (problem,) = read(path).problems
    assert problem.file.isprintable()
    assert problem.message == "`version` must be 1, not 2"


def test_a_mistake_in_one_resource_leaves_the_others(folder):
    path = folder({"a.yaml": HEAD + A.replace("path", "pth"), "b.yaml": HEAD + B})
    checked = read(path)
    assert checked.config is not None
    assert [resource.name for resource in checked.config.resources] == ["example.com/b"]
    assert checked.refused == {"example.com/a"}


def test_too_many_resources_are_counted_over_all_files(folder):
    one = "- {{name: example.com/r{0}, devices: [{{path: /dev/x{0}}}]}}\n"
    files = {
        f"{file}.yaml": HEAD + "".join(one.format(n) for n in range(43 * file, 43 * file + 43))
        for file in range(3)
    }
    (problem,) = said(folder(files))
    assert problem.startswith("conf/2.yaml:3:1: more than 128 resources: ")


def test_the_fingerprint_of_a_file_is_its_sha256(tmp_path):
    file = tmp_path / "c.yaml"
    for text in (HEAD + A, "][", ""):
        file.write_text(text)
        digest = hashlib.sha256(text.encode()).hexdigest()
        assert fingerprint(file) == read(file).fingerprint == digest


def test_a_fingerprint_tells_any_change(folder):
    path = folder({"a.yaml": HEAD + A, "b.yaml": HEAD + B})
    seen = [fingerprint(path)]

    def changed():
        now = fingerprint(path)
        assert read(path).fingerprint == now
        assert fingerprint(path) == now
        seen.append(now)
        return len(set(seen)) == len(seen)

    (path / "b.yaml").write_text(HEAD + B + "# x")
    assert changed()
    (path / "b.yaml").rename(path / "c.yaml")
    assert changed()
    (path / "a.yaml").rename(path / "d.yaml")
    assert changed(), "the order of what they hold"
    (path / "e.yaml").write_text("")
    assert changed()
    (path / "e.yaml").unlink()
    (path / "e.yaml").mkdir()
    assert changed()
    (path / "e.yaml").rmdir()
    (path / "e.yaml").symlink_to("gone")
    assert changed()
    for file in path.iterdir():
        file.unlink()
    assert changed()
    path.rmdir()
    assert changed()
    path.write_text(HEAD + A)
    assert changed(), "a file where the folder was"
    path.unlink()
    path.mkdir()
    assert not changed(), "as empty as before"


def test_a_fingerprint_passes_over_what_is_not_read(folder):
    path = folder({"a.yaml": HEAD + A})
    before = fingerprint(path)
    (path / "README").write_text("x")
    (path / ".a.yaml.swp").write_text("x")
    assert fingerprint(path) == before


@pytest.mark.parametrize("swaps", [{1}, {2}, {1, 3}, {1, 4}, {2, 3, 5}])
def test_a_config_map_is_never_read_half(folder, monkeypatch, swaps):
    """Resources that move between files are not missed, nor seen twice, when it is swapped."""
    path = folder({})
    for version, places in enumerate((("a", "b"), ("b", "a"))):
        (path / f"..{version}").mkdir()
        for place, resource in zip(places, (A, B), strict=True):
            (path / f"..{version}" / f"{place}.yaml").write_text(HEAD + resource)
    (path / "..data").symlink_to("..0")
    for name in ("a.yaml", "b.yaml"):
        (path / name).symlink_to(f"..data/{name}")
    read_file, count, versions = source._file, itertools.count(1), itertools.cycle("10")

    def read_and_swap(file, limit):
        one = read_file(file, limit)
        if next(count) in swaps:
            (path / "..new").symlink_to(f"..{next(versions)}")
            (path / "..new").rename(path / "..data")
        return one

    monkeypatch.setattr(source, "_file", read_and_swap)
    config = read(path).config
    assert config is not None
    assert sorted(one.name for one in config.resources) == ["example.com/a", "example.com/b"]


def test_a_folder_that_never_rests_is_read_all_the_same(folder, monkeypatch):
    path = folder({"a.yaml": HEAD + A})
    readings = iter(range(100))
    monkeypatch.setattr(source, "_folder", lambda _: [source.Source(str(next(readings)))])
    (last,) = source.load(path)
    assert last.name == "10"


def _read_until_both(path):
    """Read often, and on a busy machine for longer, until good and bad answers have come."""
    answers: set[bool] = set()
    fingerprints: set[str] = set()
    reads, deadline = 0, time.monotonic() + 20
    while reads < 300 or (len(answers) < 2 and time.monotonic() < deadline):
        answers.add(bool(read(path).config))
        fingerprints.add(fingerprint(path))
        reads += 1
    return answers, fingerprints


def test_whatever_happens_to_it_meanwhile_reading_it_gives_an_answer(tmp_path):
    """Replaced, half written, swapped for a folder, gone: a config, or what is wrong."""
    path, stop = tmp_path / "c.yaml", threading.Event()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.yaml").write_text(HEAD + A)

    def half_written():
        path.write_text((HEAD + A)[:-20])

    def whole():
        (tmp_path / "new").write_text(HEAD + A)
        (tmp_path / "new").replace(path)

    def folder_instead():
        path.unlink()
        (tmp_path / "folder").rename(path)

    def gone():
        path.rename(tmp_path / "folder")

    def keep_changing():
        for change in itertools.cycle((half_written, whole, folder_instead, gone)):
            change()
            if stop.wait(0.001):
                return

    changing = threading.Thread(target=keep_changing)
    changing.start()
    try:
        answers, fingerprints = _read_until_both(path)
    finally:
        stop.set()
        changing.join()
    assert answers == {True, False}
    assert len(fingerprints) > 1
