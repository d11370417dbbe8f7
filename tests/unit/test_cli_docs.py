"""docs/commands.md and docs/troubleshooting.md: what they show is what happens."""

import argparse
import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import device_plugin
from device_plugin import commands

ROOT = Path(__file__).parents[2]
CODE = Path(device_plugin.__file__).parent
COMMANDS = (ROOT / "docs" / "commands.md").read_text()
TROUBLES = (ROOT / "docs" / "troubleshooting.md").read_text()
KUBELET = " ".join((ROOT / "docs" / "kubelet.md").read_text().split())
PROGRAM = f'device-plugin() {{ "{sys.executable}" -m device_plugin "$@"; }}\n'


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", COMMANDS, re.DOTALL)


PLAIN = [line for block in blocks("sh") for line in block.splitlines()]
SHOWN = [
    (call, [*output])
    for block in blocks("console")
    for call, *output in [block.removeprefix("$ ").splitlines()]
]


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder with the documented config, and a daemon that runs with it and has no kubelet."""
    folder = Path(tempfile.mkdtemp(prefix="d", dir="/tmp"))  # unix sockets want short paths
    try:
        (folder / "plugins").mkdir()
        (folder / "config.yaml").write_text(blocks("yaml")[0])
        shutil.copy(
            Path(__file__).parent / "convert" / "generic-manifest.yaml", folder / "theirs.yaml"
        )
        command = [sys.executable, "-m", "device_plugin", "run", "--config", "config.yaml"]
        with subprocess.Popen(
            command, cwd=folder, env=environment(folder), stderr=subprocess.PIPE, text=True
        ) as daemon:
            wait_for("started", daemon)
            yield folder
            daemon.terminate()
            assert daemon.wait(5) == 0
    finally:
        shutil.rmtree(folder)


def environment(folder: Path, state: str = "state") -> dict[str, str]:
    return {
        **os.environ,
        "DEVICE_PLUGIN_DEVICE_PLUGIN_DIR": str(folder / "plugins"),
        "DEVICE_PLUGIN_KUBELET_ROOT": str(folder),
        "DEVICE_PLUGIN_STATE_DIR": str(folder / state),
        "DEVICE_PLUGIN_HTTP": "off",
        "PYTHONUNBUFFERED": "1",  # stdout and stderr in their order
        "COLUMNS": "80",
    }


def wait_for(event: str, daemon: "subprocess.Popen[str]") -> None:
    assert daemon.stderr is not None
    while json.loads(daemon.stderr.readline())["event"] != event:
        pass


def shell(line: str, place: Path, code: int) -> str:
    done = subprocess.run(
        ["bash", "-c", PROGRAM + line],
        cwd=place,
        env=environment(place),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == code, done.stdout
    return done.stdout


@pytest.mark.parametrize(
    "line", [line for line in PLAIN if " run " not in line and "--watch" not in line]
)
def test_every_command_that_is_shown_works(line, place):
    shell(line, place, 0)


@pytest.mark.parametrize(("call", "output"), SHOWN, ids=[call for call, _ in SHOWN])
def test_every_output_that_is_shown_comes(call, output, place):
    code = re.search(r"# exits with (\d)", call)
    assert shell(call, place, int(code[1]) if code else 0).splitlines() == output


@pytest.mark.parametrize("line", [line for line in PLAIN if " run " in line])
def test_the_daemon_runs_as_shown(line, place):
    words = [sys.executable, "-m", *line.replace("device-plugin", "device_plugin", 1).split()]
    with subprocess.Popen(
        words, cwd=place, env=environment(place, "other"), stderr=subprocess.PIPE, text=True
    ) as daemon:
        wait_for("started", daemon)
        daemon.terminate()
    assert daemon.returncode == 0


@pytest.mark.parametrize("line", [line for line in PLAIN if "--watch" in line])
def test_status_watches_as_shown(line, place):
    words = [sys.executable, "-m", *line.replace("device-plugin", "device_plugin", 1).split()]
    with subprocess.Popen(
        words, cwd=place, env=environment(place), stdout=subprocess.PIPE, text=True
    ) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline().startswith("RESOURCE ")
        watching.send_signal(signal.SIGINT)
    assert watching.returncode == 0


def test_every_kind_of_example_was_found():
    assert len(PLAIN) > 10
    assert len(SHOWN) > 5


def subparser(name: str) -> argparse.ArgumentParser:
    action = commands.parser(name)._actions[-1]
    assert isinstance(action, argparse._SubParsersAction)
    one: argparse.ArgumentParser = action.choices[name]
    return one


def test_every_command_and_flag_is_documented():
    titles = " ".join(re.findall(r"^## (.*)$", COMMANDS, re.MULTILINE))
    for name in commands.COMMANDS:
        assert name in titles
        assert f"`{name}" in COMMANDS or f"{name}`" in COMMANDS
        help_ = subparser(name).format_help()
        for flag in set(re.findall(r"--[a-z][a-z-]+", help_)) - {"--help"}:
            assert flag in COMMANDS, (name, flag)


@pytest.mark.parametrize("name", commands.COMMANDS)
def test_the_exit_codes_are_those_of_the_help(name):
    [row] = re.findall(rf"^\| \[[^]]*`{name}`[^]]*\]\(#.*$", COMMANDS, re.MULTILINE)
    documented = [cell.strip() for cell in row.split("|")[3:6]]
    assert documented == [commands.COMMANDS[name].codes.get(code, "-") for code in range(3)]


def test_the_flags_of_run_are_a_table_with_their_defaults():
    for one in subparser("run")._actions[1:]:
        flag = one.option_strings[-1]
        [row] = re.findall(rf"^\| `{flag}[ `].*$", COMMANDS, re.MULTILINE)
        default = row.split("|")[2].strip()
        if default not in ("-", "by stderr"):
            assert str(one.default) == default


def texts(section: str) -> list[str]:
    """What the first column of its tables quotes."""
    found: list[str] = []
    for row in re.findall(r"^\| (.*?) \| .*\|$", section, re.MULTILINE):
        found += re.findall(r"`([^`]+)`", row)
    return found


def section(title: str) -> str:
    """A part of the document, without those below it."""
    pattern = rf"^#+ {re.escape(title)}$\n(.*?)(?=^#|\Z)"
    [body] = re.findall(pattern, TROUBLES, re.MULTILINE | re.DOTALL)
    assert isinstance(body, str)
    return body


OURS = [
    text
    for title in (
        "Failed: our words",
        "What `/readyz` and the log (`not registered`) say",
        "What the log (`not offered`), `discover` and `explain` say",
        "A device is Unhealthy",
        "Not prepared: our words",
        "What `/readyz` says of claims",
        "What the log says is left out",
        "The daemon does not run",
    )
    for text in texts(section(title))
    if not text.startswith("kubectl ")
] + re.findall(r"^(?:and )?`(\S*[^`]*(?:ask as root|--state-dir)[^`]*)`", TROUBLES, re.MULTILINE)


class Literals(ast.NodeVisitor):
    """Every text of a module, with `...` for what is filled in."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.found.append(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        parts = [
            str(part.value) if isinstance(part, ast.Constant) else "..." for part in node.values
        ]
        self.found.append("".join(parts))
        self.generic_visit(node)


def literals() -> list[str]:
    reader = Literals()
    for path in CODE.rglob("*.py"):
        if not {"testing", "_api", "convert"}.intersection(path.parts):
            reader.visit(ast.parse(path.read_text()))
    return reader.found


@pytest.fixture(scope="module")
def ours() -> list[str]:
    policy = (CODE / "manifests" / "policy.yaml").read_text()
    return [*literals(), policy]


@pytest.mark.parametrize("text", OURS)
def test_our_texts_stand_in_the_code(text, ours):
    pieces = [piece.strip(" :") for piece in text.split("...")]
    pieces = [piece for piece in pieces if len(piece) > 6] or [max(pieces, key=len)]
    for piece in pieces:
        assert any(piece in literal for literal in ours), piece


THEIRS = [
    text
    for title in ("Failed: the kubelet's own words", "Not prepared: the kubelet's own words")
    for text in texts(section(title))
]


@pytest.mark.parametrize("text", THEIRS)
def test_the_kubelets_texts_stand_in_kubelet_md(text):
    for piece in (piece.strip(" :.,") for piece in text.split("...")):
        assert piece in KUBELET, piece


def test_the_texts_were_found():
    assert len(OURS) > 80
    assert len(set(OURS)) == len(OURS)
    assert len(THEIRS) > 9
