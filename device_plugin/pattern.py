"""Path patterns: which files a `path:` selector means. No I/O: discovery walks, this decides.

Per component: literal text, a glob (`*`, `?`, `[...]`, `[!...]`), or captures `{name}`, which
stand for one non-empty piece. A leading dot must be named, as in a shell. Where a name can be
cut in several ways, the pieces on the left are the shortest.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Self

import msgspec

from device_plugin.template import ATTRIBUTE, PLACEHOLDERS, STRAY, Template, escape

_TOKEN = re.compile(
    r"(?P<brace>\{\{|\}\})|\{(?P<capture>[^{}]*)\}|(?P<stray>[{}])"
    r"|\[(?P<set>!?\]?[^\]]*)\]|(?P<open>\[)|(?P<glob>[*?])|(?P<text>[^{}\[*?]+)"
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_RESERVED = frozenset((*PLACEHOLDERS, ATTRIBUTE))
_DOTS = frozenset((".", ".."))


class PatternError(ValueError):
    """The text is no pattern; the message says why, in one line."""


class _Piece(NamedTuple):
    """Literal text, the regex of one character, or a capture's name; none of them: a `*`."""

    text: str = ""
    one: str = ""
    capture: str = ""

    def __str__(self) -> str:
        return f"`{{{self.capture}}}`" if self.capture else "`*`"


class Matcher(msgspec.Struct, frozen=True):
    """A component that varies."""

    regex: re.Pattern[str]
    known: tuple[str, ...]  # captures of earlier components that this one repeats
    dotted: bool  # begins with a literal dot

    def match(self, name: str, captures: Mapping[str, str]) -> dict[str, str] | None:
        """Return `captures` and the component's own ones, or None where the name does not fit."""
        if name.startswith(".") and not self.dotted:
            return None
        # The regex reads the known pieces in front of the name, so that it can refer to them
        # and need not be compiled for each.
        found = self.regex.fullmatch("".join(f"{captures[n]}/" for n in self.known) + name)
        # No piece is a dot or two: no path that is built of captures leaves its folder.
        if found is None or not _DOTS.isdisjoint(found.groupdict().values()):
            return None
        return {**captures, **found.groupdict()}


class PathPattern(msgspec.Struct, frozen=True):
    """An absolute path whose components may vary."""

    text: str
    parts: tuple[str | Matcher, ...]  # one a component
    captures: tuple[str, ...]  # in the order in which they appear
    template: Template | None  # the path that given captures make; None where a glob varies it
    literal: str | None  # the whole path, if nothing varies
    folder: bool  # a "/" at the end: folders only

    @classmethod
    def parse(cls, text: str) -> Self:
        parts: list[str | Matcher] = []
        captures: dict[str, None] = {}  # an ordered set
        every: list[_Piece] = []
        for component in _components(text):
            pieces = _pieces(component)
            parts.append(_part(pieces, captures))
            captures |= dict.fromkeys(piece.capture for piece in pieces if piece.capture)
            every += [_Piece("/"), *pieces]
        template = _template(every)
        return cls(
            text,
            tuple(parts),
            tuple(captures),
            template,
            template.render({}) if template and template.constant else None,
            folder=text.endswith("/"),
        )

    def fits(self, path: str) -> bool:
        """Whether it means this path, were it there."""
        names = path[1:].split("/")
        captures: dict[str, str] | None = {} if len(names) == len(self.parts) else None
        for part, name in zip(self.parts, names, strict=False):
            if captures is not None and part != name:
                captures = None if isinstance(part, str) else part.match(name, captures)
        return captures is not None


def _components(text: str) -> list[str]:
    if not text.startswith("/"):
        raise PatternError("a path must be absolute: begin it with `/`")
    if text == "/":
        raise PatternError("`/` is no device; name a file or a folder under it")
    if _CONTROL.search(text):
        raise PatternError("a path may not hold control characters")
    components = text.removesuffix("/")[1:].split("/")
    if "" in components:
        raise PatternError("a path may not hold `//`")
    if any("**" in component for component in components):
        raise PatternError("`**` is not supported; write `*` once for each folder level")
    return components


def _pieces(component: str) -> list[_Piece]:
    pieces = [_piece(token) for token in _TOKEN.finditer(component)]
    if "".join(piece.text or "x" for piece in pieces) in _DOTS:
        raise PatternError(f"a path may not hold `{component}`")
    return pieces


def _piece(token: re.Match[str]) -> _Piece:
    text = token[0]
    match token.lastgroup:
        case "brace":
            return _Piece(text[0])
        case "capture":
            return _capture(token["capture"])
        case "set":
            return _set(text, token["set"])
        case "glob":
            return _Piece(one=".") if text == "?" else _Piece()
        case "stray":
            raise PatternError(STRAY[text])
        case "open":
            raise PatternError("`[` is never closed; write `[[]` for a literal one")
    return _Piece(text)


def _capture(name: str) -> _Piece:
    if not _NAME.fullmatch(name):
        raise PatternError(
            f"`{{{name}}}` is no capture: a name is letters, digits and `_`;"
            " write `{{` and `}}` for literal braces"
        )
    if name in _RESERVED:
        raise PatternError(f"`{{{name}}}` is a placeholder; give the capture another name")
    return _Piece(capture=name)


def _set(text: str, content: str) -> _Piece:
    """Read `[a-z_]` or `[!0-9]`; `[*]` is how a pattern spells a literal `*`."""
    negated, members = content.startswith("!"), content.removeprefix("!")
    if not members:
        raise PatternError(f"`{text}` names no character")
    if members.startswith(("^", "[:", "[.", "[=")) and len(members) > 1:
        raise PatternError(f"`{text}` is not supported; write `[!...]` or ranges such as `[0-9]`")
    if len(members) == 1 and not negated:
        return _Piece(members)
    source = ""
    for low, dash, high, single in re.findall(r"(?s)(.)(-)(.)|(.)", members):
        if dash and low > high:
            raise PatternError(f"`{text}`: the range `{low}-{high}` is backwards")
        source += f"{re.escape(low)}-{re.escape(high)}" if dash else re.escape(single)
    return _Piece(one=f"[{'^' if negated else ''}{source}]")


def _part(pieces: list[_Piece], earlier: Iterable[str]) -> str | Matcher:
    if all(piece.text for piece in pieces):
        return "".join(piece.text for piece in pieces)
    count = Counter(piece.capture for piece in pieces if piece.capture)
    known = tuple(name for name in earlier if name in count)
    repeated = [name for name, times in count.items() if times > 1 and name not in known]
    if len(repeated) > 1:  # finding pieces that agree would take exponential time
        raise PatternError(
            f"only one capture may be repeated within a name, not both `{{{repeated[0]}}}`"
            f" and `{{{repeated[1]}}}`"
        )
    regex = "".join(f"(?P<{name}>[^/]*)/" for name in known)
    regex += _regex(pieces, set(known), repeated)
    return Matcher(re.compile(regex, re.DOTALL), known, pieces[0].text.startswith("."))


def _regex(pieces: list[_Piece], seen: set[str], repeated: list[str]) -> str:
    """Build a regex that backtracks little.

    What a wildcard takes is the shortest that lets the fixed text behind it follow, and stays so
    (an atomic group), because the next wildcard makes up for it. Only a capture that is repeated
    needs trying on, and with it the wildcard in front, which decides where it begins.
    """
    groups = [""]
    free = {0}
    before: _Piece | None = None  # the wildcard just before, if it was one
    for piece in pieces:
        wild = None if piece.text or piece.one or piece.capture in seen else piece
        if wild and before:
            raise PatternError(f"{before} and {wild} side by side: nothing says where one ends")
        before = wild
        if wild is None:
            groups[-1] += _fixed(piece)
            continue
        if piece.capture:
            seen.add(piece.capture)
        groups.append(f"(?P<{piece.capture}>.+?)" if piece.capture else ".*?")
        if piece.capture in repeated:
            free |= {len(groups) - 2, len(groups) - 1}
    free.add(len(groups) - 1)
    return "".join(group if i in free else f"(?>{group})" for i, group in enumerate(groups))


def _fixed(piece: _Piece) -> str:
    if piece.capture:
        return f"(?P={piece.capture})"
    return piece.one or re.escape(piece.text)


def _template(pieces: Iterable[_Piece]) -> Template | None:
    text = ""
    for piece in pieces:
        if piece.capture:
            text += f"{{{piece.capture}}}"
        elif piece.text:
            text += escape(piece.text)
        else:
            return None
    return Template.parse(text)
