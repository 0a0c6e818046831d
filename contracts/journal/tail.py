"""New whole lines of a growing file, through partial lines, truncation, replacement and deletion.

The state is (device, inode, offset); a change event of the file system is at most a reason to look. Lines go to a
`LineSink` in blocks, without a copy: the sink reads them in place.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Protocol

import msgspec

from contracts.journal.extent import Extent, whole
from contracts.journal.stale import retry_stale

BLOCK_BYTES: Final = 256 * 1024
BULK_BYTES: Final = 16 * BLOCK_BYTES
"""A poll that finds more than this is bulk reading."""
_LONGEST_LINE: Final = 1 << 30
_REMEMBERED: Final = 64
_BLANKS: Final = b" \t\r"
_BOM: Final = b"\xef\xbb\xbf"


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
            bulk: It is much that is to be read: be quick.
        """


class Position(msgspec.Struct, frozen=True):
    """How far a file was read, and which file it was."""

    device: int
    inode: int
    offset: int
    mtime_ns: int = 0
    last: bytes = b""
    """The bytes before ``offset``, `_REMEMBERED` at most: a file that was written anew has others there, also when it
    is as long as before or has got the inode of the one before."""
    unended: bool = False
    """The last line that was read had no newline yet."""


class Tail:
    """Reads what is new in one file each time `poll` is called; holds no file open in between.

    Args:
        path: The file.
        position: What was read of it already.
        extent: How much of it counts.
    """

    def __init__(self, path: Path, position: Position | None = None, extent: Extent = whole) -> None:
        self.path = path
        self.position = position
        self._extent = extent

    def poll(self, sink: LineSink, most_bytes: int | None = None) -> bool:
        """Feed all new whole lines to the sink; return whether anything happened.

        A missing file is no error: it may come (or come back) later, and what was read of it is forgotten.

        Args:
            sink: Takes the lines.
            most_bytes: Stop after the block in which so many are reached; the next call goes on. None: read all.

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
        known = self.position
        if known is not None and (stat.st_size, stat.st_mtime_ns) == (known.offset, known.mtime_ns):
            return changed
        return retry_stale("read", self.path, lambda: self._read(sink, most_bytes)) or changed

    def _compare(self, stat: os.stat_result, sink: LineSink) -> bool:
        """Start from 0 when the file is another one, or shorter than what was read of it."""
        known = self.position
        if known is None:
            return False
        if (known.device, known.inode) != (stat.st_dev, stat.st_ino):
            self._start_again("was replaced", sink)
        elif stat.st_size < known.offset:
            self._start_again(f"was cut from {known.offset} to {stat.st_size} bytes", sink)
        else:
            return False
        return True

    def _start_again(self, what: str, sink: LineSink) -> None:
        known, self.position = self.position, None
        if known is not None and known.offset == 0:
            return  # nothing was read of it: there is nothing to forget, and nothing to tell
        sink.reset(f"{self.path.name} {what}: counted again from its start")

    def _read(self, sink: LineSink, most_bytes: int | None) -> bool:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False  # gone since the stat: the next poll says so
        try:
            stat = os.fstat(descriptor)
            known = self.position
            if known is not None and (known.device, known.inode) != (stat.st_dev, stat.st_ino):
                return False  # replaced since the stat: the next poll sees it
            anew = known is not None and self._is_rewritten(descriptor, known)
            if anew:
                self._start_again("was written anew", sink)
            return self._feed_blocks(descriptor, stat, sink, most_bytes) or anew
        finally:
            os.close(descriptor)

    def _is_rewritten(self, descriptor: int, known: Position) -> bool:
        """Whether what stands before and right behind the known position cannot be what was read there."""
        if os.pread(descriptor, len(known.last), known.offset - len(known.last)) != known.last:
            return True
        # A line that was taken as whole without its newline can only be followed by it.
        rest = os.pread(descriptor, _REMEMBERED, known.offset) if known.unended else b""
        return bool(rest.partition(b"\n")[0].strip(_BLANKS))

    def _feed_blocks(self, descriptor: int, stat: os.stat_result, sink: LineSink, most_bytes: int | None) -> bool:
        """Feed what is behind the position; return whether there was anything."""
        known = self.position
        size = self._extent(self.path, stat.st_size)
        limit = None if size == stat.st_size else size
        start = offset = 0 if known is None else known.offset
        last, unended = (b"", False) if known is None else (known.last, known.unended)
        if limit is not None and offset >= limit:
            self.position = Position(stat.st_dev, stat.st_ino, offset, 0, last, unended)
            return False
        block = bytearray(min(BLOCK_BYTES, max(size - offset, 0) + 1))  # one more: what is read short is the end
        bulk = size - offset > BULK_BYTES
        while True:
            # Kept with every block: an error in the middle leaves what was fed and what counts as read in step.
            self.position = Position(stat.st_dev, stat.st_ino, offset, stat.st_mtime_ns, last, unended)
            if most_bytes is not None and offset - start >= most_bytes:
                return True
            got = os.preadv(descriptor, [block], offset)
            if limit is not None:
                got = min(got, limit - offset)
            end = block.rfind(b"\n", 0, got) + 1
            if end:
                ended = block.find(b"\n") + 1 if unended else 0
                if ended < end:
                    sink.feed(block[ended:] if ended else block, end - ended, offset + ended, bulk)
                offset, unended = offset + end, False
                last = bytes(block[max(end - _REMEMBERED, 0) : end])
                if end == got < len(block):
                    self.position = Position(stat.st_dev, stat.st_ino, offset, stat.st_mtime_ns, last, unended)
                    return True
            elif got < len(block):
                if not unended and self._feed_unended(block, got, offset, sink):
                    offset, unended = offset + got, True
                    last = bytes(block[max(got - _REMEMBERED, 0) : got])
                self.position = Position(stat.st_dev, stat.st_ino, offset, stat.st_mtime_ns, last, unended)
                return offset != start
            elif len(block) >= _LONGEST_LINE:
                raise OSError(f"{self.path}: the line at byte {offset} is longer than {_LONGEST_LINE} bytes")
            else:
                block = bytearray(2 * len(block))

    def _feed_unended(self, block: bytearray, got: int, offset: int, sink: LineSink) -> bool:
        """Take a last line without a newline when it is whole: other tools end their files so.

        A complete JSON object or array cannot become a longer one, so it is a record, not half of one.
        """
        line = bytes(block[:got])
        if not is_whole_record(line.removeprefix(_BOM) if offset == 0 else line):
            return False
        sink.feed(bytearray(line + b"\n"), got + 1, offset, False)
        return True


_JSON: Final = msgspec.json.Decoder(msgspec.Raw)


def is_whole_record(line: bytes) -> bool:
    """Whether this is one complete JSON object or array, and not the beginning of a longer line."""
    text = line.strip(_BLANKS)
    if not (text.startswith(b"{") and text.endswith(b"}")) and not (text.startswith(b"[") and text.endswith(b"]")):
        return False
    try:
        _JSON.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True
