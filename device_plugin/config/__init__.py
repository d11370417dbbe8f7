"""The config: its types, and every check before anybody relies on it."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from device_plugin.config import compose, decode, rules, source
from device_plugin.config.added import AddedSelector, Chosen
from device_plugin.config.decode import known
from device_plugin.config.problem import Checked, Problem, Refused, Report, Where
from device_plugin.config.rules import MAX_RESOURCES
from device_plugin.config.source import Source
from device_plugin.config.types import (
    KINDS,
    Allocation,
    Companion,
    Config,
    Container,
    Exec,
    Gpu,
    Mount,
    NodeOf,
    Part,
    Pci,
    PerContainer,
    Requirement,
    Resource,
    Selector,
    Usb,
    VersionValue,
    Virtual,
)

__all__ = [
    "KINDS",
    "MAX_RESOURCES",
    "AddedSelector",
    "Allocation",
    "Checked",
    "Chosen",
    "Companion",
    "Config",
    "Container",
    "Exec",
    "Gpu",
    "Mount",
    "NodeOf",
    "Pci",
    "PerContainer",
    "Problem",
    "Requirement",
    "Resource",
    "Selector",
    "Usb",
    "VersionValue",
    "Virtual",
    "check",
    "fingerprint",
    "read",
]


def read(path: Path) -> Checked:
    """Check a file, or the files of a folder (*.yaml, *.yml, in name order) as one config.

    Whatever is wrong with them is a problem, not an exception.
    """
    return _check(source.load(path))


def check(text: bytes, file: str) -> Checked:
    """Check a config; `file` names it in the problems."""
    return _check([Source(file, text)])


def fingerprint(path: Path) -> str:
    """Say what `read` would read now: as long as this stays the same, so does the config.

    Of one file it is the SHA-256 of its bytes.
    """
    return source.fingerprint(source.load(path))


def _check(sources: Sequence[Source]) -> Checked:
    report = Report([one.name for one in sources])
    due = Config if len(sources) == 1 else Part
    drafts = [_draft(one, file, due, report) for file, one in enumerate(sources)]
    rules.check(drafts, report)
    names: dict[Where, str] = {}
    good: list[Resource] = []
    for where, resource in rules.resources(drafts):
        if known(resource.name):
            names[where] = resource.name
        if not report.inside(where):
            good.append(resource)
    problems = report.problems(names)
    checked = Checked(None, problems, source.fingerprint(sources))
    if not good or any(problem.resource is None for problem in problems):
        return checked
    config = Config(version=1, resources=tuple(good), **rules.settings(drafts, report))
    return structs.replace(checked, config=config)


def _draft(one: Source, file: int, due: type[Config], report: Report) -> Config | None:
    """Read a file as far as it can be read."""
    if one.problem:
        report.add((file,), (1, 1), one.problem)
        return None
    try:
        return decode.decode(compose.compose(source.to_text(one.data)), report, file, due)
    except Refused as refused:
        report.add((file,), refused.place, str(refused))
        return None
