"""The output ids of response lines, of any known shape that holds them; which lines count, `contracts.shapes` says."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from contracts.records import Response
from contracts.sample_id import sample_key
from contracts.shapes import BadLine, Outcome, decode_response_line
from contracts.shapes.answer import FAILED_REASONS
from contracts.shapes.line import read_items
from contracts.shapes.output_ids import output_ids_of

_BLANKS: Final = b"\xef\xbb\xbf \t\r"


class Answer(NamedTuple):
    """An accepted response, as one line states it."""

    key: bytes
    """``sample_key`` of its sample."""
    ids: npt.NDArray[np.int64] | None
    """None: it states none, or another number of them than it counts."""
    completion_tokens: int | None
    prompt_tokens: int | None
    finish_reason: str | None


class _Ours(Response, kw_only=True, forbid_unknown_fields=True):
    """A line as our writer makes it: any further key might change what it means."""


_OURS: Final = msgspec.json.Decoder(_Ours)
_IDS: Final = msgspec.json.Decoder(list[int])


def read_answers(line: bytes, wanted: Collection[bytes]) -> list[Answer]:
    """Return the accepted responses of one line that belong to wanted samples; none for an unreadable line.

    Args:
        line: Without its newline.
        wanted: ``sample_key`` of the samples whose ids are worth decoding.
    """
    try:
        record = _OURS.decode(line)
        if record.sample_id != "" and record.finish_reason and record.finish_reason not in FAILED_REASONS:
            key, count = sample_key(record.sample_id), record.completion_tokens
            if key not in wanted:
                return []
            ids = _decoded(bytes(record.output_ids), count)
            return [Answer(key, ids, count, record.prompt_tokens, record.finish_reason)]
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    return _foreign(line, wanted)


def _foreign(line: bytes, wanted: Collection[bytes]) -> list[Answer]:
    facts = decode_response_line(line)
    if isinstance(facts, BadLine) or not any(
        fact.outcome is Outcome.COMPLETE and fact.key in wanted for fact in facts if fact.key is not None
    ):
        return []
    objects = read_items(line) if line.lstrip(_BLANKS).startswith(b"[") else [line]
    if len(objects) != len(facts):
        objects = [b""] * len(facts)  # several rollouts in one object: no known tool writes ids there
    return [
        Answer(
            fact.key,
            _decoded(output_ids_of(found), fact.completion_tokens),
            fact.completion_tokens,
            fact.prompt_tokens,
            fact.finish_reason,
        )
        for fact, found in zip(facts, objects, strict=True)
        if fact.outcome is Outcome.COMPLETE and fact.key is not None and fact.key in wanted
    ]


def _decoded(text: bytes | None, count: int | None) -> npt.NDArray[np.int64] | None:
    """Return ids as an array when they are whole numbers, and as many as are counted."""
    if text is None:
        return None
    try:
        ids = _IDS.decode(text)
        return np.array(ids, np.int64) if count in (None, len(ids)) else None
    except (msgspec.DecodeError, UnicodeDecodeError, OverflowError):
        return None
