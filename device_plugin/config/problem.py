"""What is wrong with a config, and where."""

import difflib
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from device_plugin.config.types import Config
from device_plugin.host import shown

# The way to a value: the file's number, and on from its root: (0, "resources", 0, "name").
Where = tuple[str | int, ...]
# Line and column, from 1.
Place = tuple[int, int]

_LIMIT = 1000  # problems of one file; far more than anybody reads
_SHOWN = 60  # characters of a value in a message
_LISTED = 15  # words of a list in a message
_COMPARED = 200  # words among which the one that was meant is sought
_SUGGESTED = 100  # problems for which that is done
# What people say instead, which is not like it.
_ALSO_CALLED: Mapping[str, str] = {"gvisor": "runsc", "runtimeclassname": "runtimes"}


class Problem(msgspec.Struct, frozen=True):
    """One thing to mend; line and column count from 1."""

    file: str
    line: int
    column: int
    message: str
    resource: str | None = None  # the one that is refused for it; None: the whole file is

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.message}"


class Doubt(Problem, frozen=True):
    """Something that may be meant, although it looks as if it could not work: it costs nothing."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: warning: {self.message}"


class Checked(msgspec.Struct, frozen=True):
    """What a config came to: its good resources, if it may run at all, and every problem.

    `fingerprint` is of exactly the bytes that were checked; see `config.fingerprint`.
    """

    config: Config | None
    problems: tuple[Problem, ...]
    fingerprint: str = ""
    doubts: tuple[Doubt, ...] = ()

    @property
    def refused(self) -> frozenset[str]:
        """The names of the resources that are left out, as far as they have names."""
        return frozenset(one.resource for one in self.problems if one.resource is not None)


class Refused(Exception):  # noqa: N818 -- not an error of the program
    """The file cannot be read any further."""

    def __init__(self, message: str, place: Place = (1, 1)) -> None:
        super().__init__(message)
        self.place = place


class _Found(NamedTuple):
    file: int
    place: Place
    message: str
    resource: Where | None


class Report:
    """The problems of a config, and the places of its keys and values."""

    def __init__(self, files: Sequence[str]) -> None:
        self._files = [shown(file) for file in files]
        self._keys: dict[Where, Place] = {}
        self._values: dict[Where, Place] = {}
        self._found: dict[_Found, None] = {}  # an ordered set
        self._doubted: dict[_Found, None] = {}
        self._inside: set[Where] = set()

    def place(self, where: Where, value: Place, key: Place | None = None) -> None:
        self._values[where] = value
        if key is not None:
            self._keys[where] = key

    def has(self, where: Where) -> bool:
        """Is the value written in the file?"""
        return where in self._values

    def line(self, where: Where, seen_from: Where | None = None) -> str:
        """Name the line of a value; with its file, if that is not the one it is seen from."""
        line = f"line {self._values[where][0]}"
        if seen_from is None or seen_from[0] == where[0]:
            return line
        return f"{line} of {os.path.basename(self._file(where))}"

    def at(self, where: Where, message: str, *, key: bool = False) -> None:
        """Report a problem of a value, or of its key."""
        self.add(where, self._place(where, key=key), message)

    def between(self, where: Where, message: str, *, key: bool = False) -> None:
        """Report a problem that two resources have with one another."""
        self.add(where[:1], self._place(where, key=key), message)

    def warn(self, where: Where, message: str, *, key: bool = False) -> None:
        """Report what may well be meant: a problem for nobody but whoever asks."""
        self._doubted[self._one(where, self._place(where, key=key), message)] = None

    def _place(self, where: Where, *, key: bool) -> Place:
        return self._keys[where] if key else self._values[where]

    def add(self, where: Where, place: Place, message: str) -> None:
        self._found[self._one(where, place, message)] = None
        self._inside.update(where[:end] for end in range(len(where) + 1))

    def _one(self, where: Where, place: Place, message: str) -> _Found:
        resource = where[:3] if len(where) > 2 and where[1] == "resources" else None  # noqa: PLR2004
        return _Found(int(where[0]), place, message, resource)

    def near(self, word: str, known: Collection[str]) -> str | None:
        """Find what was probably meant, for as many problems as anybody reads: it takes a while."""
        return near(word, known) if len(self._found) < _SUGGESTED else None

    def inside(self, where: Where) -> bool:
        """Is there a problem in this value, or in one that it holds?"""
        return where in self._inside

    def problems(self, names: Mapping[Where, str]) -> tuple[Problem, ...]:
        """List them in file order; `names` are the resources' by where they stand."""
        found = _sorted(self._found)
        problems = [Problem(*self._parts(one, names)) for one in found[:_LIMIT]]
        for first in found[_LIMIT : _LIMIT + 1]:
            more = f"{len(found) - _LIMIT} more problems from here on are not shown"
            problems.append(Problem(self._files[first.file], *first.place, more))
        return tuple(problems)

    def doubts(self, names: Mapping[Where, str]) -> tuple[Doubt, ...]:
        """List what was warned of, as `problems` does."""
        return tuple(Doubt(*self._parts(one, names)) for one in _sorted(self._doubted)[:_LIMIT])

    def _parts(
        self, one: _Found, names: Mapping[Where, str]
    ) -> tuple[str, int, int, str, str | None]:
        resource = None if one.resource is None else names.get(one.resource)
        return self._files[one.file], *one.place, one.message, resource

    def _file(self, where: Where) -> str:
        return self._files[int(where[0])]


def _sorted(found: Iterable[_Found]) -> list[_Found]:
    return sorted(found, key=lambda one: (one.file, one.place))


def show(text: str, limit: int = _SHOWN) -> str:
    """Cut and escape what a file holds, for a message of one line."""
    short = text if len(text) <= limit else text[: limit - 3] + "..."
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in short
    )


def foreign(text: str) -> str:
    """Point at the first character that is not ASCII: it may look as if it were."""
    char = next((char for char in text if not char.isascii()), None)
    return f" (`{show(char)}` in it is U+{ord(char):04X})" if char and char != text else ""


def listed(words: Sequence[str], last: str = "or", form: str = "`{}`") -> str:
    """Write `a`, `b` or `c`."""
    *front, end = [form.format(word) for word in words[: _LISTED + 1]]
    if len(words) > _LISTED:
        return f"{', '.join(front)} {last} {len(words) - _LISTED} more"
    return f"{', '.join(front)} {last} {end}" if front else end


def there(words: Sequence[str], form: str = "`{}`") -> str:
    """Write "there are `a` and `b`"."""
    return f"there {'are' if len(words) > 1 else 'is'} {listed(words, 'and', form)}"


PLACEHOLDER = "`{{{}}}`"  # the form of one for `listed`


def near(word: str, known: Collection[str]) -> str | None:
    """Find what was probably meant."""
    if len(word) > _SHOWN or len(known) > _COMPARED:
        return None
    folded = {one.casefold(): one for one in sorted(known)}
    said = word.casefold()
    if meant := folded.get(_ALSO_CALLED.get(said, "")):
        return meant
    if found := difflib.get_close_matches(said, folded, n=1, cutoff=0.7):
        return folded[found[0]]
    first = said.partition("-")[0]  # of kata-qemu
    return folded.get(first) if first != said else None
