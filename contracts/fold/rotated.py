"""Lines of a telemetry file and of what it was rotated into: new ones as they come, older ones backwards on demand.

The newest are read first, so that a day of telemetry costs nothing before somebody looks at the day. Every line is
handed over once; of a file that was cut or written anew the lines come again, as of a new one.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from contracts.journal.extent import Extent, whole
from contracts.journal.stale import retry_stale

BLOCK_BYTES: Final = 256 * 1024
_LONGEST_LINE: Final = 8 << 20


class Timed(Protocol):
    """A record that says when it was made."""

    at: float
    """Unix seconds."""


Sample = TypeVar("Sample", bound=Timed)


@dataclass
class _Read:
    """What was read of one file, in bytes."""

    begin: int
    end: int


@dataclass(frozen=True)
class _File:
    path: Path
    key: tuple[int, int]
    size: int


class RotatedLines(Generic[Sample]):
    """Reads ``path`` and ``path.1``, ``path.2``, ... as one journal.

    Args:
        path: The file that grows.
        shape: Type of a line.
        take: Is handed every record, in no order.
        extent: How much of each file counts.
    """

    def __init__(self, path: Path, shape: type[Sample], take: Callable[[Sample], None], extent: Extent = whole) -> None:
        self.path = path
        self._extent = extent
        self.unreadable = 0
        """Lines that fit no known shape, of those that were read."""
        self._decoder = msgspec.json.Decoder(shape)
        self._take = take
        self._read: dict[tuple[int, int], _Read] = {}
        self._reached: float | None = None
        """Newest moment in the block that was read last on the way back."""

    def read(self, since: float, most_bytes: int) -> bool:
        """Read what is new, then backwards; return whether everything since a moment was read.

        Args:
            since: Unix seconds; what is older may stay unread.
            most_bytes: About so much at most; the next call goes on.

        Raises:
            OSError: A file is there and cannot be read.
        """
        files = self._files()
        keys = {file.key for file in files}
        self._read = {key: read for key, read in self._read.items() if key in keys}
        if not self._read:
            self._reached = None  # the first look, or nothing is left of what was read
        left = most_bytes
        is_newer = False
        for file in reversed(files):
            if is_newer:  # than one that was read: it was begun since
                self._read.setdefault(file.key, _Read(0, 0))
            is_newer = is_newer or file.key in self._read
        for file in files:
            read = self._read.get(file.key)
            while read is not None:
                if left <= 0:
                    return False
                got = self._forwards(file, read, left)
                if not got:
                    break
                left -= got
        for file in files:
            while self._reached is None or self._reached >= since:
                if left <= 0:
                    return False
                got = self._backwards(file)
                if not got:
                    break
                left -= got
        return True

    def _files(self) -> list[_File]:
        """The files there are, the newest first."""
        files: list[_File] = []
        for number in itertools.count():
            path = self.path.with_name(f"{self.path.name}.{number}") if number else self.path
            try:
                stat = retry_stale("stat", path, path.stat)
            except FileNotFoundError:
                if number:
                    break
                continue  # it was rotated just now: the next line makes it anew
            key = (stat.st_dev, stat.st_ino)
            if all(file.key != key for file in files):  # rotated between two looks: the same file twice
                size = self._extent(path, stat.st_size)
                if size or self._extent is whole:
                    files.append(_File(path, key, size))
        return files

    def _forwards(self, file: _File, read: _Read, most_bytes: int) -> int:
        """Read what was appended behind what was read of a file; return how many bytes."""
        if file.size < read.end:
            read.begin = read.end = 0  # cut, or another file with the number of one that is gone
        fresh = file.size - read.end
        if not fresh:
            return 0
        length = min(fresh, max(most_bytes, BLOCK_BYTES))
        block = self._bytes(file, read.end, length)
        end = block.rfind(b"\n") + 1
        if not end and length < fresh:
            block = self._bytes(file, read.end, min(fresh, _LONGEST_LINE))
            end = block.find(b"\n") + 1 or (len(block) if len(block) == _LONGEST_LINE else 0)
        self._hand_over(block[:end])
        read.end += end
        return end

    def _backwards(self, file: _File) -> int:
        """Read the block before what was read of a file; return how many bytes, 0 where there is nothing more."""
        read = self._read.get(file.key)
        stop = file.size if read is None else read.begin
        length = BLOCK_BYTES
        while True:
            start = max(stop - length, 0)
            block = self._bytes(file, start, stop - start) if stop else b""
            if len(block) < stop - start:
                return 0  # cut or rotated since it was looked at: the next look sees it
            begin = block.find(b"\n") + 1 if start else 0
            end = block.rfind(b"\n") + 1 if read is None else len(block)
            if start == 0 or 0 < begin < end or length >= _LONGEST_LINE:
                break
            length *= 2  # for a line that is longer than the block
        if start and begin >= end:
            begin = 0  # no line is that long
        self._read[file.key] = _Read(start + begin, start + max(begin, end) if read is None else read.end)
        newest = self._hand_over(block[begin:end])
        if newest is not None:
            self._reached = newest
        return len(block) - begin

    def _bytes(self, file: _File, start: int, length: int) -> bytes:
        """Return so many bytes of a file, fewer where it has become another one or shorter."""

        def read() -> bytes:
            with file.path.open("rb") as opened:
                stat = os.fstat(opened.fileno())
                if (stat.st_dev, stat.st_ino) != file.key:
                    return b""
                opened.seek(start)
                return opened.read(length)

        try:
            return retry_stale("read", file.path, read)
        except FileNotFoundError:
            return b""

    def _hand_over(self, block: bytes) -> float | None:
        """Hand the records of whole lines over; return the newest moment among them."""
        try:
            records = self._decoder.decode_lines(block)
        except (msgspec.DecodeError, UnicodeDecodeError):
            records = []
            for line in block.split(b"\n"):
                if not line.strip():
                    continue
                try:
                    records.append(self._decoder.decode(line))
                except (msgspec.DecodeError, UnicodeDecodeError):
                    self.unreadable += 1
        for record in records:
            self._take(record)
        return max((record.at for record in records), default=None)
