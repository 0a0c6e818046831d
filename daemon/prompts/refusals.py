"""A line that cannot be used is refused by itself, with its number and a reason, and the rest goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from contracts.records import Failure, FailureClass, NextStep
from contracts.sample_id import SampleId

_SHOWN_CHARS: Final = 60


class PromptError(Exception):
    """A whole prompt file (not one of its lines) cannot be used; the message names the file and what to do."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why one record is not used; ``sample_id`` when the record told its id and that id can be written."""

    why: str
    sample_id: SampleId | None = None


class PromptRefusal(NamedTuple):
    """A `Refusal` with its place: the 1-based line (or element, when the file is one JSON array)."""

    line: int
    sample_id: SampleId | None
    why: str


def refusal_record(dataset: str, refusal: PromptRefusal, at: float) -> Failure:
    """Return the line of ``failures.jsonl`` for a refused prompt: never sent, never tried again.

    Args:
        dataset: Name of the data set, for the message.
        refusal: From `ImportReport.refusals` or `PromptIndex.refusals`.
        at: Unix seconds.
    """
    return Failure(
        sample_id=refusal.sample_id,
        error=FailureClass.INVALID_INPUT,
        message=f"{dataset}: line {refusal.line}: {refusal.why}",
        next=NextStep.REFUSED,
        at=at,
        line=refusal.line,
    )


def describe(value: object) -> str:
    """Name a JSON value in a reason: scalars as they are (shortened, control characters escaped), the rest by kind."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return _shorten(repr(value))
    if isinstance(value, str):
        return f"the text {quoted(value)}"
    return "a list" if isinstance(value, list) else "an object"


def quoted(text: str) -> str:
    """Return text in quotes for a message: escapes instead of control characters and lone surrogates, shortened."""
    return _shorten(repr(text[: _SHOWN_CHARS + 1]))


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "..."
