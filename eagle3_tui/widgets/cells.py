"""What each cell of the data set table says: (row, width, look) -> text of exactly that width, and its style."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rich.style import Style

from contracts.progress import Progress, dataset_progress, stored_progress
from contracts.status import DatasetStage, DatasetStatus, RunState
from eagle3_tui.store_text import given_up
from eagle3_tui.text import UNKNOWN, human_count, human_duration, human_exact, human_percent, human_rate
from eagle3_tui.widgets.bars import bar, whole_percent
from eagle3_tui.widgets.line import cell
from eagle3_tui.widgets.look import MOVING, Look
from eagle3_tui.widgets.times import short_moment

PERCENT: Final = 5
"""Cells of a share behind its bar."""
STORED: Final = 6
"""Cells of a share of the samples to store; where there is more room both numbers are shown."""
_LENGTH_LIMIT_PCT: Final = 5.0

Cell = tuple[str, Style]


@dataclass(frozen=True)
class Row:
    """One data set, or all of them, with what its cells need to know of the run."""

    data: DatasetStatus
    at: float
    run: RunState
    total: bool = False
    progress: Progress | None = None
    """Of all the work; only for the total."""
    filtered: bool = False
    """Not all data sets are shown; the total is of all of them nevertheless."""


def name(row: Row, width: int, look: Look) -> Cell:
    """The sign of its stage and the name."""
    sign, _, style = look.stage(row.data.stage)
    if row.data.stage is DatasetStage.FINISHED and given_up(row.data):
        sign, style = look.signs.warning, look.warn
    if row.total:
        return cell(f"  {row.data.name}{' of all' if row.filtered else ''}", width, look), look.bold
    return cell(f"{sign} {row.data.name}", width, look), style if style is not look.active else look.plain


def stage(row: Row, width: int, look: Look) -> Cell:
    """The stage as a word."""
    if row.total:
        return " " * width, look.plain
    _, word, style = look.stage(row.data.stage)
    return cell(word, width, look), style


def done_text(data: DatasetStatus) -> str:
    """Return ``7,412/9,000``: answered of those that need an answer; ``-/9,800`` where none does."""
    if not data.done and (data.stage is DatasetStage.PRETOKENIZED or data.to_answer == 0):
        return f"{UNKNOWN}/{human_exact(data.prompts)}"
    return f"{human_exact(data.done)}/{human_exact(data.to_answer)}"


def done(row: Row, width: int, look: Look) -> Cell:
    """Answers and prompts."""
    return _right(done_text(row.data), width, look, row)


def stored_text(data: DatasetStatus) -> str:
    """Return ``7,398/7,412``: stored of those that can be."""
    hidden = data.hidden
    return UNKNOWN if hidden is None else f"{human_exact(hidden.stored)}/{human_exact(hidden.to_store)}"


def stored(row: Row, width: int, look: Look) -> Cell:
    """Both numbers where there is room for them, else their share."""
    stored = stored_progress(row.data)
    share = None if stored is None else stored.done
    return _right(stored_text(row.data) if width > STORED else whole_percent(share), width, look, row)


def target(row: Row, width: int, look: Look) -> Cell:
    """A bar and a share: of the token target, else of what the data set is at; what is given up in another shape."""
    data = row.data
    progress = row.progress if row.total else dataset_progress(data)
    if progress is None:
        return cell(UNKNOWN, width, look), look.dim
    size = width - 1 - PERCENT
    drawn = bar(progress.done, size, look.signs, progress.given_up)
    text = f"{drawn} {whole_percent(progress.done):>{PERCENT}}"
    finished = data.stage is DatasetStage.FINISHED or row.run is RunState.FINISHED
    return text, (look.warn if progress.given_up else look.good) if finished else look.active


def tokens(row: Row, width: int, look: Look) -> Cell:
    """Completion tokens."""
    return _right(human_count(row.data.completion_tokens), width, look, row)


def mean(row: Row, width: int, look: Look) -> Cell:
    """Mean length of an answer, in tokens."""
    length = row.data.avg_completion_tokens
    return _right(UNKNOWN if length is None else f"{length:,.0f}", width, look, row)


def rate(row: Row, width: int, look: Look) -> Cell:
    """Tokens a second, over the last minute."""
    return _right(human_rate(row.data.tokens_per_s), width, look, row)


def run_rate(row: Row, width: int, look: Look) -> Cell:
    """Tokens a second, over the run."""
    return _right(human_rate(row.data.tokens_per_s_run), width, look, row)


def in_flight(row: Row, width: int, look: Look) -> Cell:
    """Open requests."""
    return _right(human_exact(row.data.in_flight), width, look, row)


def length(row: Row, width: int, look: Look) -> Cell:
    """Share of answers that ended by length."""
    share = row.data.length_pct
    text, style = _right(human_percent(share), width, look, row)
    return text, look.warn if share is not None and share > _LENGTH_LIMIT_PCT else style


def failed(row: Row, width: int, look: Look) -> Cell:
    """Samples whose last attempt failed."""
    text, style = _right(human_exact(row.data.failed), width, look, row)
    return text, look.warn if row.data.failed else style


def unreadable(row: Row, width: int, look: Look) -> Cell:
    """Lines that fit no known shape."""
    text, style = _right(human_exact(row.data.unreadable), width, look, row)
    return text, look.bad if row.data.unreadable else style


def left(row: Row, width: int, look: Look) -> Cell:
    """Remaining time, as a span."""
    seconds = None if _is_done(row) else _eta_s(row)
    return _right(human_duration(seconds), width, look, row)


def eta(row: Row, width: int, look: Look) -> Cell:
    """When it will be done."""
    if _is_done(row):
        return _right("done", width, look, row)
    seconds = _eta_s(row)
    return _right(UNKNOWN if seconds is None else short_moment(row.at + seconds, row.at), width, look, row)


def _is_done(row: Row) -> bool:
    return row.data.stage is DatasetStage.FINISHED or (row.total and row.run is RunState.FINISHED)


def _eta_s(row: Row) -> float | None:
    coming = row.run in MOVING and row.data.stage is not DatasetStage.PRETOKENIZED
    return row.data.eta_s if coming else None


def _right(text: str, width: int, look: Look, row: Row) -> Cell:
    style = look.bold if row.total else look.dim if text in (UNKNOWN, "0") else look.plain
    return cell(text, width, look, right=True), style
