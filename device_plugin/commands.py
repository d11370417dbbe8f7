"""What each command is called and takes, and what it says of itself in its help."""

import argparse
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from device_plugin import __version__, flags
from device_plugin.arguments import OneOf
from device_plugin.exit_codes import BAD_CONFIG, FAILED, OK
from device_plugin.table import WIDTH, table

_SHELLS = ("bash", "zsh", "fish")
_CODES = {OK: "done", BAD_CONFIG: "bad config or flag"}
_DAEMON_CODES = {OK: "done", FAILED: "refused, or no daemon answers", BAD_CONFIG: "bad flag"}


def _codes(failed: str) -> dict[int, str]:
    return {OK: "done", FAILED: failed, BAD_CONFIG: "bad config or flag"}


class Command(NamedTuple):
    does: str
    takes: Sequence[flags.Add]
    examples: Sequence[str]  # without `device-plugin NAME`; they must be possible as they stand
    codes: Mapping[int, str] = _CODES


COMMANDS: Mapping[str, Command] = {
    "run": Command(
        "the daemon, one per node",
        [
            flags.config,
            flags.kubelet,
            flags.host_root,
            flags.state_dir,
            flags.cdi_dir,
            flags.cluster,
            flags.http,
            flags.log,
        ],
        ["--config config.yaml", "--config /etc/device-plugin --host-root /host --http :8080"],
        {OK: "stopped by a signal", FAILED: "cannot start", BAD_CONFIG: "bad config or flag"},
    ),
    "check": Command(
        "validate a config: every problem, with its place",
        [flags.word("file", "FILE", "a YAML file, or a folder of them", Path)],
        ["config.yaml"],
        {OK: "good", BAD_CONFIG: "bad config or flag"},
    ),
    "discover": Command(
        "what this node would advertise now",
        [flags.config, flags.host_root, flags.output("table", "json")],
        ["--config config.yaml", "--config config.yaml -o json"],
    ),
    "explain": Command(
        "why a device is, or is not, in a resource; and what a container needs to open it",
        [
            flags.config,
            flags.host_root,
            flags.word(
                "what",
                "PATH|RESOURCE|ID",
                "such as /dev/ttyUSB0, example.com/serial, or a device's ID",
            ),
        ],
        [
            f"--config config.yaml {what}"
            for what in ("/dev/null", "example.com/random", "ttyusb0-8acffaea")
        ],
        _codes("nothing to explain"),
    ),
    "allocate": Command(
        "what a container would get, as a dry run; why these devices, on stderr",
        [
            flags.config,
            flags.host_root,
            flags.output("table", "json", "yaml"),
            flags.word("resource", "RESOURCE", "such as example.com/random"),
            flags.how_many,
        ],
        ["--config config.yaml example.com/random --count 2"],
        _codes("it would be refused"),
    ),
    "demo": Command(
        "real devices behind an embedded kubelet: no cluster, no root",
        [flags.own_config, flags.dra],
        ["", "--config config.yaml", "--dra"],
        _codes("cannot run"),
    ),
    "status": Command(
        "what the running daemon has: devices, health, reasons, holders",
        [flags.state_dir, flags.output("table", "json"), flags.watch],
        ["", "--watch", "--state-dir /var/lib/device-plugin -o json"],
        _DAEMON_CODES,
    ),
    "disable": Command(
        "take a device out of use until `enable`; Pods that hold it keep it",
        [
            flags.word("id", "ID", "as `status` and `discover` show it"),
            flags.state_dir,
            flags.reason,
        ],
        ['ttyusb0-8acffaea --reason "loose cable"'],
        _DAEMON_CODES,
    ),
    "enable": Command(
        "put a disabled device back in use",
        [flags.word("id", "ID", "as `status` shows it"), flags.state_dir],
        ["ttyusb0-8acffaea"],
        _DAEMON_CODES,
    ),
    "convert": Command(
        "another plugin's config into ours, with a comment where the meaning differs",
        [
            flags.word(
                "file",
                "FILE",
                "a config of generic-device-plugin or smarter-device-manager; its manifest will do",
                Path,
            ),
            flags.of_domain,
        ],
        ["generic-device-plugin.yaml > config.yaml"],
        {
            OK: "done",
            FAILED: "some of it is left to you",
            BAD_CONFIG: "no config that it knows, or bad flag",
        },
    ),
    "manifests": Command(
        "DaemonSet, ConfigMap and all else for a config, and a trial Pod per resource",
        [flags.config, flags.deployment, flags.without_pods, flags.only_classes],
        [
            f"--config config.yaml --image registry.example.com/device-plugin:{__version__}",
            "--config config.yaml --without-pods > device-plugin.yaml",
        ],
        _codes("no ConfigMap can hold it, or no class"),
    ),
    "schema": Command(
        "the JSON Schema of the config: editors complete and check by it",
        [],
        ["> device-plugin.schema.json"],
        {OK: "done", BAD_CONFIG: "bad flag"},
    ),
    "completion": Command(
        "a script that completes commands, flags and files in a shell",
        [flags.word("shell", "|".join(_SHELLS), "which one", OneOf(*_SHELLS))],
        ["bash > /etc/bash_completion.d/device-plugin", "fish | source"],
        {OK: "done", BAD_CONFIG: "bad flag"},
    ),
}


class _Strict(argparse.ArgumentParser):
    """Refuses itself what it does not know, so that the usage that it shows is the command's."""

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return known, unknown


def parser(*names: str) -> argparse.ArgumentParser:
    """Make the parser of these commands, or of all: the daemon does not wait for the others'."""
    width = min(WIDTH, shutil.get_terminal_size().columns)
    form = partial(argparse.RawDescriptionHelpFormatter, width=width, max_help_position=28)
    top = argparse.ArgumentParser(
        prog="device-plugin",
        usage="%(prog)s [-h] [--version] COMMAND ...",
        description="Any Linux device as a Kubernetes extended resource, from one YAML file.",
        epilog=_overview(),
        formatter_class=form,
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=__version__)
    commands = top.add_subparsers(
        prog="device-plugin",
        metavar="COMMAND",
        dest="command",
        required=True,
        parser_class=_Strict,
        help=argparse.SUPPRESS,  # argparse would not align them
    )
    for name in names or COMMANDS:
        command = COMMANDS[name]
        one = commands.add_parser(
            name,
            description=command.does,
            epilog=_epilog(name, command),
            formatter_class=form,
            allow_abbrev=False,
        )
        for add in command.takes:
            add(one)
    return top


def _overview() -> str:
    return (
        f"commands:\n{_indented((name, command.does) for name, command in COMMANDS.items())}\n\n"
        "Every flag of every command is also read from the environment: --log-level from\n"
        "DEVICE_PLUGIN_LOG_LEVEL, --count from DEVICE_PLUGIN_COUNT. The command line wins.\n"
        "`device-plugin COMMAND --help` has examples and exit codes."
    )


def _epilog(name: str, command: Command) -> str:
    calls = [(f"device-plugin {name} {words}",) for words in command.examples]
    codes = ((str(code), meaning) for code, meaning in command.codes.items())
    return f"examples:\n{_indented(calls)}\n\nexit codes:\n{_indented(codes)}"


def _indented(rows: Iterable[tuple[str, ...]]) -> str:
    return textwrap.indent(table(rows), "  ")
