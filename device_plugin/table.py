"""Text tables, and text that fits where they do."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence

WIDTH = 100  # columns, where the cells allow it
_GAP = "  "
_NARROWEST = 24  # columns of a last column that is wrapped
_INDENT = "    "  # of a last cell that has lines of its own
_GLUE = "\u00a0"  # a space at which `fill` does not break

Row = tuple[str, ...]


def table(rows: Iterable[Row], *, wrap: bool = False, width: int = WIDTH) -> str:
    """Align columns. The last one may be as long as it is, or with `wrap` all fit in `width`.

    Then what is too long for its column is alone on its line, and what follows goes on below, in
    its own column. Only a word, such as a path, is never cut.
    """
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if not wrap:
        return "\n".join(_line(row, widths) for row in rows)
    _narrow(rows, widths, width)
    return "\n".join(line for row in rows for line in _wrapped(row, widths, width))


def fill(text: str, indent: str = "") -> str:
    """Wrap a text between words only; no longer than `WIDTH` where these allow it."""
    return "\n".join(_lines(text, WIDTH, indent)).replace(_GLUE, " ")


def glued(text: str) -> str:
    """A text that `fill` takes for one word: somebody will copy it."""
    return text.replace(" ", _GLUE)


def _lines(text: str, width: int, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return _GAP.join(padded).rstrip()


def _narrow(rows: Sequence[Row], widths: list[int], width: int) -> None:
    """Let the widest columns be too narrow for their longest cells until the last one has room."""
    needed = min(widths[-1], _NARROWEST)
    while _start(widths) + needed > width:
        at = max(range(len(widths) - 1), key=widths.__getitem__)
        shorter = {len(row[at]) for row in rows if len(row[at]) < widths[at]}
        if not shorter:
            return
        widths[at] = max(shorter)


def _start(widths: Sequence[int]) -> int:
    """Where the last column begins."""
    return sum(one + len(_GAP) for one in widths[:-1])


def _wrapped(row: Row, widths: Sequence[int], width: int) -> Iterator[str]:
    *cells, last = row
    done = [""] * len(cells)  # what stands on the line by now
    for at, cell in enumerate(cells):
        done[at] = cell
        if len(cell) > widths[at]:
            yield _line(done[: at + 1], widths[: at + 1])
            done = [""] * len(cells)
    room = max(width - _start(widths), 1)
    first, *more = _lines(last, room) or [""]
    if max(map(len, (first, *more))) > room:  # a word that fits no better than below
        if any(done):
            yield _line(done, widths[:-1])
        yield from _lines(last, width, _INDENT)
        return
    yield _line((*done, first), widths)
    yield from (_line((*("" for _ in cells), line), widths) for line in more)
