"""The completion scripts, each in its own shell where that is installed."""

import argparse
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from device_plugin import commands
from device_plugin.completion import SCRIPTS

NAMES = list(commands.COMMANDS)


def script(shell: str) -> str:
    return SCRIPTS[shell](commands.parser())


def run(shell: str, text: str, *words: str, cwd: Path | None = None) -> list[str]:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run(
        [found, *words, "-c", text],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        cwd=cwd,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    lines: list[str] = done.stdout.splitlines()
    return lines


def bash(*line: str, cwd: Path | None = None) -> list[str]:
    """Ask bash for what may stand in the place of the last word."""
    words = " ".join(f"'{word}'" for word in ("device-plugin", *line))
    text = f"""{script("bash")}
COMP_WORDS=({words})
COMP_CWORD={len(line)}
_device_plugin
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    return [line for line in run("bash", text, "--norc", cwd=cwd) if line]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ([""], [*NAMES, "--help", "--version"]),
        (["dis"], ["discover", "disable"]),
        (["run", "--log-l"], ["--log-level"]),
        (["run", "--log-level", ""], ["debug", "info", "warning", "error"]),
        (["run", "--log-level", "=", "w"], ["warning"]),
        (["run", "--log-level", "="], ["debug", "info", "warning", "error"]),
        (["discover", "-o", "j"], ["json"]),
        (["allocate", "--config", "a.yaml", "--output", "y"], ["yaml"]),
        (["completion", "z"], ["zsh"]),
        (["status", "--w"], ["--watch"]),
        (["status", "--http"], []),
        (["allocate", "--count", ""], []),
        (["check", "--h"], ["--help"]),
        (["no-such-command", ""], []),
    ],
)
def test_bash_completes_words(line, offered):
    assert bash(*line) == offered


def test_bash_completes_files_and_folders(tmp_path):
    (tmp_path / "my config.yaml").touch()
    (tmp_path / "folder").mkdir()
    for line in (["check", ""], ["run", "--config", ""], ["run", "--config", "="]):
        assert sorted(bash(*line, cwd=tmp_path)) == ["folder", "my config.yaml"]
    assert bash("run", "--state-dir", "", cwd=tmp_path) == ["folder"]
    assert bash("explain", "my", cwd=tmp_path) == ["my config.yaml"]


def test_bash_completes_every_flag_of_every_command():
    [commands_] = [
        action
        for action in commands.parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    ]
    for name, one in commands_.choices.items():
        flags = {option for action in one._actions for option in action.option_strings}
        assert set(bash(name, "-")) == flags


def test_zsh_can_read_its_script():
    run("zsh", script("zsh"), "-f", "-n")


def test_fish_completes():
    text = f"{script('fish')}\ncomplete -C 'device-plugin run --log-level '"
    offered = [line.split("\t")[0] for line in run("fish", text, "--no-config")]
    assert sorted(offered) == ["debug", "error", "info", "warning"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_every_command_and_flag_is_in_the_other_scripts(shell):
    text = script(shell)
    for name, command in commands.COMMANDS.items():
        assert name in text
        assert command.does.replace("'", "'\\''") in text
    assert "device-plugin-dir" in text
    assert len(re.findall("(?:-l |--)log-level", text)) == 1
