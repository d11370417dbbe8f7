"""Look.folders: a change that alters an answer happens in a watched folder, or ends one."""

import contextlib
import os
import shutil
import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from device_plugin.host import Host, Look, Unusable

NAMES = ("a", "b", "c")

paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join).map("/".__add__)
targets = st.one_of(
    paths,
    st.lists(st.sampled_from((*NAMES, "..", ".")), min_size=1, max_size=4).map("/".join),
)
steps = st.one_of(
    st.tuples(st.sampled_from(("file", "folder", "fifo", "delete")), paths, st.none()),
    st.tuples(st.just("link"), paths, targets),
    st.tuples(st.just("relink"), paths, targets),
    st.tuples(st.just("rename"), paths, paths),
)


def change(root: Path, step: tuple[str, str, str | None]) -> None:
    """Do it as far as it can be done."""
    kind, path, other = step
    at = root / path[1:]
    with contextlib.suppress(OSError):
        if kind == "file":
            at.touch()
        elif kind == "folder":
            at.mkdir(parents=True)
        elif kind == "fifo":
            os.mkfifo(at)
        elif kind == "delete":
            shutil.rmtree(at) if at.is_dir() and not at.is_symlink() else at.unlink()
        elif kind == "rename":
            at.rename(root / str(other)[1:])
        else:
            if kind == "relink":
                at.unlink()
            at.symlink_to(str(other))


def answer(look: Look, path: str) -> object:
    try:
        entry = look.entry(path)
    except Unusable as why:
        return str(why)
    return entry.real, stat.S_IFMT(entry.mode)


def names(look: Look, path: str) -> object:
    try:
        return sorted(look.names(path))
    except Unusable as why:
        return str(why)


def contents(root: Path, folder: str) -> object:
    """What inotify would tell of: whether it is still the same folder, and what is in it.

    That a folder above was renamed it would not tell; this counts it as if it did.
    """
    at = root / folder[1:]
    try:
        entries = {
            name: (os.lstat(at / name), os.readlink(at / name) if (at / name).is_symlink() else "")
            for name in os.listdir(at)
        }
        return at.stat().st_ino, {n: (s.st_ino, s.st_mode, to) for n, (s, to) in entries.items()}
    except OSError:
        return None


@pytest.mark.parametrize("ask", [answer, names])
@given(built=st.lists(steps, max_size=12), path=paths, mutation=steps)
@example(built=[("folder", "/a/b", None)], path="/a/b", mutation=("delete", "/a/b", None))
@example(built=[("folder", "/a/b", None)], path="/a/b/c/c", mutation=("folder", "/a/b/c/c", None))
@example(
    built=[("folder", "/a", None), ("folder", "/b/a", None), ("link", "/a/c", "../b/a")],
    path="/a/c/b",
    mutation=("rename", "/b/a", "/b/b"),
)
@example(
    built=[("file", "/a", None)],
    path="/a/b",
    mutation=("rename", "/a", "/c"),
)
def test_a_change_that_alters_an_answer_is_seen_in_a_watched_folder(ask, built, path, mutation):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for step in built:
            change(root, step)
        look = Host(folder).look()
        before = ask(look, path)
        watched = {name: contents(root, name) for name in look.folders}
        change(root, mutation)
        if ask(Host(folder).look(), path) != before:
            assert any(contents(root, name) != seen for name, seen in watched.items())


@given(built=st.lists(steps, max_size=12), path=paths)
def test_watched_folders_are_folders_by_their_real_paths(built, path):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for step in built:
            change(root, step)
        look = Host(folder).look()
        answer(look, path)
        names(look, path)
        for watched in look.folders:
            at = root / watched[1:]
            assert at.is_dir()
            assert at == at.resolve()


def test_only_what_matters_is_watched(tree):
    tree.node("/dev/ttyUSB0")
    tree.link("/dev/serial/by-id/stick", "../../ttyUSB0")
    tree.node("/dev/net/tun")
    for path, folders in {
        "/dev/serial/by-id/stick": {"/dev/serial/by-id", "/dev"},
        "/dev/net/tun": {"/dev/net"},
        "/dev/net/gone": {"/dev/net"},
        "/dev/gone/x/y": {"/dev"},
        "/gone": {"/"},
    }.items():
        look = tree.host.look()
        answer(look, path)
        assert look.folders == folders
    look = tree.host.look()
    look.names("/dev/net")
    assert look.folders == {"/dev/net"}
