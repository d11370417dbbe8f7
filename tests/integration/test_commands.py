"""check, discover, allocate and demo, as their users call them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CONFIG = """
version: 1
resources:
  - name: example.com/null
    devices: [{path: /dev/null, replicas: 3, to: /dev/nothing}]
    container:
      env: {NOTHING: "{path}", WHO: "{id}"}
      mounts: [{host_path: /usr, path: /host/usr, read_only: true}]
      annotations: {example.com/id: "{id}"}
  - name: example.com/licence
    devices: [{virtual: {count: 2, attributes: {edition: full}, capacity: {memory: 80Gi}}}]
  - name: example.com/mount
    devices: [{virtual: {count: 1}}]
    container:
      mounts: [{host_path: /no-such-folder, path: /mnt}]
  - name: example.com/absent
    devices: [{path: /dev/no-such-device}]
"""


def command(*words: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "device_plugin", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={**os.environ, **(env or {})},
    )


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    return path


def test_check_counts_the_resources_of_a_good_file(config):
    done = command("check", config)
    assert (done.returncode, done.stdout) == (0, f"{config}: ok, 4 resources\n")


def test_check_lists_every_problem_with_its_place(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text("version: 2\nresources:\n  - name: gpu\n    devices: [{pth: /dev/null}]\n")
    done = command("check", path)
    places = [line.removeprefix(f"{path}:").split(": ")[0] for line in done.stderr.splitlines()]
    assert done.returncode == 2
    assert done.stdout == ""
    assert {"1:10", "3:11"} <= set(places)
    assert "did you mean `path`?" in done.stderr


def test_discover_prints_the_documented_json(config):
    done = command("discover", "--config", config, "-o", "json")
    null, licence, _, absent = json.loads(done.stdout)["resources"]
    assert null == {
        "name": "example.com/null",
        "devices": [
            {
                "id": "null",
                "health": "Healthy",
                "reason": "",
                "numa_nodes": [],
                "nodes": [{"host_path": "/dev/null", "path": "/dev/nothing", "permissions": "rw"}],
                "attributes": {},
                "replicas": 3,
            }
        ],
    }
    assert licence["devices"][0]["attributes"] == {"edition": "full", "memory": "80Gi"}
    assert absent["devices"] == []
    assert "example.com/absent: /dev/no-such-device matches nothing" in done.stderr


def test_discover_prints_a_table_of_at_most_100_columns(config):
    done = command("discover", "--config", config)
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["RESOURCE", "DEVICE", "REPLICAS", "NODES"]
    assert lines[1].split() == ["example.com/null", "null", "3", "/dev/null", "->", "/dev/nothing"]
    assert max(map(len, lines)) <= 100


@pytest.mark.root
def test_long_names_are_no_reason_for_a_wide_table(tmp_path):
    """Links of /dev/serial/by-id have such names; what fits no column goes on below it."""
    name = "usb-ITEAD_SONOFF_Zigbee_3.0_USB_Dongle_Plus_V2_20220812120430-if00"
    (tmp_path / "dev" / "serial" / "by-id").mkdir(parents=True)
    (tmp_path / "dev" / "serial" / "by-id" / name).symlink_to("../../null")
    os.mknod(tmp_path / "dev" / "null", 0o20666, os.makedev(1, 3))
    path = tmp_path / "config.yaml"
    path.write_text(
        "version: 1\nresources:\n- name: example.com/zigbee\n"
        "  devices: [{path: /dev/serial/by-id/*, to: '/dev/zigbee{index}'}]\n"
    )
    for words in (["discover"], ["explain", "example.com/zigbee"], ["explain", "/dev/null"]):
        done = command(*words, "--config", path, "--host-root", tmp_path)
        assert done.returncode == 0, done.stderr
        assert max(map(len, done.stdout.splitlines())) <= 100
        assert f"/dev/serial/by-id/{name}" in done.stdout


def test_discover_reads_below_the_host_root_and_prints_paths_without_it(tmp_path, config):
    (tmp_path / "host" / "dev").mkdir(parents=True)
    (tmp_path / "host" / "dev" / "null").symlink_to("gone")
    done = command("discover", "--config", config, "--host-root", tmp_path / "host", "-o", "json")
    assert json.loads(done.stdout)["resources"][0]["devices"] == []
    assert "null: /dev/null is a link to /dev/gone, which does not exist" in done.stderr
    assert str(tmp_path / "host") not in done.stdout + done.stderr


def test_a_missing_host_root_is_said(config):
    done = command("discover", "--config", config, "--host-root", "/no-such-folder")
    assert done.returncode == 2
    assert "/no-such-folder is no folder: is the host's /dev mounted below?" in done.stderr


def test_allocate_prints_the_response_as_protobuf_json(config):
    done = command("allocate", "--config", config, "example.com/null", "--count", 2, "-o", "json")
    assert json.loads(done.stdout) == {
        "envs": {"NOTHING": "/dev/nothing", "WHO": "null,null-r1"},
        "mounts": [{"containerPath": "/host/usr", "hostPath": "/usr", "readOnly": True}],
        "devices": [
            {"containerPath": "/dev/nothing", "hostPath": "/dev/null", "permissions": "rw"}
        ],
        "annotations": {"example.com/id": "null,null-r1"},
    }
    assert done.stderr == "numa: 2 of 3 of null\n"


@pytest.mark.parametrize("output", ["table", "yaml"])
def test_allocate_prints_other_forms(config, output):
    done = command("allocate", "--config", config, "example.com/null", "-o", output)
    assert done.returncode == 0
    assert "/dev/nothing" in done.stdout


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("example.com/null", "--count", "4"), "example.com/null: 4 asked for, 3 on this node"),
        (("example.com/absent",), "example.com/absent: /dev/no-such-device matches nothing"),
        (("example.com/nul",), "example.com/nul is not in the config"),
        (("example.com/mount",), "mount /no-such-folder of example.com/mount does not exist"),
    ],
)
def test_allocate_says_why_it_cannot(config, words, reason):
    done = command("allocate", "--config", config, *words)
    assert done.returncode == 1
    assert done.stdout == ""
    assert reason in done.stderr


def test_a_flag_is_read_from_the_environment_and_others_are_ignored(config):
    env = {
        "DEVICE_PLUGIN_CONFIG": str(config),
        "DEVICE_PLUGIN_OUTPUT": "json",
        "DEVICE_PLUGIN_PORT": "tcp://10.0.0.1:80",
    }
    assert len(json.loads(command("discover", env=env).stdout)["resources"]) == 4


def test_a_bad_value_from_the_environment_is_refused(config):
    done = command("run", "--config", config, env={"DEVICE_PLUGIN_LOG_LEVEL": "loud"})
    assert done.returncode == 2
    assert "from DEVICE_PLUGIN_LOG_LEVEL: 'loud': choose from debug, info, warning" in done.stderr


def test_a_resource_that_is_refused_is_not_said_to_be_missing(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG.replace("replicas: 3", "replica: 3"))
    for name in ("allocate", "explain"):
        done = command(name, "--config", path, "example.com/null")
        assert (done.returncode, done.stdout) == (2, "")
        assert "example.com/null is refused, for what is said above" in done.stderr


def test_the_demo_breaks_and_heals_a_real_device():
    done = command("demo")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for said in (
        "example.com/null     10        10",
        "/dev/modem",
        "Unhealthy",
        "Healthy",
        "every resource was listed again",
        "the container restarts",
    ):
        assert said in done.stdout


def test_the_demo_of_claims():
    pytest.importorskip("lightkube")
    done = command("demo", "--dra")
    assert done.returncode == 0, done.stderr
    assert "unhealthy=removed:NoSchedule" in done.stdout
    assert "the claim has the same device: gpu-2-0-" in done.stdout


def test_the_demo_takes_a_config(config):
    done = command("demo", "--config", config)
    assert done.returncode == 0, done.stderr
    assert "example.com/licence" in done.stdout
    assert "not asked for, because there is none: example.com/absent" in done.stdout


def test_the_demo_shows_what_comes_by_name_and_that_there_may_be_nothing(tmp_path):
    """By a CDI name a container gets the same nodes; a virtual device may have nothing at all."""
    by_name = tmp_path / "by-name.yaml"
    by_name.write_text(
        "version: 1\nresources:\n  - name: example.com/null\n"
        "    devices: [{path: /dev/null, to: /dev/nothing}]\n    container: {cdi: true}\n"
    )
    done = command("demo", "--config", by_name)
    assert done.returncode == 0, done.stderr
    assert re.search("node +/dev/nothing +is /dev/null, c 1:3", done.stdout)

    bare = tmp_path / "bare.yaml"
    bare.write_text(
        "version: 1\nresources:\n  - name: example.com/bare\n    devices: [{virtual: {count: 1}}]\n"
    )
    done = command("demo", "--config", bare)
    assert (done.returncode, done.stderr) == (0, "")
    assert "nothing: its devices have no nodes" in done.stdout
