"""Lines of a block -> records, for folds that decode every line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import msgspec

from contracts.fold.places import Places
from contracts.shapes.values import printable

Record = TypeVar("Record")


def decoded_lines(
    block: bytearray, end: int, offset: int, lines: int, decoder: msgspec.json.Decoder[Record], unreadable: Places
) -> Iterator[Record]:
    """Yield the records of a block of whole lines, in order; as `located_records`, without their places."""
    for _, _, record in located_records(block, end, offset, lines, decoder, unreadable):
        yield record


def located_records(
    block: bytearray, end: int, offset: int, lines: int, decoder: msgspec.json.Decoder[Record], unreadable: Places
) -> Iterator[tuple[int, int, Record]]:
    """Yield (byte in the file, line from 1, record) for a block of whole lines, in order; blank lines hold none.

    Args:
        block: As `contracts.journal.tail.LineSink.feed` takes it.
        end: Bytes of it that count.
        offset: Where in the file the block starts.
        lines: Lines of the file before the block.
        decoder: Of one line.
        unreadable: Takes the places of lines that fit no known shape.
    """
    position = 0
    while position < end:
        lines += 1
        newline = block.find(b"\n", position, end)
        line = bytes(block[position:newline])
        if line.strip():
            try:
                record = decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                unreadable.add(offset + position, lines, printable(str(error)))
            else:
                yield offset + position, lines, record
        position = newline + 1
