"""The columns of the two lists on a data set's screen: its newest answers, and its newest stored samples."""

from __future__ import annotations

from rich.style import Style

from contracts.details.latest import Record
from contracts.details.stored import STORED, StoredRecord
from eagle3_tui.text import UNKNOWN, human_bytes, human_duration, human_exact, human_rate
from eagle3_tui.widgets.listing import ListColumn
from eagle3_tui.widgets.look import Look
from eagle3_tui.widgets.times import stamp


def _when(at: float | None, now: float, look: Look) -> tuple[str, Style]:
    return (UNKNOWN if at is None else stamp(at, now)), look.dim


def _sample(record: Record | StoredRecord, now: float, look: Look) -> tuple[str, Style]:
    return (record.key if record.key is not None else f"(no id, byte {record.offset:,})"), look.bold


def _ended(record: Record, now: float, look: Look) -> tuple[str, Style]:
    if record.why is not None or record.finish_reason is None:
        return record.outcome, look.bad if record.why is not None else look.plain
    return record.finish_reason, look.warn if record.finish_reason == "length" else look.plain


def _speed(record: Record, now: float, look: Look) -> tuple[str, Style]:
    known = record.completion_tokens is not None and record.took_s
    return human_rate((record.completion_tokens or 0) / record.took_s if known and record.took_s else None), look.plain


def _host(url: str | None) -> str:
    return UNKNOWN if url is None else url.removeprefix("http://")


ANSWERS: tuple[ListColumn[Record], ...] = (
    ListColumn("when", 8, lambda record, now, look: _when(record.finished_at, now, look), rank=1),
    ListColumn("sample", 18, _sample, grows=True),
    ListColumn("prompt", 6, lambda record, now, look: (human_exact(record.prompt_tokens), look.plain), 3, right=True),
    ListColumn("answer", 7, lambda record, now, look: (human_exact(record.completion_tokens), look.plain), right=True),
    ListColumn("ended", 10, _ended),
    ListColumn("took", 8, lambda record, now, look: (human_duration(record.took_s), look.plain), 4, right=True),
    ListColumn("tok/s", 6, _speed, rank=6, right=True),
    ListColumn("att", 3, lambda record, now, look: (human_exact(record.attempt), look.plain), rank=5, right=True),
    ListColumn("server", 21, lambda record, now, look: (_host(record.server), look.dim), rank=7),
)


def _outcome(record: StoredRecord, now: float, look: Look) -> tuple[str, Style]:
    return record.outcome, look.plain if record.outcome == STORED else look.bad


def _size(record: StoredRecord, now: float, look: Look) -> tuple[str, Style]:
    return (UNKNOWN if record.bytes is None else human_bytes(record.bytes)), look.plain


def _place(record: StoredRecord, now: float, look: Look) -> tuple[str, Style]:
    if record.why is not None:
        return record.why, look.warn
    return f"row {record.row} of {record.file}", look.dim


SAMPLES: tuple[ListColumn[StoredRecord], ...] = (
    ListColumn("when", 8, lambda record, now, look: _when(record.at, now, look), rank=1),
    ListColumn("sample", 18, _sample, grows=True),
    ListColumn("rows", 7, lambda record, now, look: (human_exact(record.tokens), look.plain), right=True),
    ListColumn("learn", 7, lambda record, now, look: (human_exact(record.loss_tokens), look.plain), 2, right=True),
    ListColumn("size", 8, _size, 3, right=True),
    ListColumn("state", 10, _outcome),
    ListColumn("capture", 10, lambda record, now, look: (record.capture or "", look.plain), 5),
    ListColumn("where", 30, _place, rank=4),
    ListColumn("server", 21, lambda record, now, look: (_host(record.server), look.dim), rank=6),
)
