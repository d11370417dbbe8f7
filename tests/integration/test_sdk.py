"""The example of docs/sdk.md, installed as a package and used as its users would."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ACME = Path(__file__).parents[2] / "examples" / "acme"
RESOURCE = "acme.example.com/grabber"


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """A folder in which the example is installed."""
    source = shutil.copytree(ACME, tmp_path_factory.mktemp("source") / "acme")
    target = tmp_path_factory.mktemp("packages")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    offline = ["--no-index", "--no-build-isolation", "--no-deps"]
    subprocess.run([*pip, *offline, "--target", target, source], check=True, timeout=60)
    return target


@pytest.fixture
def installed(packages, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(packages))


class Cards:
    """What the driver of the imaginary cards says below a host root."""

    def __init__(self, node):
        self.node = node
        self.folder = node.root / "sys/class/acme"
        self.folder.mkdir(parents=True)

    def add(self, number, model="FG-4", memory="4Gi"):
        device = self.node.root / f"sys/devices/pci0000:00/0000:00:0{number}.0/acme/acme{number}"
        device.mkdir(parents=True)
        (self.folder / f"acme{number}").symlink_to(os.path.relpath(device, self.folder))
        said = {"serial": f"sn{number}", "model": model, "firmware": "1.4.2", "memory": memory}
        for key, value in {**said, "state": "ok"}.items():
            (device / key).write_text(f"{value}\n")
        (device.parents[1] / "numa_node").write_text("1\n")
        self.node.add(f"/dev/acme{number}")
        return device


@pytest.fixture
def cards(node):
    return Cards(node)


def command(*words, host_root="/"):
    done = subprocess.run(
        [sys.executable, "-m", "device_plugin", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={**os.environ, "DEVICE_PLUGIN_HOST_ROOT": host_root},
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.root
@pytest.mark.usefixtures("installed")
def test_its_devices_are_offered_and_watched(node, kubelet, cards):
    cards.add(0)
    cards.add(1, model="FG-2")
    cards.add(2, memory="1Gi")
    daemon = node.start((ACME / "config.yaml").read_text())
    assert kubelet.healthy(RESOURCE) == ["acme-sn0"]
    _, created = kubelet.run(RESOURCE)
    assert [device.container_path for device in created.devices] == ["/dev/acme0"]
    assert created.envs["ACME_MODEL"] == "FG-4"
    node.at("/dev/acme0").unlink()
    kubelet.until(RESOURCE, {"acme-sn0": "Unhealthy"})
    daemon.wait_log("device unhealthy", device="acme-sn0", reason="/dev/acme0 does not exist")
    node.add("/dev/acme0")
    kubelet.until(RESOURCE, {"acme-sn0": "Healthy"})


@pytest.mark.root
@pytest.mark.usefixtures("installed")
def test_discover_shows_them(node, cards):
    cards.add(0)
    (cards.add(1) / "state").write_text("overheated\n")
    config = ACME / "config.yaml"
    code, out, err = command("discover", "--config", config, "-o", "json", host_root=node.host_root)
    assert code == 0
    assert "acme-sn1: its driver says overheated" in err
    [resource] = json.loads(out)["resources"]
    [found] = resource["devices"]
    assert found["id"] == "acme-sn0"
    assert found["numa_nodes"] == [1]
    assert found["attributes"] == {
        "model": "FG-4",
        "firmware": "1.4.2",
        "memory": "4Gi",
        "pcie_root": "pci0000:00",
        "numa": 1,
    }


@pytest.mark.usefixtures("installed")
def test_its_config_is_checked(tmp_path):
    assert command("check", ACME / "config.yaml")[0] == 0
    bad = tmp_path / "bad.yaml"
    bad.write_text((ACME / "config.yaml").read_text().replace("model:", "modell:"))
    code, _, err = command("check", bad)
    assert (code, err) == (
        2,
        f"{bad}:5:16: unknown key `modell`; did you mean `model`?\n",
    )


@pytest.mark.usefixtures("installed")
def test_editors_complete_it():
    _, out, _ = command("schema")
    assert json.loads(out)["$defs"]["acme.Acme"]["properties"]["model"]["description"] == (
        "Only this model, as its label has it; else all."
    )


def test_without_the_package_its_key_is_unknown():
    code, _, err = command("check", ACME / "config.yaml")
    assert code == 2
    assert "unknown key `acme`; there are `path`, " in err
