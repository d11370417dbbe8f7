"""Whatever happens in whatever order: in the end the kubelet knows what is."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from random import Random

import pytest

X = [f"example.com/x{n}" for n in range(3)]


class Tree:
    """Changes a small /dev at random; what cannot be done at the moment is left out."""

    def __init__(self, node, seed):
        self.node = node
        self.random = Random(seed)  # noqa: S311
        self.steps = (self.folder, self.leaf, self.leaf, self.gone, self.link, self.rename)

    def step(self):
        with suppress(OSError):
            self.random.choice(self.steps)()

    def one_of(self, *paths):
        return self.node.at(self.random.choice(paths))

    def folder(self):
        self.one_of("/dev/a/p", "/dev/a/q", "/dev/b/c").mkdir(parents=True)

    def leaf(self):
        folders = ("/dev/a/p/x", "/dev/a/q/x", "/dev/l/y", "/dev/b/c/z", "/dev/v", "/dev/w")
        self.node.add(f"{self.random.choice(folders)}{self.random.randrange(2)}")

    def gone(self):
        path = self.one_of("/dev/a", "/dev/a/p", "/dev/a/q/x0", "/dev/b", "/dev/b/c/z1", "/dev/v0")
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    def link(self):
        link = self.node.at("/dev/l")
        link.unlink(missing_ok=True)
        link.symlink_to(self.random.choice(("a/p", "a/q", "b/c", "nowhere", "l")))

    def rename(self):
        names = ["/dev/a/p", "/dev/a/q"]
        self.random.shuffle(names)
        self.node.at(names[0]).rename(self.node.at(names[1]))


@pytest.mark.parametrize("seed", range(2))
def test_changes_of_a_tree(node, kubelet, seed):
    """Events alone lead to what a new process would find."""
    paths = ("/dev/a/*/x*", "/dev/l/y*", "/dev/b/c/z{n}")
    selectors = [{"path": node.path(path)} for path in paths]
    selectors.append({"path": node.path("/dev/w{n}"), "with": [node.path("/dev/v{n}")]})
    node.start({"x0": selectors})
    kubelet.until(X[0], {})
    tree = Tree(node, seed)
    for steps in (3, 30, 300, 3):
        for _ in range(steps):
            tree.step()
        expected = _discovered(node)
        kubelet.wait_for(lambda k, expected=expected: _healthy(k.devices(X[0])) == expected)


def _healthy(devices):
    return {id_ for id_, health in devices.items() if health == "Healthy"}


def _discovered(node):
    command = [sys.executable, "-m", "device_plugin", "discover", "-o", "json"]
    command += ["--config", node.folder / "config.yaml", "--host-root", node.host_root]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    (resource,) = found["resources"]
    return _healthy({device["id"]: device["health"] for device in resource["devices"]})


@pytest.mark.parametrize("behaviour", ["1.36", "1.37"])
def test_mishaps_at_the_kubelet(node, behaviour):
    kubelet = node.kubelet(behaviour=behaviour)
    paths = [node.add(f"/dev/x{n}") for n in range(len(X))]
    node.start({path.name: [{"path": node.path(f"/dev/{path.name}")}] for path in paths})
    for resource in X:
        kubelet.healthy(resource)
    chance = Random(1)  # noqa: S311
    for _ in range(6):
        for _ in range(10):
            with suppress(LookupError, FileNotFoundError):  # nobody is there to be harmed
                _mishap(chance, node, kubelet, paths)
        kubelet.release_registration()
        kubelet.accept_registration()
        for path, resource in zip(paths, X, strict=True):
            _wait_until_told(kubelet, resource, path)
    for resource in X:
        names = [one.endpoint for one in kubelet.good(resource)]
        assert len(set(names)) == len(names), "a socket comes again"


def _mishap(chance, node, kubelet, paths):
    path, resource = chance.choice(paths), chance.choice(X)
    chance.choice(
        (
            path.unlink,
            lambda: os.path.lexists(path) or node.add(f"/dev/{path.name}"),
            kubelet.restart,
            kubelet.replace_socket,
            lambda: kubelet.delete_socket(resource),
            lambda: kubelet.cancel_stream(resource),
            lambda: kubelet.hold_registration(chance.choice(("arrival", "reply"))),
            kubelet.release_registration,
            lambda: kubelet.refuse_registration("not now", times=1),
        )
    )()


def _wait_until_told(kubelet, resource, path):
    healths = ["Healthy" if os.path.lexists(path) else "Unhealthy"]
    kubelet.wait_for(
        lambda k: k.settled(resource) and list(k.devices(resource).values()) == healths, timeout=8
    )
