"""Where in a journal a moment is: found by halving the file, so that no index is built, kept or out of date.

Records are appended in the order in which they were made, but for a little: of a file that was open at a moment,
exactly the lines before the first one with a later time can have been there. Between two sessions the wall clock may
have been set back; then what was written in the doubled stretch counts as later.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from contracts.journal.stale import retry_stale
from contracts.replay.stamps import stamp_of

BLOCK: Final = 64 * 1024
DISORDER_S: Final = 5.0
"""Lines are at most so much out of order."""
_LONGEST_LINE: Final = 1 << 30
_PROBED: Final = 32
"""Lines without a time, one after the other, after which a stretch is taken as without times."""


class Place(NamedTuple):
    """How much of a file was there at a moment."""

    offset: int
    """Bytes before the first line that is later."""
    until: float
    """When that line was made: so long nothing changes; infinite where there is none."""


def place_at(path: Path, size: int, at: float, known: int = 0) -> Place:
    """Return where the lines made after a moment begin.

    Args:
        path: A journal.
        size: How much of it there is.
        at: Unix seconds.
        known: Where a line begins, all lines before which are known to be from before.

    Returns:
        A file whose lines say no times counts in full.

    Raises:
        OSError: The file cannot be read.
    """

    def find() -> Place:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return Place(0, math.inf)
        try:
            return _scan(descriptor, size, at, _halve(descriptor, size, at, known))
        finally:
            os.close(descriptor)

    return retry_stale("read", path, find)


def first_stamp(path: Path, size: int) -> float | None:
    """Return the time of the first line that says one; None: none near the beginning does.

    Raises:
        OSError: The file cannot be read.
    """
    return _edge(path, size, first=True)


def last_stamp(path: Path, size: int) -> float | None:
    """Return the latest time among the last lines; None: none near the end says one.

    Raises:
        OSError: The file cannot be read.
    """
    return _edge(path, size, first=False)


def _edge(path: Path, size: int, *, first: bool) -> float | None:
    def find() -> float | None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            if first:
                found = _next_timed(descriptor, 0, size)
                return None if found is None else found[1]
            length = BLOCK
            while True:
                start = max(size - length, 0)
                begin = 0 if start == 0 else _line_start(descriptor, start, size)
                stamps = [stamp for _, line in _lines(descriptor, begin, size) if (stamp := stamp_of(line)) is not None]
                if stamps or start == 0 or length >= 64 * BLOCK:
                    return max(stamps, default=None)
                length *= 4
        finally:
            os.close(descriptor)

    return retry_stale("read", path, find)


def _halve(file: int, size: int, at: float, low: int) -> int:
    """Return where a line begins, not far before the first one later than a moment."""
    high = size
    while high - low > BLOCK:
        middle = (low + high) // 2
        found = _next_timed(file, _line_start(file, middle, high), high)
        if found is None:
            high = middle
        elif found[1] <= at - DISORDER_S:
            low = found[0]
        else:
            high = middle
    return low


def _scan(file: int, size: int, at: float, start: int) -> Place:
    """Return the place of the first line later than a moment, from a line on."""
    untimed = 0
    for offset, line in _lines(file, start, size):
        stamp = stamp_of(line)
        if stamp is None:
            untimed += 1
            if untimed > _PROBED and start == 0 and offset > BLOCK:
                return Place(size, math.inf)  # of another tool, that says no times
        elif stamp > at:
            return Place(offset, stamp)
        else:
            untimed = -1 << 30  # there are times: those without one stand among them
    return Place(size, math.inf)


def _line_start(file: int, place: int, end: int) -> int:
    """Return where the first line behind a place begins."""
    while place < end:
        piece = os.pread(file, min(BLOCK, end - place), place)
        found = piece.find(b"\n")
        if found >= 0:
            return place + found + 1
        if not piece:
            break
        place += len(piece)
    return end


def _next_timed(file: int, start: int, end: int) -> tuple[int, float] | None:
    """Return (byte, time) of the first line from a place on that says its time, of some."""
    for number, (offset, line) in enumerate(_lines(file, start, end)):
        stamp = stamp_of(line)
        if stamp is not None:
            return offset, stamp
        if number >= _PROBED:
            break
    return None


def _lines(file: int, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield (byte, line) of the lines between two places; the last one may have no newline."""
    rest = b""
    place = start
    while place < end:
        piece = os.pread(file, min(BLOCK, end - place), place)
        if not piece:
            break
        begin = place - len(rest)
        place += len(piece)
        if b"\n" not in piece and len(rest) < _LONGEST_LINE:
            rest += piece
            continue
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield begin, line
            begin += len(line) + 1
    if rest:
        yield place - len(rest), rest
