"""The command line itself: help, environment, exit codes."""

import argparse
import os
import subprocess
import sys

import pytest

from device_plugin import cli, commands
from device_plugin.arguments import OneOf
from device_plugin.discovery.path import device_of

NAMES = list(commands.COMMANDS)


def subparsers(top: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    [action] = [a for a in top._actions if isinstance(a, argparse._SubParsersAction)]
    return action.choices


def test_every_command_has_a_parser_and_does_something():
    assert list(subparsers(commands.parser())) == NAMES
    assert set(cli._COMMANDS) == set(NAMES)


@pytest.mark.parametrize("columns", ["60", "100", "300"])
@pytest.mark.parametrize("name", NAMES)
def test_help_has_examples_and_exit_codes_and_fits(name, columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    text = subparsers(commands.parser())[name].format_help()
    assert f"\nexamples:\n  device-plugin {name}" in text
    assert "\nexit codes:\n  0  " in text
    assert max(map(len, text.splitlines())) <= 100


def test_the_overview_lists_every_command_and_fits(monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    lines = commands.parser().format_help().splitlines()
    assert max(map(len, lines)) <= 100
    listed = [line.split()[0] for line in lines[lines.index("commands:") + 1 :][: len(NAMES)]]
    assert listed == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_example_can_be_parsed(name):
    for example in commands.COMMANDS[name].examples:
        words = example.replace('"', "").replace("loose cable", "loose").split()
        words = words[: words.index(">")] if ">" in words else words
        words = words[: words.index("|")] if "|" in words else words
        words = ["/" if word == "/host" else word for word in words]
        assert commands.parser().parse_args([name, *words]).command == name


def test_one_command_alone_is_parsed_as_among_all():
    line = ["allocate", "--config", "a.yaml", "example.com/a", "--count=3", "-o", "json"]
    assert commands.parser("allocate").parse_args(line) == commands.parser().parse_args(line)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (["chek"], "invalid choice: 'chek'"),
        ([], "the following arguments are required: COMMAND"),
        (["check"], "the following arguments are required: FILE"),
        (["run", "--conf", "x"], "the following arguments are required: --config"),
        (["run", "--config", "x", "--host-roo", "/"], "unrecognized arguments: --host-roo /"),
        (["status", "--state-dir", ""], "it is empty: name a folder"),
        (["status", "-o", "xml"], "'xml': choose from table, json"),
        (["allocate", "--config", "x", "a/b", "--count", "0"], "'0' is not a number from 1"),
        (["convert", "x", "--domain", "Ä"], "'Ä' is no domain such as example.com"),
        (["convert", "x", "--domain", f"{'a.' * 122}a"], "is no domain such as example.com"),
        (["manifests", "--config", "x", "--namespace", "a.b"], "'a.b' is no namespace"),
        (["manifests", "--config", "x", "--image", "a b"], "'a b' is no image: write registry."),
        (["completion", "tcsh"], "'tcsh': choose from bash, zsh, fish"),
    ],
)
def test_a_wrong_command_line_says_what_is_wrong(line, why, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(line)
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert why in said.err


def test_what_comes_from_the_command_line_is_not_said_to_come_from_elsewhere(monkeypatch, capsys):
    monkeypatch.setenv("DEVICE_PLUGIN_COUNT", "none")
    with pytest.raises(SystemExit):
        commands.parser().parse_args(["allocate", "--config", "x", "a/b", "--count", "0"])
    assert "argument --count: '0' is not a number from 1" in capsys.readouterr().err


def test_what_a_command_does_not_know_is_refused_with_its_own_usage(capsys):
    with pytest.raises(SystemExit):
        cli.main(["check", "--config", "x"])
    said = capsys.readouterr().err
    assert said.startswith("usage: device-plugin check [-h] FILE\n")
    assert "device-plugin check: error: unrecognized arguments: --config" in said


def test_the_ids_in_the_help_are_those_of_devices():
    assert device_of("/dev/ttyUSB0") == "ttyusb0-8acffaea"
    for name in ("explain", "disable", "enable"):
        assert "ttyusb0-8acffaea" in " ".join(commands.COMMANDS[name].examples)


@pytest.mark.parametrize(("value", "watch"), [("true", True), ("false", False)])
def test_a_switch_is_read_from_the_environment(value, watch, monkeypatch):
    assert commands.parser().parse_args(["status"]).watch is False
    monkeypatch.setenv("DEVICE_PLUGIN_WATCH", value)
    assert commands.parser().parse_args(["status"]).watch is watch
    assert commands.parser().parse_args(["status", "--watch"]).watch is True


def test_a_switch_is_true_or_false_in_the_environment(monkeypatch, capsys):
    monkeypatch.setenv("DEVICE_PLUGIN_WATCH", "maybe")
    with pytest.raises(SystemExit):
        commands.parser().parse_args(["status"])
    said = capsys.readouterr().err
    assert "argument --watch: from DEVICE_PLUGIN_WATCH: 'maybe': choose from true, false" in said
    assert commands.parser().parse_args(["check", "x"]).command == "check"


def test_every_flag_is_read_from_the_environment(monkeypatch):
    """Whatever it takes: a value that it would refuse on the command line is refused here."""
    for name, one in subparsers(commands.parser()).items():
        for action in one._actions:
            flag = next((o for o in action.option_strings if o.startswith("--")), "--help")
            if flag == "--help":
                continue
            value = action.type.words[-1] if isinstance(action.type, OneOf) else "1"
            value = {"--http": ":1", "--host-root": "/"}.get(flag, value)
            value = "true" if flag in ("--watch", "--without-pods") else value
            variable = "DEVICE_PLUGIN_" + flag[2:].replace("-", "_").upper()
            with monkeypatch.context() as patch:
                patch.setenv(variable, value)
                [again] = [
                    a
                    for a in subparsers(commands.parser(name))[name]._actions
                    if a.dest == action.dest
                ]
            assert again.default == value, (name, flag)
            assert not again.required


def test_the_core_of_grpc_is_kept_out_of_the_log(tmp_path):
    """It writes plain lines to stderr, where a reader of JSON does not want them."""
    code = (
        "import os; from device_plugin import cli; cli.main(['check', 'x']);"
        " print(os.environ['GRPC_VERBOSITY'])"
    )
    environment = {k: v for k, v in os.environ.items() if k != "GRPC_VERBOSITY"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout == "NONE\n"


@pytest.mark.parametrize("name", ["check", "convert", "completion", "status"])
def test_small_commands_load_neither_grpc_nor_the_daemon(name, tmp_path):
    words = {"check": ["x"], "convert": ["x"], "completion": ["bash"], "status": []}[name]
    code = (
        "import sys; from device_plugin import cli; cli.main(sys.argv[1:]);"
        " print(*sorted(m for m in sys.modules if m in {'grpc', 'google.protobuf', 'structlog',"
        " 'watchdog', 'device_plugin.daemon'}), 'end')"
    )
    line = [name, *words, *(["--state-dir", str(tmp_path)] if name == "status" else [])]
    done = subprocess.run(
        [sys.executable, "-c", code, *line], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1].split() == ["end"]


def test_a_reader_that_leaves_ends_the_command_in_silence():
    command = [sys.executable, "-m", "device_plugin", "completion", "bash"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.communicate()[1] == b""
    assert process.returncode == 1


@pytest.mark.parametrize("command", [["check"], ["explain", "example.com/a", "--config"]])
def test_what_is_doubtful_is_said_and_costs_nothing(command, tmp_path, capsys):
    file = tmp_path / "c.yaml"
    file.write_text(
        "version: 1\n"
        "resources: [{name: example.com/a, devices: [{path: /dev/kvm}], runtimes: [kata]}]\n"
    )
    assert cli.main([*command, str(file)]) == 0
    said = capsys.readouterr()
    assert "example.com/a" in said.out or "ok, 1 resource" in said.out
    assert said.err.startswith(f"{file}:2:52: warning: `/dev/kvm` does not work with kata: ")
    assert said.err.count("\n") == 1


def test_values_from_the_environment_are_what_they_would_be(monkeypatch):
    """A node's name went into JSON, which took no other kind of text."""
    monkeypatch.setenv("DEVICE_PLUGIN_NODE_NAME", "n")
    monkeypatch.setenv("DEVICE_PLUGIN_POD", "p")
    monkeypatch.setenv("DEVICE_PLUGIN_HOST_ROOT", "/")
    run = subparsers(commands.parser())["run"]
    given = run.parse_args(["--config", "c.yaml"])
    assert [type(value) for value in (given.node_name, given.pod, given.host_root)] == [str] * 3


def test_closed_streams_are_not_taken_by_files_of_ours(tmp_path):
    """What a library writes to stderr would stand in the midst of them."""
    config, said = tmp_path / "c.yaml", tmp_path / "said"
    config.write_text("version: 1")
    code = (
        f"import os, sys; sys.argv = ['device-plugin', 'check', {str(config)!r}]\n"
        "from device_plugin.__main__ import main; main()\n"
        f"said = os.open({str(said)!r}, os.O_WRONLY | os.O_CREAT)\n"
        "for i in range(3): os.write(said, os.readlink(f'/proc/self/fd/{i}').encode() + b' ')"
    )
    shut = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-c", code]
    subprocess.run(shut, check=True)
    assert said.read_text().split() == ["/dev/null"] * 3
