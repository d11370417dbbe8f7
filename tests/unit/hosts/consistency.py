"""What holds on any machine, whatever happened to it: /sys and /dev tell the same story."""

import os
import stat
from collections import Counter
from pathlib import Path

from tests.unit.hosts.kernel import Entries, File, Folder, Link, Node
from tests.unit.hosts.machine import Machine


def check(machine: Machine) -> None:
    """Fails where two places contradict each other, or the disk does not have what it ought to."""
    entries = machine.entries()
    for path, entry in entries.items():
        assert isinstance(entries.get(os.path.dirname(path), Folder()), Folder), path
        if isinstance(entry, Link):
            assert end(entries, path) in entries, f"{path} -> {entry.target} leads nowhere"
    _check_nodes(entries)
    _check_subsystems(entries)
    _check_disk(machine, entries)


def end(entries: Entries, path: str) -> str:
    """Where a link leads; links in sysfs never lead to links."""
    entry = entries[path]
    assert isinstance(entry, Link)
    return os.path.normpath(os.path.join(os.path.dirname(path), entry.target))


def text(entries: Entries, path: str) -> str:
    entry = entries[path]
    assert isinstance(entry, File)
    return entry.data.decode()


def _check_nodes(entries: Entries) -> None:
    """Each `dev` has a node, a link in /sys/dev and its number in `uevent`, and no node is more."""
    nodes = {path: node for path, node in entries.items() if isinstance(node, Node)}
    said = []
    for path in entries:
        folder, name = os.path.split(path)
        if name == "dev" and folder.startswith("/sys/devices/"):
            number = text(entries, path).strip()
            properties = dict(
                line.split("=", 1) for line in text(entries, f"{folder}/uevent").splitlines()
            )
            assert f"{properties['MAJOR']}:{properties['MINOR']}" == number
            node = nodes[f"/dev/{properties['DEVNAME']}"]
            assert f"{node.major}:{node.minor}" == number
            which = "block" if node.letter == "b" else "char"
            assert end(entries, f"/sys/dev/{which}/{number}") == folder
            said.append(f"/dev/{properties['DEVNAME']}")
    ours = {path for path in nodes if not path.startswith("/dev/nvidia")}
    assert Counter(said) == Counter(ours)
    numbers = Counter((node.letter, node.major, node.minor) for node in nodes.values())
    assert max(numbers.values()) == 1, numbers.most_common(1)


def _check_subsystems(entries: Entries) -> None:
    """A device is listed by its subsystem, and what is listed is a device."""
    listed = {
        end(entries, path)
        for path, entry in entries.items()
        if isinstance(entry, Link)
        and (path.startswith("/sys/class/") or path.split("/")[4:5] == ["devices"])
        and path.startswith(("/sys/class/", "/sys/bus/"))
    }
    devices = {
        os.path.dirname(path)
        for path in entries
        if path.startswith("/sys/devices/") and path.endswith("/subsystem")
    }
    assert listed == devices


def _check_disk(machine: Machine, entries: Entries) -> None:
    for path, entry in entries.items():
        assert machine.at(path) == entry
        local = machine.local(path)
        mode = local.lstat().st_mode
        match entry:
            case Folder():
                assert stat.S_ISDIR(mode)
            case File(data):
                assert stat.S_ISREG(mode)
                assert not entry.mode & 0o400 or local.read_bytes() == data
            case Link(target):
                assert os.readlink(local) == target
            case Node(_, major, minor):  # a file where nobody may make one
                number = os.makedev(major, minor)
                assert stat.S_ISREG(mode) or local.lstat().st_rdev == number
    assert _on_disk(machine.root) == set(entries)


def _on_disk(root: Path) -> set[str]:
    return {
        f"/{os.path.relpath(os.path.join(folder, name), root)}"
        for folder, folders, files in os.walk(root)
        for name in (*folders, *files)
    }
