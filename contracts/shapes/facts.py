"""What a response line says, whatever its shape, and how the pieces of a saved stream become one response."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TypeVar

_T = TypeVar("_T")


class Outcome(enum.StrEnum):
    """What became of the request that a line is about."""

    COMPLETE = "complete"
    """An accepted response, cut by its token limit or not."""
    FAILED = "failed"
    SKIPPED = "skipped"
    """Never sent, by decision of the tool that wrote the line."""
    EMPTY = "empty"
    """Names a sample but holds no generation."""
    INCOMPLETE = "incomplete"
    """Has no end (yet): a piece of a stream, or an answer cut off before its finish reason."""


@dataclass(slots=True, frozen=True)
class ResponseFact:
    """One generation, or one failure to get one, as a line states it. None is "the line does not say"."""

    key: bytes | None
    """`contracts.sample_id.sample_key` of the id; None when the line names no sample."""
    outcome: Outcome
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    finish_reason: str | None = None
    n_output_ids: int | None = None
    """How many output ids the line carries, to be compared with ``completion_tokens``."""
    finished_at: float | None = None
    """Unix seconds; only our own records say it."""
    think_end: bool | None = None
    message: str | None = None
    """The reason of a failure or a skip, without control characters."""
    part: bool = False
    """A piece of a stream: goes through `merge_parts` with the other pieces of its key."""
    started_at: float | None = None
    """When its request was sent; as ``finished_at``."""


@dataclass(slots=True, frozen=True)
class BadLine:
    """A line that could not be read."""

    why: str
    """One sentence for people, without control characters of the data."""


def merge_parts(older: ResponseFact, newer: ResponseFact) -> ResponseFact:
    """Return what two facts of one key say together.

    Counts of a stream are cumulative, so of each value the last one known holds. Pieces are complete once both the
    finish reason and the completion count are known: the count may come on a later, empty piece. A whole record
    replaces the pieces before it, and a piece after an accepted record only adds a count that the record lacks.

    Args:
        older: What earlier lines said.
        newer: What the next line of the same key says.
    """
    if not newer.part or older.outcome in (Outcome.FAILED, Outcome.SKIPPED, Outcome.EMPTY):
        return newer
    if older.outcome is Outcome.COMPLETE and not older.part:
        if older.completion_tokens is not None:
            return older
        prompt = newer.prompt_tokens if older.prompt_tokens is None else older.prompt_tokens
        return replace(older, prompt_tokens=prompt, completion_tokens=newer.completion_tokens)
    completion = _last(older.completion_tokens, newer.completion_tokens)
    reason = _last(older.finish_reason, newer.finish_reason)
    return ResponseFact(
        key=newer.key,
        outcome=Outcome.INCOMPLETE if completion is None or reason is None else Outcome.COMPLETE,
        prompt_tokens=_last(older.prompt_tokens, newer.prompt_tokens),
        completion_tokens=completion,
        finish_reason=reason,
        n_output_ids=_last(older.n_output_ids, newer.n_output_ids),
        finished_at=_last(older.finished_at, newer.finished_at),
        think_end=_last(older.think_end, newer.think_end),
        message=_last(older.message, newer.message),
        part=True,
        started_at=_last(older.started_at, newer.started_at),
    )


def _last(older: _T | None, newer: _T | None) -> _T | None:
    return older if newer is None else newer
