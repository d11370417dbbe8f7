"""The config file: its types, and every check before anybody relies on it."""

from pathlib import Path

import msgspec

from device_plugin.config import compose, decode, rules, source
from device_plugin.config.decode import known
from device_plugin.config.problem import Checked, Problem, Refused, Report
from device_plugin.config.types import (
    Allocation,
    Companion,
    Config,
    Container,
    Mount,
    PerContainer,
    Resource,
    Selector,
    Virtual,
)

__all__ = [
    "Allocation",
    "Checked",
    "Companion",
    "Config",
    "Container",
    "Mount",
    "PerContainer",
    "Problem",
    "Resource",
    "Selector",
    "Virtual",
    "check",
    "read",
]


def read(path: Path) -> Checked:
    """Check a file. Whatever is wrong with it is a problem, not an exception."""
    try:
        data = source.load(path)
    except Refused as refused:
        return _refused(str(path), refused)
    return check(data, str(path))


def check(text: bytes, file: str) -> Checked:
    """Check a config; `file` names it in the problems."""
    report = Report(file)
    try:
        draft = decode.decode(compose.compose(source.to_text(text)), report)
    except Refused as refused:
        return _refused(file, refused)
    if draft is None:
        return Checked(None, report.problems({}))
    rules.check(draft, report)
    resources = draft.resources if known(draft.resources) else ()
    names = {
        index: resource.name
        for index, resource in enumerate(resources)
        if known(resource) and known(resource.name)
    }
    problems = report.problems(names)
    good = tuple(
        resource
        for index, resource in enumerate(resources)
        if not report.inside(("resources", index))
    )
    if not good or any(problem.resource is None for problem in problems):
        return Checked(None, problems)
    return Checked(msgspec.structs.replace(draft, resources=good), problems)


def _refused(file: str, refused: Refused) -> Checked:
    return Checked(None, (Problem(file, *refused.place, str(refused)),))
