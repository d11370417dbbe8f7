"""What is wrong with a config file, and where."""

import difflib
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from device_plugin.config.types import Config

# The way to a value from the root of the file: ("resources", 0, "devices", 1, "path").
Where = tuple[str | int, ...]
# Line and column, from 1.
Place = tuple[int, int]

_LIMIT = 1000  # problems of one file; far more than anybody reads
_SHOWN = 60  # characters of a value in a message
_LISTED = 15  # words of a list in a message
_COMPARED = 200  # words among which the one that was meant is sought


class Problem(msgspec.Struct, frozen=True):
    """One thing to mend; line and column count from 1."""

    file: str
    line: int
    column: int
    message: str
    resource: str | None = None  # the one that is refused for it; None: the whole file is

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.message}"


class Checked(msgspec.Struct, frozen=True):
    """What a file came to: its good resources, if it may run at all, and every problem."""

    config: Config | None
    problems: tuple[Problem, ...]


class Refused(Exception):  # noqa: N818 -- not an error of the program
    """The file cannot be read any further."""

    def __init__(self, message: str, place: Place = (1, 1)) -> None:
        super().__init__(message)
        self.place = place


class _Found(NamedTuple):
    place: Place
    message: str
    resource: int | None  # its index in the file


class Report:
    """The problems of one file, and the places of its keys and values."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._keys: dict[Where, Place] = {}
        self._values: dict[Where, Place] = {}
        self._found: dict[_Found, None] = {}  # an ordered set
        self._inside: set[Where] = set()

    def place(self, where: Where, value: Place, key: Place | None = None) -> None:
        self._values[where] = value
        if key is not None:
            self._keys[where] = key

    def has(self, where: Where) -> bool:
        """Is the value written in the file?"""
        return where in self._values

    def line(self, where: Where) -> int:
        return self._values[where][0]

    def at(self, where: Where, message: str, *, key: bool = False) -> None:
        """Report a problem of a value, or of its key."""
        self.add(where, self._place(where, key=key), message)

    def between(self, where: Where, message: str, *, key: bool = False) -> None:
        """Report a problem that two resources have with one another."""
        self.add((), self._place(where, key=key), message)

    def _place(self, where: Where, *, key: bool) -> Place:
        return self._keys[where] if key else self._values[where]

    def add(self, where: Where, place: Place, message: str) -> None:
        resource = None
        if len(where) > 1 and where[0] == "resources" and isinstance(where[1], int):
            resource = where[1]
        self._found[_Found(place, message, resource)] = None
        self._inside.update(where[:end] for end in range(len(where) + 1))

    def inside(self, where: Where) -> bool:
        """Is there a problem in this value, or in one that it holds?"""
        return where in self._inside

    def problems(self, names: Mapping[int, str]) -> tuple[Problem, ...]:
        """List them in file order; `names` are the resources' by their index."""
        found = sorted(self._found, key=lambda one: one.place)
        problems = [
            Problem(
                self._file,
                *one.place,
                one.message,
                None if one.resource is None else names.get(one.resource),
            )
            for one in found[:_LIMIT]
        ]
        if len(found) > _LIMIT:
            more = f"{len(found) - _LIMIT} more problems from here on are not shown"
            problems.append(Problem(self._file, *found[_LIMIT].place, more))
        return tuple(problems)


def show(text: str) -> str:
    """Cut and escape what a file holds, for a message of one line."""
    short = text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in short
    )


def listed(words: Sequence[str], last: str = "or", form: str = "`{}`") -> str:
    """Write `a`, `b` or `c`."""
    *front, end = [form.format(word) for word in words[: _LISTED + 1]]
    if len(words) > _LISTED:
        return f"{', '.join(front)} {last} {len(words) - _LISTED} more"
    return f"{', '.join(front)} {last} {end}" if front else end


PLACEHOLDER = "`{{{}}}`"  # the form of one for `listed`


def near(word: str, known: Collection[str]) -> str | None:
    """Find what was probably meant."""
    if len(word) > _SHOWN or len(known) > _COMPARED:
        return None
    return next(iter(difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.7)), None)
