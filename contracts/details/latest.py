"""The newest records of a response file, read backwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from contracts.details.windows import Line, lines_before
from contracts.shapes import BadLine, Outcome, decode_response_line
from contracts.shapes.values import printable


class Head(msgspec.Struct):
    """What our own records say besides the counts; other tools' lines say none of it."""

    sample_id: Any = None
    started_at: Any = None
    finished_at: Any = None
    rid: Any = None
    server: Any = None
    attempt: Any = None
    cached_tokens: Any = None
    e2e_latency_s: Any = None
    matched: Any = None


class Record(msgspec.Struct, frozen=True):
    """One line of a response file, as far as it says."""

    offset: int
    key: str | None
    """The sample's id as text; None where the line names none."""
    outcome: str
    """Of `contracts.shapes.Outcome`, or ``unreadable``."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    finish_reason: str | None = None
    finished_at: float | None = None
    took_s: float | None = None
    """From sent to answered."""
    attempt: int | None = None
    server: str | None = None
    rid: str | None = None
    cached_tokens: int | None = None
    e2e_latency_s: float | None = None
    matched: str | None = None
    think_end: bool | None = None
    ids: int | None = None
    """Output ids in the line."""
    why: str | None = None
    """Why it failed or cannot be read."""


UNREADABLE: Final = "unreadable"
_HEAD: Final = msgspec.json.Decoder(Head)


def latest_records(path: Path, end: int | None, count: int) -> tuple[Record, ...]:
    """Return the last records of a response file, the newest first.

    Args:
        path: The file.
        end: How far it counts (see `contracts.details.windows.lines_before`).
        count: So many at most; fewer where they are very long.

    Raises:
        OSError: The file cannot be read.
    """
    return tuple(record_of(line) for line in reversed(lines_before(path, end, count).lines) if line.text.strip())


def record_of(line: Line) -> Record:
    """Return what a line of any known shape says; of several answers in it, the first."""
    facts = decode_response_line(line.text)
    if isinstance(facts, BadLine):
        return Record(offset=line.offset, key=None, outcome=UNREADABLE, why=facts.why)
    if not facts:
        return Record(offset=line.offset, key=None, outcome=Outcome.EMPTY)
    fact = facts[0]
    head = _head_of(line.text)
    started, finished = number(head.started_at), fact.finished_at
    return Record(
        offset=line.offset,
        key=None if fact.key is None else fact.key.decode("utf-8", "backslashreplace"),
        outcome=fact.outcome,
        prompt_tokens=fact.prompt_tokens,
        completion_tokens=fact.completion_tokens,
        finish_reason=fact.finish_reason,
        finished_at=finished,
        took_s=None if started is None or finished is None else max(finished - started, 0.0),
        attempt=head.attempt if type(head.attempt) is int else None,
        server=_text(head.server),
        rid=_text(head.rid),
        cached_tokens=head.cached_tokens if type(head.cached_tokens) is int else None,
        e2e_latency_s=number(head.e2e_latency_s),
        matched=None if head.matched is None else printable(str(head.matched), 64),
        think_end=fact.think_end,
        ids=fact.n_output_ids,
        why=fact.message,
    )


def number(value: object) -> float | None:
    """Return a value of unknown origin as a number, or None."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _head_of(line: bytes) -> Head:
    try:
        return _HEAD.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Head()


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
