"""Text tables, and text that fits where they do."""

import textwrap
from collections.abc import Iterable, Sequence

WIDTH = 100  # columns, where the cells allow it
_GAP = "  "
_NARROWEST = 24  # columns of a last column that is wrapped


def table(rows: Iterable[tuple[str, ...]], *, wrap: bool = False) -> str:
    """Align columns. The last one may be as long as it is, or with `wrap` goes on below itself."""
    rows = list(rows)
    widths = _widths(rows)
    if wrap:
        room = max(_NARROWEST, WIDTH - sum(widths[:-1]) - len(_GAP) * (len(widths) - 1))
        rows = [line for row in rows for line in _wrapped(row, room)]
    lines = (
        _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def _widths(rows: Sequence[tuple[str, ...]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def _wrapped(row: tuple[str, ...], room: int) -> list[tuple[str, ...]]:
    *cells, last = row
    first, *more = textwrap.wrap(last, room, break_on_hyphens=False) or [""]
    return [(*cells, first), *((*("" for _ in cells), line) for line in more)]
