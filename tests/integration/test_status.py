"""`status`, `disable` and `enable`: what the daemon tells root, and devices out of service."""

import json
import subprocess
import sys
import time

import pytest

from device_plugin.status import Refusal

X = "example.com/x"
TWO = [{"virtual": {"count": 2}, "replicas": 2}]


@pytest.fixture
def run(node):
    """Run a command as an admin would."""

    def run(*words):
        command = [sys.executable, "-m", "device_plugin", *words]
        command += ["--state-dir", str(node.folder / "state")]
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)

    return run


def test_status_tells_devices_health_and_holders(node, kubelet, eventually):
    started = time.time()
    daemon = node.start({"x": TWO}, audit_interval="200ms")
    ids = kubelet.healthy(X, 4)
    daemon.wait_page("/readyz", 200)
    kubelet.run(X, 1, name="holder")
    eventually(lambda: '"holder"' in json.dumps(node.ask("status")))  # an answer serves a moment
    answer = node.ask("status")
    (resource,) = answer["resources"]
    assert (resource["name"], resource["registered"], resource["problem"]) == (X, True, "")
    first, second = resource["devices"]
    assert [first["id"], second["id"]] == [ids[0], ids[2]]
    assert all(started - 1 < one["since"] <= time.time() for one in (first, second))
    holders = first["holders"] + second["holders"]
    assert [(h["namespace"], h["pod"], h["container"]) for h in holders] == [
        ("default", "holder", "main")
    ]
    assert holders[0]["device"] in ids
    assert answer["config"]["problem"] == answer["pod_resources"]["problem"] == ""


def test_a_disabled_device_stays_out_over_a_restart(node, kubelet):
    daemon = node.start({"x": TWO})
    first, replica, *others = kubelet.healthy(X, 4)
    node.ask("disable", device=first, reason="fan is loud\n")
    expected = {first: "Unhealthy", replica: "Unhealthy"} | dict.fromkeys(others, "Healthy")
    kubelet.until(X, expected)
    assert node.ask("status")["resources"][0]["devices"][0]["reason"] == "disabled: fan is loud "
    daemon.end()
    node.start({"x": TWO})
    kubelet.until(X, expected)
    node.ask("enable", device=first)
    kubelet.healthy(X, 4)


def test_orders_that_make_no_sense_are_refused(node, kubelet):
    node.start({"x": TWO})
    first, replica, *_ = kubelet.healthy(X, 4)
    for command, device, reason in (
        ("disable", "nothing", "there is no device nothing"),
        ("disable", first[:-1], f"did you mean {first}"),
        ("disable", replica, f"is a replica: health is the whole device's; use {first}"),
        ("enable", first, "is not disabled"),
        ("enable", "nothing", "there is no device nothing"),
        ("destroy", first, "unknown request"),
    ):
        with pytest.raises(Refusal, match=reason):
            node.ask(command, device=device)
    assert len(kubelet.lists(X)) == 1


def test_a_reason_stays_and_absent_devices_are_told_of(node, kubelet):
    kubelet.ids_may_leave = True  # nobody holds it
    node.add("/dev/a")
    daemon = node.start({"x": [{"path": node.path("/dev/{n}")}]})
    (id_,) = kubelet.healthy(X)
    node.ask("disable", device=id_, reason="hot")
    node.ask("disable", device=id_)
    expected = [{"device": id_, "reason": "disabled: hot"}]
    assert node.ask("status")["disabled"] == []
    daemon.end()
    node.at("/dev/a").unlink()
    daemon = node.start({"x": [{"path": node.path("/dev/{n}")}]})
    daemon.wait_log("serving HTTP")
    assert node.ask("status")["disabled"] == expected
    node.ask("enable", device=id_)
    assert node.ask("status")["disabled"] == []


def test_a_disabled_devices_file_that_is_no_json_is_named(node):
    (node.folder / "state").mkdir()
    (node.folder / "state" / "disabled.json").write_text("{")
    daemon = node.start({"x": TWO})
    assert daemon.wait() == 1
    assert "disabled.json" in daemon.wait_log("cannot start")["reason"]


def test_the_commands(node, kubelet, run):
    node.start({"x": TWO})
    first, *_ = kubelet.healthy(X, 4)
    node.ask("status")  # the socket is there
    assert run("disable", first, "--reason", "hot").returncode == 0
    shown = run("status")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "disabled: hot" in shown.stdout
    assert run("enable", first).returncode == 0
    assert "disabled" not in run("status").stdout
    refused = run("enable", first)
    assert (refused.returncode, refused.stderr) == (1, f"{first} is not disabled\n")


def test_without_a_daemon_the_commands_say_so(run):
    shown = run("status")
    assert shown.returncode == 1
    assert "is it running, and is this its --state-dir?" in shown.stderr


def test_metrics_count_the_disabled(node, kubelet):
    daemon = node.start({"x": TWO})
    first, *_ = kubelet.healthy(X, 4)
    node.ask("disable", device=first)
    daemon.wait_page("/metrics", 200, 'device_plugin_disabled_devices{resource="example.com/x"} 2')
