"""Text -> YAML nodes with their places, within bounds of depth and size."""

import re
from typing import Any, Protocol

import yaml
from yaml.composer import Composer
from yaml.nodes import Node
from yaml.reader import Reader
from yaml.resolver import Resolver

from device_plugin.config.problem import Place, Refused, show

SIZE_LIMIT = 1 << 20  # of the file, and of what its aliases make of it
DEPTH_LIMIT = 32  # a config needs 8
NODE_LIMIT = 200_000  # a large real config of 1 MiB has 130,000

_TOO_DEEP = f"nested deeper than {DEPTH_LIMIT} levels"
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# What word processors and web pages put in place of quotes, dashes and spaces.
_QUOTES, _DASHES = "\u2018\u2019\u201a\u201c\u201d\u201e\xab\xbb", "\u2013\u2014"
_SPACES = "\xa0\u2000-\u200d\u202f\u2060\u3000"
_TYPESET = f"^[{_QUOTES}]|^[{_DASHES}](?= )|[{_SPACES}]"
# As text: they are compiled when something is wrong, not at every start.
_HINTS = (
    (r":\s+\{[\w.]*\}\S", "quote a value that begins with `{`"),
    (r"^\s*\t", "indent with spaces, not tabs"),
    (r"[:-]\s+[@`%]", "quote a value that begins with `@`, `%` or a backtick"),
    (r"[:-]\s+\*", "quote a value that begins with `*`"),
    (r":\s+[^\s\"'{\[][^\"']*\{", "quote a value that holds `{`"),
    (r":\s[^\"'{\[]*:\s", "quote a value that holds `: `"),
    (r"^\s*(?:- )?\w+:\w", "put a space behind the `:`"),
)
_HINTED = 200  # characters of a line in which they look


class _Mark(Protocol):
    line: int
    column: int


def place_of(mark: _Mark | None) -> Place:
    return (mark.line + 1, mark.column + 1) if mark else (1, 1)


def compose(text: str) -> Node:
    """Read the one document of the text, or raise Refused."""
    _readable(text)
    try:
        node = _Composer(text).document()
    except yaml.MarkedYAMLError as error:
        raise _syntax(error, text) from None
    if node is None:
        raise Refused("the file holds only comments" if text.strip() else "the file is empty")
    return node


def _readable(text: str) -> None:
    bad = Reader.NON_PRINTABLE.search(text)
    offset = bad.start() if bad else text.find("\ufeff")
    if offset >= 0:
        message = f"the character U+{ord(text[offset]):04X} may not stand in YAML; remove it"
        raise Refused(message, _place_at(text, offset))
    directive = f"\n{text}".find("\n%TAG")
    if directive >= 0:  # libyaml takes quadratic time over many
        message = "tag directives (`%TAG`) are not taken; remove it"
        raise Refused(message, _place_at(text, directive))


def _place_at(text: str, offset: int) -> Place:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


class _Composer(Composer, Resolver):
    """PyYAML's composer, with a look at each event before it becomes a node.

    So depth is bounded before anything recurses, and size before any alias is followed.
    """

    def __init__(self, text: str) -> None:
        Composer.__init__(self)
        Resolver.__init__(self)
        self._parser = _Loader(text)
        self.check_event = self._parser.check_event
        self.peek_event = self._parser.peek_event
        self._open: list[tuple[str | None, int]] = []  # collections: anchor, size before it
        self._sizes: dict[str, int] = {}  # of the anchors whose node is complete
        self._size = 0
        self._nodes = 0

    def document(self) -> Node | None:
        self.get_event()
        if self.check_event(yaml.StreamEndEvent):
            return None
        node = self.compose_document()
        if not self.check_event(yaml.StreamEndEvent):
            raise _refused("a second document begins here; one file is one", self.peek_event())
        return node

    def get_event(self) -> yaml.Event:
        event: yaml.Event = self._parser.get_event()
        if isinstance(event, yaml.NodeEvent):
            self._bound(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            ended, before = self._open.pop()
            if ended is not None:
                self._sizes[ended] = self._size - before
        return event

    def _bound(self, event: yaml.NodeEvent) -> None:
        self._nodes += 1
        if self._nodes > NODE_LIMIT:
            raise _refused(f"more than {NODE_LIMIT} keys and values", event)
        match event:
            case yaml.AliasEvent(anchor=str(anchor)):
                self._alias(event, anchor)
            case yaml.ScalarEvent(anchor=anchor, value=value, style=style):
                odd = None if style or value.isascii() else re.search(_TYPESET, value)
                if odd:
                    raise _refused(_typeset(odd[0]), event)
                self._size += len(value) + 1
                if anchor is not None:
                    self._sizes[anchor] = len(value) + 1
            case yaml.CollectionStartEvent(anchor=anchor):
                if len(self._open) == DEPTH_LIMIT:
                    raise _refused(_TOO_DEEP, event)
                self._open.append((anchor, self._size))
                self._size += 1

    def _alias(self, event: yaml.Event, anchor: str) -> None:
        if any(anchor == around for around, _ in self._open):
            raise _refused(f"the alias `*{show(anchor)}` stands inside of its own value", event)
        self._size += self._sizes.get(anchor, 0)  # an unknown one is the composer's to refuse
        if self._size > SIZE_LIMIT:
            raise _refused("with its aliases written out this file is larger than 1 MiB", event)


def _typeset(char: str) -> str:
    import unicodedata  # noqa: PLC0415 - a large table, for a rare mistake

    name = unicodedata.name(char, "").lower()
    return f"U+{ord(char):04X} ({name}) is a letter to YAML; retype it, or quote the value"


def _refused(message: str, event: yaml.Event) -> Refused:
    return Refused(message, place_of(event.start_mark))


def _syntax(error: yaml.MarkedYAMLError, text: str) -> Refused:
    """Make one line of the parser's two, with advice where its cause can be guessed."""
    line, _ = place = place_of(error.problem_mark or error.context_mark)
    problem, context = error.problem or "syntax error", error.context or ""
    if "nesting depth" in problem:  # libyaml has a limit too, and looks ahead
        return Refused(_TOO_DEEP, place)
    if "duplicate anchor" in context:
        problem, context = context.partition(";")[0], "after one"
    begin = place_of(error.context_mark)[0] if error.context_mark else line
    message = f"not YAML: {show(problem)}"
    if context and context != "while scanning for the next token":
        message += f" {show(context)}" + (f" that begins in line {begin}" if begin != line else "")
    # The parser often notices one line late.
    for row in reversed(text.split("\n")[max(line - 2, 0) : line]):
        start = row[:_HINTED]
        if hint := next((hint for pattern, hint in _HINTS if re.search(pattern, start)), None):
            return Refused(f"{message}; {hint}", place)
    return Refused(message, place)
