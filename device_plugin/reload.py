"""The config in use, and the file that it came from: read again when that changes.

A bad file changes nothing: the last good config stays. Nor does a mistake within one resource: the
others take what is new, and that one stays as it was.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec
import structlog

from device_plugin import config
from device_plugin.config import MAX_RESOURCES, Checked, Config, Problem
from device_plugin.config.source import ENDINGS
from device_plugin.host import Host, Unusable

_MAX_NAMED = 20  # problems in one go
_log = structlog.get_logger()


def report(checked: Checked) -> None:
    """Log what is wrong with a config."""
    for problem in checked.problems[:_MAX_NAMED]:
        event = "resource refused" if checked.config and problem.resource else "config refused"
        _log.error(event, resource=problem.resource, problem=str(problem))
    if checked.problems[_MAX_NAMED:]:
        _log.error(
            "config: more problems",
            count=len(checked.problems) - _MAX_NAMED,
            hint="device-plugin check lists all",
        )


class ConfigInUse:
    """The last good config, and what is wrong with the file now."""

    def __init__(self, path: Path, checked: Checked) -> None:
        """`checked` must hold a config."""
        assert checked.config is not None  # noqa: S101 - whoever starts the daemon has looked
        self._path = path
        # Links in it are followed as the kernel does it: `..` is not taken out by its letters.
        self._place = os.path.join(os.getcwd(), path)
        self._checked = checked
        self.config: Config = checked.config
        self.sha256 = checked.fingerprint  # of the config in use

    def reread(self, served: Iterable[str] = ()) -> Config | None:
        """Read the file again; returns the config that was in use if another one is now.

        served: the names of all resources that are, also of those that the config dropped. Its
        problems are logged where they are new.
        """
        if config.fingerprint(self._path) == self._checked.fingerprint:
            return None
        checked = self._bounded(config.read(self._path), served)
        if checked.problems != self._checked.problems:
            report(checked)
        self._checked = checked
        if checked.config is None:
            return None
        before, self.config = self.config, _kept(self.config, checked.config, checked.problems)
        self.sha256 = checked.fingerprint
        return before

    @property
    def sha256_read(self) -> str:
        """Of the file as it was read last, in use or not."""
        return self._checked.fingerprint

    @property
    def well(self) -> bool:
        """Whether the file as it is now is in use, all of it."""
        return not self._checked.problems

    def _bounded(self, checked: Checked, served: Iterable[str]) -> Checked:
        """Refuse a config that makes too many with what is served on; it is tried again."""
        new = checked.config.resources if checked.config is not None else ()
        count = len({resource.name for resource in new}.union(served))
        if count <= MAX_RESOURCES:
            return checked
        message = (
            f"with resources that were dropped and may still be held these are {count};"
            f" {MAX_RESOURCES} are served at most: wait, or restart the daemon"
        )
        return Checked(None, (Problem(str(self._path), 1, 1, message),), "")

    @property
    def problems(self) -> list[str]:
        """What is wrong with the file, one line each."""
        checked = self._checked
        if checked.config is None:
            first, *more = checked.problems
            rest = f" (and {len(more)} more problems)" if more else ""
            return [f"config: the last good one is in use: {first}{rest}"]
        served = {resource.name for resource in self.config.resources}
        return [
            f"{p.resource}: {'kept as it was' if p.resource in served else 'left out'}: {p}"
            for p in checked.problems
        ]

    @property
    def folders(self) -> set[str]:
        """Where a change could alter the file, or what a link on the way to it leads to."""
        look, path = Host().look(), self._place
        paths = [path]
        with suppress(Unusable):
            names = [name for name in look.names(path) if name.endswith(ENDINGS)]
            paths += [os.path.join(path, name) for name in names]
        for one in paths:
            with suppress(Unusable):
                look.entry(one)
        return look.folders


def _kept(before: Config, now: Config, problems: Iterable[Problem]) -> Config:
    """The new config, with the old form of resources that the new file spoils."""
    spoilt = {problem.resource for problem in problems}
    names = {resource.name for resource in now.resources}
    old = [r for r in before.resources if r.name in spoilt and r.name not in names]
    return msgspec.structs.replace(now, resources=(*now.resources, *old))
