"""Some whole lines of a large file: the last ones, those around a place, those in which something is found.

A file is never read as a whole. Each function states how much it reads at most, so that a day of journals costs a
screen no more than a minute of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from contracts.journal.extent import Extent
from contracts.journal.stale import retry_stale

BLOCK: Final = 64 * 1024
WINDOW: Final = 1024 * 1024
"""Read at most for one window, unless a single line is longer."""
SEARCHED: Final = 32 * 1024 * 1024
"""Searched at most in one go; the caller goes on from there, so that others get their turn in between."""
_LONGEST: Final = 256 * 1024 * 1024

Result = TypeVar("Result")
Finder = Callable[[bytes, int], int]
"""(block of whole lines, place) -> where the next match begins at or behind the place; -1: there is none."""


@dataclass(frozen=True)
class Line:
    """One line of a file, without its newline."""

    offset: int
    text: bytes


@dataclass(frozen=True)
class Window:
    """Whole lines that follow each other."""

    lines: tuple[Line, ...]
    start: int
    """Byte at which the first of them begins: what is before it begins before here."""
    end: int
    """Byte behind the last of them."""
    size: int
    """Of the file when it was read; 0 when there is none."""

    @property
    def is_first(self) -> bool:
        """Whether nothing comes before it."""
        return self.start == 0


@dataclass(frozen=True)
class Searched:
    """How far a search came."""

    hits: tuple[Line, ...]
    next: int
    """Where to go on; the end of the part that was to be searched when all of it was."""
    done: bool


def counted(path: Path, extent: Extent) -> int | None:
    """Return how many bytes of a file count: not all where the past is shown; None: there is no file.

    Raises:
        OSError: The file cannot be read.
    """
    try:
        return extent(path, retry_stale("stat", path, path.stat).st_size)
    except FileNotFoundError:
        return None


def lines_before(path: Path, end: int | None, count: int, most_bytes: int = WINDOW) -> Window:
    """Return the last whole lines before a place.

    Args:
        path: The file; a missing one has no lines.
        end: Where a line begins, behind those that are wanted; None: the end of the file. A last line without its
            newline does not count.
        count: So many at most.
        most_bytes: Read no more than that, except to get one line at least.

    Raises:
        OSError: The file cannot be read.
    """
    return _opened(path, lambda file, size: _before(file, size, end, count, most_bytes), Window((), 0, 0, 0))


def lines_after(path: Path, start: int, count: int, most_bytes: int = WINDOW) -> Window:
    """Return the first whole lines from a place on, which must be the beginning of a line; see `lines_before`.

    Raises:
        OSError: The file cannot be read.
    """
    return _opened(path, lambda file, size: _after(file, size, start, count, most_bytes), Window((), 0, 0, 0))


def search(path: Path, finder: Finder, start: int, end: int | None, hits: int, most_bytes: int = SEARCHED) -> Searched:
    """Return the lines in which something is found, from a place on.

    Args:
        path: The file.
        finder: Looks in whole blocks; what it finds holds no newline.
        start: Where a line begins.
        end: Where to stop; None: at the end of the file.
        hits: Stop after so many.
        most_bytes: Stop after about so many bytes; `Searched.next` says where to go on.

    Raises:
        OSError: The file cannot be read.
    """

    def read(file: int, size: int) -> Searched:
        found: list[Line] = []
        stop = size if end is None else min(end, size)
        for offset, block in _blocks(file, start, stop):
            for line in _matching(block, offset, finder):
                found.append(line)
                if len(found) == hits:
                    return Searched(tuple(found), line.offset + len(line.text) + 1, done=False)
            if offset + len(block) - start >= most_bytes:
                return Searched(tuple(found), offset + len(block), done=False)
        return Searched(tuple(found), stop, done=True)

    return _opened(path, read, Searched((), start, done=True))


def search_back(path: Path, finder: Finder, end: int | None, most_bytes: int = SEARCHED) -> Searched:
    """Return the last line before a place in which something is found; as `search`, backwards, one hit.

    Raises:
        OSError: The file cannot be read.
    """

    def read(file: int, size: int) -> Searched:
        place, looked = size if end is None else min(end, size), 0
        while place > 0:
            window = _before(file, size, place, 1 << 30, WINDOW)
            if not window.lines:
                break
            block = b"\n".join(line.text for line in window.lines) + b"\n"
            hit = None
            for hit in _matching(block, window.start, finder):  # noqa: B007 - the last of them is wanted
                pass
            if hit is not None:
                return Searched((hit,), hit.offset, done=False)
            looked += place - window.start
            place = window.start
            if looked >= most_bytes and place > 0:
                return Searched((), place, done=False)
        return Searched((), 0, done=True)

    return _opened(path, read, Searched((), 0, done=True))


def matching(pattern: re.Pattern[bytes]) -> Finder:
    """Return what finds a pattern."""

    def find(block: bytes, place: int) -> int:
        match = pattern.search(block, place)
        return -1 if match is None else match.start()

    return find


def line_at(path: Path, offset: int) -> bytes | None:
    """Return the line that begins at a byte, without its newline; None when there is none or it has no end yet.

    Raises:
        OSError: The file cannot be read.
    """
    window = lines_after(path, offset, 1)
    return window.lines[0].text if window.lines else None


def _opened(path: Path, action: Callable[[int, int], Result], missing: Result) -> Result:
    def once() -> Result:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return missing
        try:
            return action(descriptor, os.fstat(descriptor).st_size)
        finally:
            os.close(descriptor)

    return retry_stale("read", path, once)


def _before(file: int, size: int, end: int | None, count: int, most_bytes: int) -> Window:
    stop = size if end is None else min(end, size)
    start, pieces, newlines, last = stop, [b""], 0, -1
    while start > 0:
        length = min(BLOCK, start)
        piece = os.pread(file, length, start - length)
        start -= length
        pieces.append(piece)
        newlines += piece.count(b"\n")
        if last < 0 and newlines:
            last = start + piece.rfind(b"\n") + 1
        read = stop - start
        # One newline more than lines: the one that ends the line before them.
        if newlines > count or (read >= most_bytes and newlines > 1) or read >= _LONGEST:
            break
    if last < 0:
        return Window((), stop, stop, size)
    text = b"".join(reversed(pieces))[: last - start]
    if start > 0:
        cut = text.find(b"\n") + 1
        text, start = text[cut:], start + cut
    lines = _split(text, start)
    kept = lines[-count:] if count else []
    return Window(tuple(kept), kept[0].offset if kept else last, last, size)


def _after(file: int, size: int, start: int, count: int, most_bytes: int) -> Window:
    text, place = bytearray(), start
    newlines = 0
    while place < size:
        piece = os.pread(file, min(BLOCK, size - place), place)
        if not piece:
            break
        text += piece
        place += len(piece)
        newlines += piece.count(b"\n")
        if newlines >= count or (len(text) >= most_bytes and newlines) or len(text) >= _LONGEST:
            break
    lines = _split(bytes(text[: text.rfind(b"\n") + 1]), start)[:count]
    end = lines[-1].offset + len(lines[-1].text) + 1 if lines else start
    return Window(tuple(lines), start, end, size)


def _split(text: bytes, start: int) -> list[Line]:
    lines = []
    for piece in text.split(b"\n")[:-1]:
        lines.append(Line(start, piece))
        start += len(piece) + 1
    return lines


def _blocks(file: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, whole lines) up to about a place; a last line without its newline is left out."""
    length = 16 * BLOCK
    while start < stop:
        block = os.pread(file, min(length, stop - start), start)
        end = block.rfind(b"\n") + 1
        if end:
            yield start, block[:end]
            start += end
            length = 16 * BLOCK
        elif start + len(block) >= stop or length >= _LONGEST:
            return
        else:
            length *= 2


def _matching(block: bytes, offset: int, finder: Finder) -> Iterator[Line]:
    """Yield the lines of a block in which something is found, each once."""
    place = 0
    while (match := finder(block, place)) >= 0:
        begin = block.rfind(b"\n", 0, match) + 1
        end = block.find(b"\n", match)
        yield Line(offset + begin, block[begin:end])
        place = end + 1
