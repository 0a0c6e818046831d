"""Where the responses are whose hidden states are wanted: read from the response file as it grows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from contracts.journal.tail import Tail
from contracts.records import Response
from contracts.sample_id import sample_key
from contracts.shapes import BadLine, Outcome, decode_response_line
from contracts.shapes.answer import FAILED_REASONS


class Place(msgspec.Struct, frozen=True, gc=False):
    """One accepted response."""

    key: bytes
    n_output_ids: int | None
    """None: the line holds no ids, or another number of them than it states."""
    rid: str | None
    offset: int
    """Of its line in the file, in bytes."""
    length: int


class _Ours(Response, kw_only=True, forbid_unknown_fields=True):
    """A line as our writer makes it: any further key might change what it means. Its ids are not looked at here."""


_OURS: Final = msgspec.json.Decoder(_Ours)


class ResponsePlaces:
    """Follows a response file; the first accepted response of a sample counts, as in the fold.

    Args:
        path: ``raw_responses.jsonl``.
    """

    def __init__(self, path: Path) -> None:
        self._tail = Tail(path)
        self._seen: set[bytes] = set()
        self._new: list[Place] = []
        self._lines = 0
        self.was_reset = False
        """The file was cut or replaced: what was said of it holds no longer. Set back by the reader."""

    def poll(self, most_bytes: int | None = None) -> Iterator[Place]:
        """Yield the accepted responses that are new.

        Raises:
            OSError: The file is there and cannot be read.
        """
        self._tail.poll(self, most_bytes)
        new, self._new = self._new, []
        yield from new

    def reset(self, why: str) -> None:
        """Start again; see `contracts.journal.tail.LineSink`."""
        self._seen.clear()
        self._new.clear()
        self._lines = 0
        self.was_reset = True

    def feed(self, block: bytearray, end: int, offset: int, bulk: bool) -> None:
        """Take whole lines; see `contracts.journal.tail.LineSink`."""
        position = 0
        while position < end:
            self._lines += 1
            newline = block.find(b"\n", position, end)
            self._line(bytes(block[position:newline]), offset + position)
            position = newline + 1

    def _line(self, line: bytes, offset: int) -> None:
        try:
            ours = _OURS.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._foreign(line, offset)
            return
        if ours.finish_reason and ours.finish_reason not in FAILED_REASONS:
            key = sample_key(ours.sample_id)
            # The daemon has compared count and ids before it wrote the line.
            self._add(Place(key, ours.completion_tokens, ours.rid, offset, len(line)))

    def _foreign(self, line: bytes, offset: int) -> None:
        facts = decode_response_line(line)
        if isinstance(facts, BadLine):
            return  # counted and shown by the fold
        for fact in facts:
            if fact.key is None or not (fact.outcome is Outcome.COMPLETE or fact.part):
                continue
            # Pieces of a stream have no ids that are whole, and a count that contradicts the ids makes both doubtful.
            agrees = not fact.part and fact.completion_tokens in (None, fact.n_output_ids)
            self._add(Place(fact.key, fact.n_output_ids if agrees else None, None, offset, len(line)))

    def _add(self, place: Place) -> None:
        if place.key not in self._seen:
            self._seen.add(place.key)
            self._new.append(place)
