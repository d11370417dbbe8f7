"""`status`, `disable` and `enable`: what they show of an answer, and what they ask."""

import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from device_plugin import cli
from device_plugin.status import Refusal, StatusServer
from device_plugin.status_table import as_table
from device_plugin.table import fill, glued, table

NOW = 1_800_000_000.0


def device(id_: str, **more: Any) -> dict[str, Any]:
    plain = {
        "id": id_,
        "health": "Healthy",
        "reason": "",
        "since": NOW - 5,
        "replicas": 1,
        "holders": [],
    }
    return plain | more


def holder(device_: str, pod: str = "app-0") -> dict[str, str]:
    return {"namespace": "default", "pod": pod, "container": "main", "device": device_}


def resource(name: str, *devices: dict[str, Any], **more: Any) -> dict[str, Any]:
    plain = {"name": name, "registered": True, "problem": "", "devices": list(devices)}
    return plain | more


def answer(*resources: dict[str, Any], config: str = "", pods: str = "") -> dict[str, Any]:
    return {
        "version": 1,
        "resources": list(resources),
        "config": {"sha256": "0" * 64, "problem": config},
        "pod_resources": {"problem": pods},
    }


FULL = answer(
    resource(
        "example.com/serial",
        device("ttyusb0", holders=[holder("ttyusb0")]),
        device(
            "usb-cp2102-0001",
            health="Unhealthy",
            since=NOW - 7200,
            reason="moved: /dev/ttyUSB0 was c 188:0 when a container got it and is c 188:1 now",
        ),
    ),
    resource(
        "example.com/fuse",
        device(
            "fuse",
            since=NOW - 200_000,
            replicas=10,
            holders=[holder("fuse"), holder("fuse-r1"), holder("fuse-r1", "app-1")],
        ),
        device("fuse2", replicas=10),
    ),
    resource("example.com/kvm", registered=False, problem="waiting for the kubelet"),
    config="config.yaml:3:5: unknown key",
    pods="no socket",
)


def test_the_table():
    assert (
        as_table(FULL, NOW)
        == """\
RESOURCE            DEVICE           HEALTH     SINCE  HOLDER              REASON
example.com/serial  ttyusb0          Healthy    5s     default/app-0/main  -
example.com/serial  usb-cp2102-0001  Unhealthy  2h     ?                   moved: /dev/ttyUSB0 was c
                                                                           188:0 when a container
                                                                           got it and is c 188:1 now
example.com/fuse    fuse             Healthy    2d     2/10 held           -
example.com/fuse    fuse2            Healthy    5s     ?                   -
example.com/kvm     -                -          -      -                   no device

example.com/kvm: waiting for the kubelet
config: config.yaml:3:5: unknown key
who holds what is not known: no socket"""
    )


def test_a_table_of_short_names_fits_100_columns():
    many = [
        device(f"usb-{n}", health="Unhealthy", reason="removed, and then some " * 9)
        for n in range(3)
    ]
    text = as_table(answer(resource("example.com/zigbee", *many)), NOW)
    assert max(map(len, text.splitlines())) <= 100
    assert text.count("usb-") == 3


def test_what_a_long_id_leaves_no_room_for_goes_on_below_in_its_column():
    long = "usb-itead-sonoff-zigbee-3-0-usb-dongle-plus-v2-2-30137ec0"
    held = [device("fuse"), device(long, holders=[holder(long)], reason="a " * 30 + "b")]
    lines = as_table(answer(resource("example.com/zigbee", *held)), NOW).splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[2] == f"example.com/zigbee  {long}"
    assert [lines[0].index(word) for word in ("HEALTH", "HOLDER", "REASON")] == [
        lines[3].index(word) for word in ("Healthy", "default/app-0/main", "a a")
    ]


def test_a_problem_of_the_config_is_introduced_once():
    text = as_table(answer(config="config: the last good one is in use: c.yaml:1:1: x"), NOW)
    assert text.splitlines()[-1] == "config: the last good one is in use: c.yaml:1:1: x"


def test_devices_that_are_disabled_and_not_there_come_last():
    gone = [{"device": "ttyusb0-8acffaea", "reason": "disabled: loose cable"}]
    assert as_table(answer() | {"disabled": gone}, NOW).splitlines()[1:] == [
        "",
        "disabled, and not there now:",
        "DEVICE            REASON",
        "ttyusb0-8acffaea  disabled: loose cable",
    ]
    assert as_table(answer() | {"disabled": []}, NOW) == as_table(answer(), NOW)


def test_nothing_is_said_below_the_table_when_all_is_well():
    assert as_table(answer(resource("a.b/c", device("x"))), NOW).splitlines()[1:] == [
        "a.b/c     x       Healthy  5s     -       -"
    ]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-3, "0s"), (0.4, "0s"), (59, "59s"), (60, "1m"), (3599, "59m"), (86399, "23h"), (1e6, "11d")],
)
def test_since_is_as_kubectl_shows_ages(seconds, shown):
    line = as_table(answer(resource("a.b/c", device("x", since=NOW - seconds))), NOW).splitlines()[
        1
    ]
    assert line.split()[3] == shown


def test_a_table_pads_all_but_the_last_column():
    assert table([("A", "B"), ("long", "x")]) == "A     B\nlong  x"
    assert table([("A", "B"), ("x", "word " * 30)], wrap=True).count("\n") == 2


def test_a_table_never_cuts_a_word():
    path = "/dev/serial/by-id/" + "x-" * 40
    rows = [("A", "B"), ("name", f"{path} -> /dev/b")]
    assert table(rows, wrap=True).splitlines() == [
        "A     B",
        "name",
        f"    {path}",
        "    -> /dev/b",
    ]
    assert table([("A", "B"), ("x", "y" * 200)], wrap=True).splitlines()[-1].strip() == "y" * 200
    assert fill(f"see {glued('a: {b: c}')} " * 9).count("a: {b: c}") == 9


@pytest.fixture
def daemon(tmp_path):
    """A daemon's status socket that keeps what it was asked."""
    asked: list[dict[str, str]] = []

    def handle(request: dict[str, str]) -> dict[str, object]:
        asked.append(request)
        if request.get("device") == "nobody":
            raise Refusal("there is no device nobody: `status` lists them")
        return dict(FULL) if request["command"] == "status" else {"device": request["device"]}

    server = StatusServer(tmp_path, handle)
    yield asked
    server.stop()


def call(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = cli.main(list(map(str, words)))
    said = capsys.readouterr()
    return code, said.out, said.err


def test_status_shows_the_answer(daemon, tmp_path, capsys):
    code, out, err = call(capsys, "status", "--state-dir", tmp_path)
    assert (code, err) == (0, "")
    assert out.startswith("RESOURCE ")
    code, out, err = call(capsys, "status", "--state-dir", tmp_path, "-o", "json")
    assert json.loads(out) == FULL


def test_disable_and_enable_ask_and_say_so(daemon, tmp_path, capsys):
    done = call(capsys, "disable", "ttyusb0", "--reason", "loose", "--state-dir", tmp_path)
    assert done == (0, "ttyusb0 is disabled\n", "")
    done = call(capsys, "enable", "ttyusb0", "--state-dir", tmp_path)
    assert done == (0, "ttyusb0 is enabled\n", "")
    assert daemon == [
        {"command": "disable", "device": "ttyusb0", "reason": "loose"},
        {"command": "enable", "device": "ttyusb0"},
    ]


def test_a_refusal_is_said_in_the_daemons_words(daemon, tmp_path, capsys):
    done = call(capsys, "enable", "nobody", "--state-dir", tmp_path)
    assert done == (1, "", "there is no device nobody: `status` lists them\n")


@pytest.mark.parametrize("words", [["status"], ["disable", "x"], ["enable", "x"]])
def test_without_a_daemon_it_says_what_to_look_at(words, tmp_path, capsys):
    code, out, err = call(capsys, *words, "--state-dir", tmp_path)
    assert (code, out) == (1, "")
    assert "is it running, and is this its --state-dir?" in err


@pytest.mark.parametrize(("output", "first"), [("table", "RESOURCE"), ("json", '{"version": 1')])
def test_watch_goes_on_until_it_is_interrupted(daemon, tmp_path, output, first):
    command = [sys.executable, "-m", "device_plugin", "status", "--watch"]
    command += ["--state-dir", str(tmp_path), "-o", output]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as one:
        assert one.stdout is not None
        seen = 0
        while seen < 2:
            seen += one.stdout.readline().startswith(first)
        one.send_signal(signal.SIGINT)
        assert one.communicate()[1] == ""
    assert one.returncode == 0
    assert len(daemon) >= 2


def test_watch_clears_a_terminal_and_waits_for_a_daemon(tmp_path):
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "device_plugin", "status", "--watch"]
    command += ["--state-dir", str(tmp_path)]
    with (
        subprocess.Popen(command, stdout=theirs) as process,
        open(ours, "rb", buffering=0) as screen,
    ):
        os.close(theirs)
        assert screen.read(200).startswith(b"\x1b[H\x1b[2J\x1b[3Jno daemon answers at ")
        server = StatusServer(tmp_path, lambda _: dict(FULL))
        try:
            while b"RESOURCE" not in screen.read(4096):
                pass
        finally:
            server.stop()
        process.send_signal(signal.SIGINT)
    assert process.returncode == 0


def test_watch_shows_a_refusal_and_goes_on(tmp_path):
    """Of a daemon of another version, or one with a bug."""
    left = [Refusal("unknown request")] * 2

    def answer_next(_):
        if left:
            raise left.pop()
        return dict(FULL)

    server = StatusServer(tmp_path, answer_next)
    command = [sys.executable, "-m", "device_plugin", "status", "--watch"]
    command += ["--state-dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "unknown request\n"
            while not process.stdout.readline().startswith("RESOURCE"):
                pass
        finally:
            server.stop()
            process.send_signal(signal.SIGINT)
