"""New whole lines of a growing file, through partial lines, truncation, replacement and deletion.

The state is (device, inode, offset); a change event of the file system is at most a reason to look. Lines go to a
`LineSink` in blocks, without a copy: the sink reads them in place.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Protocol

import msgspec

from contracts.journal.stale import retry_stale

BLOCK_BYTES: Final = 256 * 1024
_LONGEST_LINE: Final = 1 << 30


class LineSink(Protocol):
    """Takes the lines of one file."""

    def reset(self, why: str) -> None:
        """Forget everything: the file starts again. ``why`` is a sentence for the person who watches."""

    def feed(self, block: bytearray, end: int, offset: int, bulk: bool) -> None:
        """Take whole lines ``block[:end]``, the last byte of which is a newline.

        Args:
            block: Only valid during the call.
            end: Bytes of it that count.
            offset: Where in the file the block starts.
            bulk: More follows at once: be quick.
        """


class Position(msgspec.Struct, frozen=True):
    """How far a file was read, and which file it was."""

    device: int
    inode: int
    offset: int


class Tail:
    """Reads what is new in one file each time `poll` is called; holds no file open in between."""

    def __init__(self, path: Path, position: Position | None = None) -> None:
        self.path = path
        self.position = position

    def poll(self, sink: LineSink) -> bool:
        """Feed all new whole lines to the sink; return whether anything happened.

        A missing file is no error: it may come (or come back) later, and what was read of it is forgotten.

        Raises:
            OSError: The file is there and cannot be read.
        """
        try:
            stat = retry_stale("stat", self.path, self.path.stat)
        except FileNotFoundError:
            if self.position is None:
                return False
            self.position = None
            sink.reset(f"{self.path.name} was deleted")
            return True
        changed = self._compare(stat, sink)
        if self.position is not None and stat.st_size == self.position.offset:
            return changed
        return retry_stale("read", self.path, lambda: self._read(sink)) or changed

    def _compare(self, stat: os.stat_result, sink: LineSink) -> bool:
        """Start from 0 when the file is another one, or shorter than what was read of it."""
        known = self.position
        if known is None:
            return False
        if (known.device, known.inode) != (stat.st_dev, stat.st_ino):
            why = f"{self.path.name} was replaced"
        elif stat.st_size < known.offset:
            why = f"{self.path.name} was cut from {known.offset} to {stat.st_size} bytes"
        else:
            return False
        self.position = None
        sink.reset(f"{why}: counted again from its start")
        return True

    def _read(self, sink: LineSink) -> bool:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False  # gone since the stat: the next poll says so
        try:
            stat = os.fstat(descriptor)
            offset = self.position.offset if self.position else 0
            if self.position and self.position.inode != stat.st_ino:
                return False  # replaced since the stat: the next poll sees it
            end = self._feed_blocks(descriptor, offset, stat, sink)
        finally:
            os.close(descriptor)
        return end != offset

    def _feed_blocks(self, descriptor: int, offset: int, stat: os.stat_result, sink: LineSink) -> int:
        size = stat.st_size
        block = bytearray(min(BLOCK_BYTES, max(size - offset, 1)))
        bulk = size - offset > 16 * BLOCK_BYTES
        while True:
            # Kept with every block: an error in the middle leaves what was fed and what counts as read in step.
            self.position = Position(stat.st_dev, stat.st_ino, offset)
            got = os.preadv(descriptor, [block], offset)
            end = block.rfind(b"\n", 0, got) + 1
            if end:
                sink.feed(block, end, offset, bulk)
                offset += end
                continue
            if got < len(block):
                offset += self._feed_unended(block, got, offset, sink)
                self.position = Position(stat.st_dev, stat.st_ino, offset)
                return offset
            if len(block) >= _LONGEST_LINE:
                raise OSError(f"{self.path}: the line at byte {offset} is longer than {_LONGEST_LINE} bytes")
            block = bytearray(2 * len(block))

    def _feed_unended(self, block: bytearray, got: int, offset: int, sink: LineSink) -> int:
        """Take a last line without a newline when it is whole: other tools end their files so.

        A complete JSON object cannot become a longer one, so it is a record, not half of one.
        """
        if got == 0 or block[got - 1 : got] != b"}" or not is_whole_object(memoryview(block)[:got]):
            return 0
        sink.feed(block[:got] + b"\n", got + 1, offset, False)
        return got


_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def is_whole_object(line: bytes | memoryview) -> bool:
    """Whether this is one complete JSON object."""
    try:
        _OBJECT.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True
