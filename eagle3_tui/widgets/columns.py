"""The columns of the data set table: how wide each is, and which go first on a narrow screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from contracts.status import RunStatus
from eagle3_tui.text import cell_width, visible
from eagle3_tui.widgets import cells
from eagle3_tui.widgets.cells import PERCENT, STORED, Cell, Row
from eagle3_tui.widgets.look import Look

NAME: Final = "data set"
"""Title of the first column, which is always there."""
_SIGN: Final = 2
"""Cells of the sign before a name."""
_NAME: Final = (18, 48)
"""Least and most cells of the name."""
_BAR: Final = (4, 40)
_ROOMY: Final = 100
"""From this width on it is both numbers of what is stored."""
_WIDE: Final = 160
"""From this width on there are columns that are worth a look but no alarm."""


@dataclass(frozen=True)
class Column:
    """One column, placed."""

    title: str
    width: int
    draw: Callable[[Row, int, Look], Cell]
    right: bool = True


@dataclass(frozen=True)
class _Wanted:
    """A column that would like to be shown."""

    column: Column
    rank: int
    """0 stays to the last."""
    most: int = 0
    """Cells that it may grow to."""


def choose_columns(status: RunStatus, width: int) -> list[Column]:
    """Return the columns that fit in ``width`` cells, one cell between any two.

    A count that calls for attention (failed, unreadable) goes last when columns have to go.
    """
    wanted = _wanted(status, width)
    while len(wanted) > 1 and _total(wanted) > width:
        wanted.remove(max(wanted, key=lambda entry: entry.rank))
    spare = width - _total(wanted)
    columns = []
    for entry in wanted:
        grown = min(spare, max(entry.most - entry.column.width, 0))
        spare -= grown
        columns.append(replace(entry.column, width=entry.column.width + grown))
    return columns


def _total(wanted: Sequence[_Wanted]) -> int:
    return sum(entry.column.width for entry in wanted) + len(wanted) - 1


def _wanted(status: RunStatus, width: int) -> list[_Wanted]:
    rows = [*status.datasets, status.totals]
    longest = max(cell_width(NAME), *(cell_width(visible(row.name)) for row in rows)) + _SIGN
    least, most = (min(longest, limit + _SIGN) for limit in _NAME)
    done = max(len(cells.done_text(row)) for row in rows)
    failed = any(row.failed for row in rows)
    unreadable = any(row.unreadable for row in rows)
    numbers = max(STORED + 1, *(len(cells.stored_text(row)) for row in rows)) if width >= _ROOMY else STORED
    storing = [_Wanted(Column("stored", numbers, cells.stored), 3)] if status.totals.hidden is not None else []
    wide = width >= _WIDE
    return [
        _Wanted(Column(NAME, least, cells.name, right=False), 0, most),
        _Wanted(Column("stage", 8, cells.stage, right=False), 7),
        _Wanted(Column("done/prompts", max(done, 12), cells.done), 1),
        *storing,
        _Wanted(Column("to target", _BAR[0] + 1 + PERCENT, cells.target, right=False), 4, _BAR[1] + 1 + PERCENT),
        _Wanted(Column("tokens", 7, cells.tokens), 9),
        _Wanted(Column("mean", 6, cells.mean), 11),
        *([_Wanted(Column("in flight", 9, cells.in_flight), 14)] if wide else []),
        _Wanted(Column("tok/s", 6, cells.rate), 5),
        *([_Wanted(Column("run tok/s", 9, cells.run_rate), 15)] if wide else []),
        _Wanted(Column("length", 6, cells.length), 10),
        _Wanted(Column("failed", 6, cells.failed), 2 if failed else 8),
        *([_Wanted(Column("unread", 6, cells.unreadable), 2 if unreadable else 13)] if unreadable or wide else []),
        *([_Wanted(Column("left", 7, cells.left), 12)] if wide else []),
        _Wanted(Column("ETA", 9, cells.eta), 6),
    ]
