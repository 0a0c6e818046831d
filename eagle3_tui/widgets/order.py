"""Which data sets the table shows, and in which order: pure functions of the status and what the person asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from contracts.progress import dataset_progress
from contracts.status import DatasetStage, DatasetStatus
from eagle3_tui.text import visible
from eagle3_tui.widgets.columns import NAME
from eagle3_tui.widgets.look import Look

_STAGES: Final = (
    DatasetStage.HALTED,
    DatasetStage.RUNNING,
    DatasetStage.EXTRACTING,
    DatasetStage.WATCHING,
    DatasetStage.WAITING,
    DatasetStage.PRETOKENIZED,
    DatasetStage.FINISHED,
)
"""What needs a person comes first, what is over last."""

Key = Callable[[DatasetStatus], float | str | None]


def _eta(data: DatasetStatus) -> float | None:
    """What is done comes after whatever is still to come."""
    return float("inf") if data.stage is DatasetStage.FINISHED else data.eta_s


def _share(data: DatasetStatus) -> float | None:
    progress = dataset_progress(data)
    return None if progress is None else progress.done


_KEYS: Final[dict[str, tuple[Key, bool]]] = {
    NAME: (lambda data: visible(data.name).casefold(), False),
    "stage": (lambda data: None if data.stage is None else float(_STAGES.index(data.stage)), False),
    "done/prompts": (lambda data: data.done, True),
    "stored": (lambda data: None if data.hidden is None else data.hidden.stored, True),
    "to target": (_share, True),
    "tokens": (lambda data: data.completion_tokens, True),
    "mean": (lambda data: data.avg_completion_tokens, True),
    "in flight": (lambda data: data.in_flight, True),
    "tok/s": (lambda data: data.tokens_per_s, True),
    "run tok/s": (lambda data: data.tokens_per_s_run, True),
    "length": (lambda data: data.length_pct, True),
    "failed": (lambda data: data.failed, True),
    "unread": (lambda data: data.unreadable, True),
    "left": (_eta, False),
    "ETA": (_eta, False),
}
"""By title of the column: what is compared, and whether the largest comes first at first."""


@dataclass(frozen=True)
class Sort:
    """An order of the data sets."""

    title: str | None = None
    """Of a column; None: as in run.toml."""
    descending: bool = False

    def arrow(self, look: Look) -> str:
        """Return the sign that stands beside the title."""
        return ("▼" if self.descending else "▲") if look.unicode else ("v" if self.descending else "^")


def sort_by(title: str | None) -> Sort:
    """Return the order by a column, the way round in which one usually wants it."""
    return Sort(title, title is not None and _KEYS[title][1])


def next_sort(sort: Sort, titles: Sequence[str]) -> Sort:
    """Return the order by the column to the right; after the last one that of run.toml."""
    order: list[str | None] = [None, *titles]
    place = order.index(sort.title) if sort.title in order else 0
    return sort_by(order[(place + 1) % len(order)])


def arranged(datasets: Sequence[DatasetStatus], sort: Sort, wanted: str, look: Look) -> list[DatasetStatus]:
    """Return the data sets whose name or stage holds every word of ``wanted``, in order; unknown values come last."""
    words = wanted.casefold().split()
    found = [data for data in datasets if _matches(data, words, look)]
    if sort.title is None:
        return found[::-1] if sort.descending else found
    key, _ = _KEYS[sort.title]
    keyed = [(key(data), data) for data in found]
    known = [(value, data) for value, data in keyed if value is not None]
    known.sort(key=lambda entry: entry[0], reverse=sort.descending)
    return [data for _, data in known] + [data for value, data in keyed if value is None]


def _matches(data: DatasetStatus, words: Sequence[str], look: Look) -> bool:
    text = f"{visible(data.name)} {look.stage(data.stage)[1]}".casefold()
    return all(word in text for word in words)
