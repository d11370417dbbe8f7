"""The command line: `device-plugin COMMAND`.

Commands import what they need when they run: `check` needs no gRPC, the daemon no tables.
"""
# ruff: noqa: PLC0415

import argparse
import gc
import io
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit, setrlimit
from typing import TYPE_CHECKING

from device_plugin import __version__, commands, config
from device_plugin.config import Checked
from device_plugin.exit_codes import BAD_CONFIG, FAILED, OK

if TYPE_CHECKING:
    from device_plugin.daemon import Daemon


_FILES = 65_536
_STOPPING = 1.0  # seconds that a stop takes at most, if nothing hangs
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    # gRPC's C core writes plain lines of its own to stderr, into the midst of JSON.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    words = sys.argv[1:] if argv is None else argv
    named = [word for word in words[:1] if word in commands.COMMANDS]
    arguments = commands.parser(*named).parse_args(words)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name that the locale cannot spell is no reason
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _COMMANDS[arguments.command](arguments)
        if sys.stdout is not None:  # it was closed
            sys.stdout.flush()
    except BrokenPipeError:  # `device-plugin discover ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:  # a full disk behind stdout
        _tell([f"device-plugin: {error}"])
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    return code


def _run(arguments: argparse.Namespace) -> int:
    gc.disable()  # as in __main__, until all is made that stays
    # Blocked before there is any thread, and waited for by one: a handler would run only when the
    # main thread next executes bytecode, which may be an audit later.
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    _raise_file_limit()
    import structlog

    from device_plugin import log
    from device_plugin.daemon import CannotStart, Daemon, Options
    from device_plugin.reload import ConfigInUse, report

    log.configure(arguments.log_level, as_json=arguments.log_format == "json")
    logger = structlog.get_logger()
    checked = config.read(arguments.config)
    report(checked)
    if checked.config is None:
        return BAD_CONFIG
    options = Options(
        device_plugin_dir=arguments.device_plugin_dir,
        kubelet_root=arguments.kubelet_root,
        pod=arguments.pod,
        host_root=arguments.host_root,
        state_dir=arguments.state_dir,
        cdi_dir=arguments.cdi_dir,
        http=arguments.http,
        node=arguments.node_name,
        kubeconfig=arguments.kubeconfig,
    )
    try:
        daemon = Daemon(ConfigInUse(arguments.config, checked), options)
    except CannotStart as why:
        logger.error("cannot start", reason=str(why))  # noqa: TRY400 - a reason, no fault
        return FAILED
    threading.Thread(target=_heed_signals, args=(daemon,), name="signals", daemon=True).start()
    try:
        daemon.start()
        gc.freeze()
        gc.enable()
        logger.info("started", version=__version__, config=str(arguments.config))
        daemon.run()
    finally:
        daemon.close()
    logger.info("stopped")
    return OK


def _raise_file_limit() -> None:
    """Each resource takes a few files; the usual limit is for programs that use select(2)."""
    soft, hard = getrlimit(RLIMIT_NOFILE)
    wanted = _FILES if hard == RLIM_INFINITY else min(hard, _FILES)
    if soft != RLIM_INFINITY and soft < wanted:
        setrlimit(RLIMIT_NOFILE, (wanted, hard))


def _heed_signals(daemon: "Daemon") -> None:
    """SIGHUP reads the config again; the first other stops the daemon, a later one ends it."""
    while signal.sigwait(_SIGNALS) == signal.SIGHUP:
        daemon.reload()
    daemon.stop()
    time.sleep(_STOPPING)  # whoever says it twice at once means no more by it
    while signal.sigwait(_SIGNALS) == signal.SIGHUP:
        pass  # there is nothing left to read it for
    os._exit(FAILED)


def _check(arguments: argparse.Namespace) -> int:
    checked = config.read(arguments.file)
    code = _complain(checked)
    _tell(checked.doubts)
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
        _tell(survey.notes())
    return code


def _explain(arguments: argparse.Namespace) -> int:
    from device_plugin import explain

    checked = config.read(arguments.config)
    code = _complain(checked)
    _tell(doubt for doubt in checked.doubts if doubt.resource == arguments.what)
    if checked.config is None:
        return code
    try:
        print(explain.of(arguments.what, checked, arguments.host_root))
    except explain.NothingToExplain as why:
        _tell([why])
        return code or FAILED
    return code


def _allocate(arguments: argparse.Namespace) -> int:
    from device_plugin import dry_run
    from device_plugin.allocation import Refused

    checked = config.read(arguments.config)
    code = _complain(checked)
    if checked.config is None:
        return code
    names = {resource.name for resource in checked.config.resources}
    if arguments.resource in checked.refused - names:
        _tell([f"{arguments.resource} is refused, for what is said above: mend that first"])
        return code
    survey = dry_run.Survey(checked.config, arguments.host_root)
    try:
        allocated = survey.allocate(arguments.resource, arguments.count)
    except Refused as why:
        _tell([why, *survey.notes(arguments.resource)])
        return FAILED
    _tell([allocated.reason])
    print(dry_run.ALLOCATED[arguments.output](allocated))
    return code


def _demo(arguments: argparse.Namespace) -> int:
    from device_plugin import demo

    if arguments.dra and arguments.config is not None:
        _tell(["demo --dra has its own config; leave --config out"])
        return BAD_CONFIG
    return demo.run(arguments.config, dra=arguments.dra)


def _status(arguments: argparse.Namespace) -> int:
    from device_plugin import status, status_table

    def answer() -> status.Answer:
        return status.ask(arguments.state_dir, {"command": "status"})

    if arguments.watch:
        render = status_table.WATCHED[arguments.output]
        return _watch(lambda: render(answer()))
    render = status_table.RENDERED[arguments.output]
    return _asked(lambda: print(render(answer())))


def _watch(show: Callable[[], str]) -> int:
    """Print it each second until Ctrl-C. A daemon that restarts is waited for."""
    from device_plugin.status import Refusal, Unreachable

    clear = "\x1b[H\x1b[2J\x1b[3J" if sys.stdout.isatty() else ""
    with suppress(KeyboardInterrupt):
        while True:
            try:
                text = show()
            except (Refusal, Unreachable) as why:
                text = str(why)
            print(f"{clear}{text}", flush=True)
            time.sleep(1)
    return OK


def _disable(arguments: argparse.Namespace) -> int:
    return _order(arguments, reason=arguments.reason)


def _enable(arguments: argparse.Namespace) -> int:
    return _order(arguments)


def _order(arguments: argparse.Namespace, **more: str) -> int:
    from device_plugin import status

    request = {"command": arguments.command, "device": arguments.id, **more}
    code = _asked(lambda: status.ask(arguments.state_dir, request))
    if code == OK:
        print(f"{arguments.id} is {arguments.command}d")
    return code


def _asked(ask: Callable[[], object]) -> int:
    """Ask the daemon, and say why there is no answer."""
    from device_plugin.status import Refusal, Unreachable

    try:
        ask()
    except (Refusal, Unreachable) as why:
        _tell([why])
        return FAILED
    return OK


def _convert(arguments: argparse.Namespace) -> int:
    from device_plugin import convert

    try:
        converted = convert.convert(arguments.file, arguments.domain)
    except convert.Unknown as why:
        _tell([why])
        return BAD_CONFIG
    print(converted.text)
    _tell([*converted.left_out, *converted.changed])
    return FAILED if converted.left_out or converted.changed else OK


def _manifests(arguments: argparse.Namespace) -> int:
    from device_plugin import manifests

    checked = config.read(arguments.config)
    if _complain(checked) != OK or checked.config is None:
        return BAD_CONFIG
    pods = not arguments.without_pods
    place = arguments.namespace, arguments.image
    try:
        if arguments.only_classes:
            print(manifests.classes(checked.config))
            return OK
        print(manifests.make(arguments.config, checked.config, *place, pods=pods))
    except manifests.Unfit as why:
        _tell([why])
        return FAILED
    _tell(manifests.warnings(arguments.image))
    return OK


def _schema(_: argparse.Namespace) -> int:
    import json

    from device_plugin.config.added import every
    from device_plugin.config.schema import schema

    _tell(every()[1])
    print(json.dumps(schema(), indent=2))
    return OK


def _completion(arguments: argparse.Namespace) -> int:
    from device_plugin import completion

    print(completion.SCRIPTS[arguments.shell](commands.parser()))
    return OK


def _complain(checked: Checked) -> int:
    _tell(checked.problems)
    return BAD_CONFIG if checked.problems else OK


def _tell(lines: Iterable[object]) -> None:
    for line in lines:
        print(line, file=sys.stderr)


_COMMANDS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "run": _run,
    "check": _check,
    "discover": _discover,
    "explain": _explain,
    "allocate": _allocate,
    "demo": _demo,
    "status": _status,
    "disable": _disable,
    "enable": _enable,
    "convert": _convert,
    "manifests": _manifests,
    "schema": _schema,
    "completion": _completion,
}
