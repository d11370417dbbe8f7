"""What all tests share: those that need root are left out without it, and counted."""

import os
import signal

import pytest

IS_ROOT = os.geteuid() == 0
_LEFT_OUT = pytest.StashKey[int]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    needy = [item for item in items if item.get_closest_marker("root") and not IS_ROOT]
    config.stash[_LEFT_OUT] = len(needy)
    for item in needy:
        item.add_marker(pytest.mark.skip(reason="needs root: makes device nodes"))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    left_out = config.stash.get(_LEFT_OUT, 0)
    if left_out:
        tests = "test" if left_out == 1 else "tests"
        terminalreporter.write_line(f"{left_out} {tests} left out: root only", yellow=True)


def pytest_configure() -> None:
    """A shell starts what it runs in the background deaf to SIGINT, and children inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
