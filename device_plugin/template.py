"""Placeholders in what a container gets: `{id}`, `{attribute.serial}`, a capture of the path."""

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Self

import msgspec

# What every device can say about itself; captures may not take these names.
PLACEHOLDERS = ("id", "index", "host_path", "local_path", "path")
ATTRIBUTE = "attribute"

_TOKEN = re.compile(r"\{\{|\}\}|\{(?P<field>[^{}]*)\}|[{}]|[^{}]+")
_FIELD = re.compile(rf"(?:{ATTRIBUTE}\.)?[A-Za-z_][A-Za-z0-9_]*")
_LITERAL = {"{{": "{", "}}": "}"}
STRAY = {
    "{": "`{` is never closed; write `{{` for a literal one",
    "}": "`}` closes nothing; write `}}` for a literal one",
}


def escape(text: str) -> str:
    """Make text that a template renders as it is."""
    return text.replace("{", "{{").replace("}", "}}")


class TemplateError(ValueError):
    """The text is no template; the message says why, in one line."""


class Template(msgspec.Struct, frozen=True, dict=True):
    """Text with placeholders. Equal templates render equally."""

    # Literal text and the field that follows it, as string.Formatter has them.
    parts: tuple[tuple[str, str | None], ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        parts: list[tuple[str, str | None]] = []
        literal = ""
        for token in _TOKEN.finditer(text):
            piece, field = token[0], token["field"]
            if field is not None:
                if not _FIELD.fullmatch(field):
                    raise TemplateError(
                        f"`{piece}` is no placeholder; write `{{{{` and `}}}}` for literal braces"
                    )
                parts.append((literal, field))
                literal = ""
            elif piece in STRAY:
                raise TemplateError(STRAY[piece])
            else:
                literal += _LITERAL.get(piece, piece)
        if literal:
            parts.append((literal, None))
        return cls(tuple(parts))

    @cached_property
    def fields(self) -> frozenset[str]:
        return frozenset(field for _, field in self.parts if field is not None)

    @property
    def constant(self) -> bool:
        return not self.fields

    def render(self, values: Mapping[str, str]) -> str:
        """Fill in the values, as they are: braces in them mean nothing. KeyError if one lacks."""
        return "".join(
            literal if field is None else literal + values[field] for literal, field in self.parts
        )
