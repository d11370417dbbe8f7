"""The command line. Each command is a function; flags are also read from DEVICE_PLUGIN_<FLAG>."""

import argparse
import signal
import sys
from pathlib import Path

import structlog

from device_plugin import config, log
from device_plugin.daemon import CannotStart, Daemon, Options
from device_plugin.http import address

OK, FAILED, BAD_CONFIG = 0, 1, 2


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    arguments = _parser().parse_args(argv)
    code: int = arguments.command(arguments)
    return code


def _run(arguments: argparse.Namespace) -> int:
    checked = config.read(arguments.config)
    as_json = arguments.log_format == "json"
    log.configure(arguments.log_level, as_json=as_json)
    _log = structlog.get_logger()
    for problem in checked.problems:
        _log.error("config", problem=str(problem), resource=problem.resource)
    if checked.config is None:
        return BAD_CONFIG
    options = Options(
        device_plugin_dir=arguments.device_plugin_dir,
        host_root=arguments.host_root,
        state_dir=arguments.state_dir,
        http=arguments.http,
    )
    daemon = Daemon(checked.config, options, checked.problems)
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: daemon.stop())
    try:
        daemon.start()
    except CannotStart as why:
        _log.error("cannot start", reason=str(why))
        return FAILED
    daemon.run()
    daemon.close()
    return OK


def _check(arguments: argparse.Namespace) -> int:
    checked = config.read(arguments.file)
    for problem in checked.problems:
        print(problem, file=sys.stderr)
    if checked.problems:
        return BAD_CONFIG
    count = len(checked.config.resources) if checked.config else 0
    print(f"{arguments.file}: ok, {count} resource{'s' if count != 1 else ''}")
    return OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="device-plugin")
    commands = parser.add_subparsers(required=True)
    run = commands.add_parser("run")
    run.set_defaults(command=_run)
    run.add_argument("--config", type=Path, required=True)
    run.add_argument(
        "--device-plugin-dir", type=Path, default=Path("/var/lib/kubelet/device-plugins")
    )
    run.add_argument("--host-root", default="/")
    run.add_argument("--state-dir", type=Path, default=Path("/var/lib/device-plugin"))
    run.add_argument("--http", type=address, default=address(":8080"))
    run.add_argument("--log-format", default="json")
    run.add_argument("--log-level", default="info")
    check = commands.add_parser("check")
    check.set_defaults(command=_check)
    check.add_argument("file", type=Path)
    return parser
