"""The newest samples in the store of a data set, read backwards from its index."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from contracts.details.latest import UNREADABLE
from contracts.details.windows import Line, lines_before
from contracts.records import INDEX_DECODER, DroppedSample
from contracts.sample_id import sample_key


class StoredRecord(msgspec.Struct, frozen=True):
    """One line of ``hidden_states.jsonl``, as far as it says."""

    offset: int
    key: str | None
    """The sample's id as text; None: the line cannot be read."""
    outcome: str
    """``stored``, ``taken out`` or ``unreadable``."""
    at: float | None = None
    tokens: int | None = None
    loss_tokens: int | None = None
    bytes: int | None = None
    truncated_from: int | None = None
    capture: str | None = None
    file: str | None = None
    row: int | None = None
    server: str | None = None
    why: str | None = None
    """Why it was taken out, or cannot be read."""


STORED: Final = "stored"
TAKEN_OUT: Final = "taken out"


def latest_stored(path: Path, end: int | None, count: int) -> tuple[StoredRecord, ...]:
    """Return the last records of the index of a store, the newest first.

    Args:
        path: The index.
        end: How far it counts (see `contracts.details.windows.lines_before`).
        count: So many at most.

    Raises:
        OSError: The file cannot be read.
    """
    return tuple(_record(line) for line in reversed(lines_before(path, end, count).lines) if line.text.strip())


def _record(line: Line) -> StoredRecord:
    try:
        record = INDEX_DECODER.decode(line.text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return StoredRecord(line.offset, None, UNREADABLE, why=str(error))
    key = sample_key(record.sample_id).decode("utf-8", "backslashreplace")
    if isinstance(record, DroppedSample):
        return StoredRecord(line.offset, key, TAKEN_OUT, record.at, why=record.why)
    return StoredRecord(
        offset=line.offset,
        key=key,
        outcome=STORED,
        at=record.at,
        tokens=record.tokens,
        loss_tokens=record.loss_tokens,
        bytes=record.bytes,
        truncated_from=record.truncated_from,
        capture=record.capture,
        file=record.file,
        row=record.row,
        server=record.server,
    )
