"""The command line: `device-plugin COMMAND`. Every flag is also read from DEVICE_PLUGIN_<FLAG>.

Commands import what they need when they run: `check` needs no gRPC, the daemon no tables.
"""
# ruff: noqa: PLC0415

import argparse
import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from device_plugin import __version__, config
from device_plugin.config import Checked

if TYPE_CHECKING:
    from device_plugin.daemon import Daemon

OK, FAILED, BAD_CONFIG = 0, 1, 2
_SIGNALS = (signal.SIGTERM, signal.SIGINT)

_EPILOG = """\
Every flag is also read from the environment: --log-level from DEVICE_PLUGIN_LOG_LEVEL.
exit codes: 0 done; 1 not done, stderr says why; 2 the config or the command line is wrong
"""
_LEVELS = ("debug", "info", "warning", "error")
_PORT, _MAX_PORT = re.compile("[0-9]{1,5}"), 65535
_KUBELET_ROOT = "/var/lib/kubelet"


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    # gRPC's C core writes plain lines of its own to stderr, into the midst of JSON.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    arguments = _parser().parse_args(argv)
    command: Callable[[argparse.Namespace], int] = arguments.command
    try:
        return command(arguments)
    except BrokenPipeError:  # `device-plugin discover ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def _run(arguments: argparse.Namespace) -> int:
    # Blocked before there is any thread, and waited for by one: a handler would run only when the
    # main thread next executes bytecode, which may be an audit later.
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    import structlog

    from device_plugin import log
    from device_plugin.daemon import CannotStart, Daemon, Options

    log.configure(arguments.log_level, as_json=arguments.log_format == "json")
    logger = structlog.get_logger()
    checked = config.read(arguments.config)
    for problem in checked.problems:
        event = "resource refused" if checked.config and problem.resource else "config refused"
        logger.error(event, resource=problem.resource, problem=str(problem))
    if checked.config is None:
        return BAD_CONFIG
    options = Options(
        device_plugin_dir=arguments.device_plugin_dir,
        host_root=arguments.host_root,
        state_dir=arguments.state_dir,
        http=arguments.http,
    )
    daemon = Daemon(checked.config, options, checked.problems)
    threading.Thread(target=_stop_on_signal, args=(daemon,), name="signals", daemon=True).start()
    try:
        daemon.start()
    except CannotStart as why:
        logger.error("cannot start", reason=str(why))  # noqa: TRY400 - a reason, no fault
        return FAILED
    logger.info("started", version=__version__, config=str(arguments.config))
    try:
        daemon.run()
    finally:
        daemon.close()
    logger.info("stopped")
    return OK


def _stop_on_signal(daemon: "Daemon") -> None:
    """The first signal stops the daemon, the next one ends the process as it is."""
    signal.sigwait(_SIGNALS)
    daemon.stop()
    signal.sigwait(_SIGNALS)
    os._exit(FAILED)


def _check(arguments: argparse.Namespace) -> int:
    checked = config.read(arguments.file)
    code = _complain(checked)
    if checked.config is not None and code == OK:
        count = len(checked.config.resources)
        print(f"{arguments.file}: ok, {count} resource{'s' if count != 1 else ''}")
    return code


def _discover(arguments: argparse.Namespace) -> int:
    from device_plugin import dry_run

    checked = config.read(arguments.config)
    code = _complain(checked)
    if checked.config is not None:
        survey = dry_run.Survey(checked.config, arguments.host_root)
        print(dry_run.DISCOVERED[arguments.output](survey))
        print(*survey.notes(), sep="\n", end="\n" if survey.notes() else "", file=sys.stderr)
    return code


def _allocate(arguments: argparse.Namespace) -> int:
    from device_plugin import dry_run
    from device_plugin.allocation import Refused

    checked = config.read(arguments.config)
    code = _complain(checked)
    if checked.config is None:
        return code
    survey = dry_run.Survey(checked.config, arguments.host_root)
    try:
        allocated = survey.allocate(arguments.resource, arguments.count)
    except Refused as why:
        print(why, *survey.notes(arguments.resource), sep="\n", file=sys.stderr)
        return FAILED
    print(allocated.reason, file=sys.stderr)
    print(dry_run.ALLOCATED[arguments.output](allocated))
    return code


def _demo(arguments: argparse.Namespace) -> int:
    from device_plugin import demo

    return demo.run(arguments.config)


def _complain(checked: Checked) -> int:
    for problem in checked.problems:
        print(problem, file=sys.stderr)
    return BAD_CONFIG if checked.problems else OK


class _Commands:
    """The parser and its subcommands."""

    def __init__(self) -> None:
        self.parser = argparse.ArgumentParser(
            prog="device-plugin",
            description="Any Linux device as a Kubernetes extended resource, from one YAML file.",
            epilog=_EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.parser.add_argument("--version", action="version", version=__version__)
        self._commands = self.parser.add_subparsers(
            title="commands", metavar="COMMAND", required=True
        )

    def add(
        self, name: str, command: Callable[[argparse.Namespace], int], does: str, example: str
    ) -> argparse.ArgumentParser:
        parser = self._commands.add_parser(
            name,
            help=does,
            description=does,
            epilog=f"example: device-plugin {name} {example}".rstrip(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        parser.set_defaults(command=command)
        return parser


def _parser() -> argparse.ArgumentParser:
    commands = _Commands()
    run = commands.add("run", _run, "the daemon, one per node", "--config config.yaml")
    _add_run_flags(run)
    check = commands.add(
        "check", _check, "validate a config: every problem, with its place", "config.yaml"
    )
    check.add_argument("file", type=Path, metavar="FILE")
    discover = commands.add(
        "discover", _discover, "what this node would advertise now", "--config config.yaml -o json"
    )
    _add_look_flags(discover, "table", "json")
    allocate = commands.add(
        "allocate",
        _allocate,
        "what a container would get, as a dry run",
        "--config config.yaml example.com/fuse --count 2",
    )
    _add_look_flags(allocate, "table", "json", "yaml")
    allocate.add_argument("resource", metavar="RESOURCE", help="such as example.com/fuse")
    _flag(allocate, "--count", type=_count, metavar="N", default="1", help="how many (default 1)")
    demo = commands.add(
        "demo", _demo, "real devices behind an embedded kubelet: no cluster, no root", ""
    )
    _flag(demo, "--config", type=Path, metavar="FILE", help="a config instead of the built-in one")
    return commands.parser


def _add_run_flags(run: argparse.ArgumentParser) -> None:
    _flag(run, "--config", type=Path, metavar="FILE", required=True, help="the YAML file")
    folder = {"type": _folder, "metavar": "DIR"}
    _flag(
        run,
        "--device-plugin-dir",
        default=f"{_KUBELET_ROOT}/device-plugins",
        help="the kubelet's folder of plugin sockets (default %(default)s)",
        **folder,
    )
    _flag(
        run,
        "--kubelet-root",
        default=_KUBELET_ROOT,
        help="the kubelet's root folder; nothing reads it yet (default %(default)s)",
        **folder,
    )
    _add_host_root(run)
    _flag(
        run,
        "--state-dir",
        default="/var/lib/device-plugin",
        help="for what outlives the process; one daemon each (default %(default)s)",
        **folder,
    )
    _flag(
        run,
        "--http",
        type=address,
        metavar="[HOST]:PORT|off",
        default=":8080",
        help="/healthz, /readyz and /metrics (default %(default)s)",
    )
    _flag(
        run,
        "--log-format",
        type=_one_of("json", "console"),
        metavar="json|console",
        default="console" if sys.stderr and sys.stderr.isatty() else "json",
        help="default: console on a terminal, json elsewhere",
    )
    _flag(
        run,
        "--log-level",
        type=_one_of(*_LEVELS),
        metavar="|".join(_LEVELS),
        default="info",
        help="default %(default)s",
    )


def _add_look_flags(parser: argparse.ArgumentParser, *outputs: str) -> None:
    _flag(parser, "--config", type=Path, metavar="FILE", required=True, help="the YAML file")
    _add_host_root(parser)
    _flag(
        parser,
        "--output",
        "-o",
        type=_one_of(*outputs),
        metavar="|".join(outputs),
        default="table",
        help="default %(default)s",
    )


def _add_host_root(parser: argparse.ArgumentParser) -> None:
    _flag(
        parser,
        "--host-root",
        type=_existing_folder,
        metavar="DIR",
        default="/",
        help="where the host's /dev and /sys are seen (default %(default)s)",
    )


def _flag(parser: argparse.ArgumentParser, flag: str, *short: str, **settings: object) -> None:
    """An argument whose default the environment may set."""
    value = os.environ.get("DEVICE_PLUGIN_" + flag.lstrip("-").replace("-", "_").upper())
    if value is not None:
        settings |= {"default": value, "required": False}
    parser.add_argument(*short, flag, **settings)  # type: ignore[arg-type]


# argparse applies `type` to defaults too, so values from the environment pass these as well.


def _one_of(*words: str) -> Callable[[str], str]:
    def choose(text: str) -> str:
        if text not in words:
            raise argparse.ArgumentTypeError(f"{text!r}: choose from {', '.join(words)}")
        return text

    return choose


def _folder(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("it is empty: name a folder")
    return Path("/" + os.path.abspath(text).lstrip("/"))


def _existing_folder(text: str) -> str:
    folder = _folder(text)
    if not folder.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is no folder: is the host's /dev mounted below?")
    return str(folder)


def address(text: str) -> tuple[str, int] | None:
    """`:8080`, `127.0.0.1:8080` or `[::1]:8080` as host and port; None for `off`."""
    if text == "off":
        return None
    host, colon, port = text.rpartition(":")
    is_port = colon and _PORT.fullmatch(port) and int(port) <= _MAX_PORT
    in_brackets = host.startswith("[") and host.endswith("]")
    if not is_port or (":" in host) != in_brackets:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no address: write :8080, 127.0.0.1:8080 or off"
        )
    return host.strip("[]"), int(port)


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= len(text) <= 9 or int(text) < 1:  # noqa: PLR2004
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")
    return int(text)
