"""The columns of the data set table: what each shows, how wide it is, and which go first on a narrow screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from rich.style import Style

from contracts.status import DatasetStage, DatasetStatus, RunState, RunStatus
from eagle3_tui.store_text import given_up
from eagle3_tui.text import UNKNOWN, cell_width, human_count, human_exact, human_percent, human_rate, visible
from eagle3_tui.widgets.bars import bar, whole_percent
from eagle3_tui.widgets.line import cell
from eagle3_tui.widgets.look import MOVING, Look
from eagle3_tui.widgets.progress import dataset_share, stored_share
from eagle3_tui.widgets.times import short_moment

_NAME_TITLE: Final = "  data set"
"""The sign and a space are above nothing."""
_NAME: Final = (18, 40)
"""Least and most cells of the name."""
_BAR: Final = (4, 24)
_PERCENT: Final = 5
_STORED: Final = 6
"""Cells of a share of the samples to store."""
_ROOMY: Final = 100
"""From this width on both numbers are shown instead."""
_LENGTH_LIMIT_PCT: Final = 5.0

Cell = tuple[str, Style]


@dataclass(frozen=True)
class Row:
    """One data set, or all of them, with what its cells need to know of the run."""

    data: DatasetStatus
    at: float
    run: RunState
    total: bool = False
    share: float | None = None
    """Of all the work; only for the total."""


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
        columns.append(Column(entry.column.title, entry.column.width + grown, entry.column.draw, entry.column.right))
    return columns


def _total(wanted: Sequence[_Wanted]) -> int:
    return sum(entry.column.width for entry in wanted) + len(wanted) - 1


def _wanted(status: RunStatus, width: int) -> list[_Wanted]:
    rows = [*status.datasets, status.totals]
    longest = max(cell_width(_NAME_TITLE), *(cell_width(visible(row.name)) + 2 for row in rows))
    least, most = (min(longest, limit + 2) for limit in _NAME)
    done = max(len(_done_text(row)) for row in rows)
    failed = any(row.failed for row in rows)
    unreadable = any(row.unreadable for row in rows)
    numbers = max(_STORED + 1, *(len(_stored_text(row)) for row in rows)) if width >= _ROOMY else _STORED
    storing = [_Wanted(Column("stored", numbers, _stored), 3)] if status.totals.hidden is not None else []
    return [
        _Wanted(Column(_NAME_TITLE, least, _name, right=False), 0, most),
        _Wanted(Column("stage", 8, _stage, right=False), 7),
        _Wanted(Column("done/prompts", max(done, 12), _done), 1),
        *storing,
        _Wanted(Column("to target", _BAR[0] + 1 + _PERCENT, _target, right=False), 4, _BAR[1] + 1 + _PERCENT),
        _Wanted(Column("tokens", 7, _tokens), 10),
        _Wanted(Column("mean", 6, _mean), 12),
        _Wanted(Column("tok/s", 6, _rate), 5),
        _Wanted(Column("length", 6, _length), 11),
        _Wanted(Column("failed", 6, _failed), 2 if failed else 8),
        _Wanted(Column("unread", 6, _unreadable), 2 if unreadable else 9),
        _Wanted(Column("ETA", 9, _eta), 6),
    ]


def _name(row: Row, width: int, look: Look) -> Cell:
    sign, _, style = look.stage(row.data.stage)
    if row.data.stage is DatasetStage.FINISHED and given_up(row.data):
        sign, style = look.signs.warning, look.warn
    if row.total:
        return cell(f"  {row.data.name}", width, look), look.bold
    return cell(f"{sign} {row.data.name}", width, look), style if style is not look.active else look.plain


def _stage(row: Row, width: int, look: Look) -> Cell:
    if row.total:
        return " " * width, look.plain
    _, word, style = look.stage(row.data.stage)
    return cell(word, width, look), style


def _done_text(data: DatasetStatus) -> str:
    if not data.done and (data.stage is DatasetStage.PRETOKENIZED or data.to_answer == 0):
        return f"{UNKNOWN}/{human_exact(data.prompts)}"
    return f"{human_exact(data.done)}/{human_exact(data.to_answer)}"


def _done(row: Row, width: int, look: Look) -> Cell:
    return _right(_done_text(row.data), width, look, row)


def _stored_text(data: DatasetStatus) -> str:
    hidden = data.hidden
    return UNKNOWN if hidden is None else f"{human_exact(hidden.stored)}/{human_exact(hidden.to_store)}"


def _stored(row: Row, width: int, look: Look) -> Cell:
    """Both numbers where there is room for them, else their share."""
    text = _stored_text(row.data) if width > _STORED else whole_percent(stored_share(row.data))
    return _right(text, width, look, row)


def _target(row: Row, width: int, look: Look) -> Cell:
    data = row.data
    share = row.share if row.total else dataset_share(data)
    if share is None:
        return cell(UNKNOWN, width, look), look.dim
    size = width - 1 - _PERCENT
    text = f"{bar(share, size, look.signs)} {whole_percent(share):>{_PERCENT}}"
    finished = data.stage is DatasetStage.FINISHED or row.run is RunState.FINISHED
    return text, look.good if finished else look.active


def _tokens(row: Row, width: int, look: Look) -> Cell:
    return _right(human_count(row.data.completion_tokens), width, look, row)


def _mean(row: Row, width: int, look: Look) -> Cell:
    mean = row.data.avg_completion_tokens
    return _right(UNKNOWN if mean is None else f"{mean:,.0f}", width, look, row)


def _rate(row: Row, width: int, look: Look) -> Cell:
    return _right(human_rate(row.data.tokens_per_s), width, look, row)


def _length(row: Row, width: int, look: Look) -> Cell:
    share = row.data.length_pct
    text, style = _right(human_percent(share), width, look, row)
    return text, look.warn if share is not None and share > _LENGTH_LIMIT_PCT else style


def _failed(row: Row, width: int, look: Look) -> Cell:
    text, style = _right(human_exact(row.data.failed), width, look, row)
    return text, look.warn if row.data.failed else style


def _unreadable(row: Row, width: int, look: Look) -> Cell:
    text, style = _right(human_exact(row.data.unreadable), width, look, row)
    return text, look.bad if row.data.unreadable else style


def _eta(row: Row, width: int, look: Look) -> Cell:
    if row.data.stage is DatasetStage.FINISHED or (row.total and row.run is RunState.FINISHED):
        return _right("done", width, look, row)
    coming = row.run in MOVING and row.data.stage is not DatasetStage.PRETOKENIZED
    eta = row.data.eta_s if coming else None
    return _right(UNKNOWN if eta is None else short_moment(row.at + eta, row.at), width, look, row)


def _right(text: str, width: int, look: Look, row: Row) -> Cell:
    style = look.bold if row.total else look.dim if text in (UNKNOWN, "0") else look.plain
    return cell(text, width, look, right=True), style
