"""What docs/install.md shows works as it stands there."""

import re
import shutil

import yaml
from rendered import BASE, ROOT, configs, helm, kustomize, one

DOCUMENT = (ROOT / "docs" / "install.md").read_text()


def block(language):
    (only,) = re.findall(rf"```{language}\n(.*?)```", DOCUMENT, re.DOTALL)
    return only


def test_the_overlay(tmp_path):
    """It stands on a checkout beside it."""
    shutil.copytree(ROOT / "manifests", tmp_path / "device-plugin" / "manifests")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "kustomization.yaml").write_text(block("yaml"))
    (mine / "config.yaml").write_text("version: 1\nresources: []\n")
    found = kustomize(mine)
    assert configs(found) == ["version: 1\nresources: []\n"]
    spec = one(found, "DaemonSet")["spec"]["template"]["spec"]
    assert spec["containers"][0]["image"].startswith("registry.example.com/device-plugin:")
    assert "/var/lib/k0s/kubelet/pod-resources" in str(spec["volumes"])


def test_the_values():
    found = helm(yaml.safe_load(block("yml")))
    assert "PodMonitor" in {thing["kind"] for thing in found}


def test_the_folders_that_it_names():
    """Those of the table, below manifests/, and all of them."""
    named = set(re.findall(r"^\| `([a-z/-]+)(?:/\.\.\.)?` \|", DOCUMENT, re.MULTILINE))
    for folder in named:
        assert (ROOT / "manifests" / folder).is_dir(), folder
    assert named >= {path.name for path in [BASE]} | {
        f"overlays/{path.name}" for path in (ROOT / "manifests" / "overlays").iterdir()
    }


def test_a_config_of_several_files(tmp_path):
    """As it says of `files`: a key each, and the folder is what the daemon reads."""
    shutil.copytree(BASE, tmp_path / "base")
    mine = tmp_path / "mine"
    mine.mkdir()
    (files,) = re.findall(r"`files: \[([^]]*)\]`", DOCUMENT)
    for name in files.split(", "):
        (mine / name).write_text("version: 1\n")
    generated = {"name": "device-plugin", "behavior": "replace", "files": files.split(", ")}
    overlay = {
        "resources": ["../base"],
        "namespace": "device-plugin",
        "configMapGenerator": [generated],
    }
    (mine / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    assert set(one(kustomize(mine), "ConfigMap")["data"]) == set(files.split(", "))
