"""The dump files of one scheduler: opened, filled, given up. Used by one thread alone; knows no tensors.

What is known of a request is its open file; all else can be read back from the disk. So nothing grows over days of
serving, however many requests end without a word.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .dump_format import (
    DUMP_SUFFIX,
    ERROR_SUFFIX,
    HEADER_BYTES,
    MARK_BYTES,
    About,
    DumpHeader,
    dump_path,
    error_path,
    header_pages,
)

MOST_OPEN: Final = 2048
"""Files held open, or half of what the process may have; more requests at once cost an open and a close for each
write."""
MOST_FORGOTTEN: Final = 8192
"""Requests remembered as unwanted. It saves a look at the disk for each of their rows, no more."""
MOST_PIECES: Final = 512
"""Buffers in one call; the kernel takes 1024."""


class Refused(Exception):
    """Rows that cannot be right where they are; the message says why."""


@dataclass
class _Open:
    descriptor: int
    reached: int
    """Rows 0..reached-1 are there."""
    page: bytes
    """The header, until it is written: with the first marks, which follow it."""


class DumpFiles:
    """Dumps in one folder."""

    def __init__(
        self,
        folder: Path,
        about: About,
        *,
        most_open: int | None = None,
        pwritev: Callable[[int, Sequence[memoryview], int], int] = os.pwritev,
    ) -> None:
        """Make the folder, mode 0700, where it is missing.

        Raises:
            OSError: It cannot be made.
            DumpFormatError: The self-description does not fit a header.
        """
        self.folder = folder
        self._prefix = f"{folder}/"
        self._about = about
        self._most_open = most_open or min(MOST_OPEN, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
        self._pwritev = pwritev
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._forgotten: OrderedDict[str, None] = OrderedDict()
        header = _header(about)
        self._page = header_pages(header)
        self._row_bytes, self._rows_offset = header.row_bytes, header.rows_offset
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def row_bytes(self) -> int:
        """Bytes of one row, all slots."""
        return self._row_bytes

    @property
    def open_count(self) -> int:
        """Files held open."""
        return len(self._open)

    def write(self, rid: str, first: int, marks: list[memoryview], rows: list[memoryview]) -> bool:
        """Write consecutive rows from position `first` on, their marks before them.

        Returns:
            False where nobody wants them any more: the file was taken away, or there never was one.

        Raises:
            Refused: They do not follow what is there, or lie beyond the context.
            OSError: They cannot be written.
        """
        if rid in self._forgotten:
            return False
        dump = self._find(rid) or self._reopen(rid, first)
        if dump is None:
            self._forget(rid)
            return False
        joined = memoryview(b"".join(marks))
        count = len(joined) // MARK_BYTES
        if first > dump.reached:
            raise Refused(f"rows from position {first} on came, but only the first {dump.reached} are there")
        if first + count > self._about.context_length:
            raise Refused(f"a row for position {first + count - 1}: the context has {self._about.context_length}")
        if dump.page:
            self._put(dump.descriptor, [memoryview(dump.page), joined], 0)
            dump.page = b""
        else:
            self._put(dump.descriptor, [joined], HEADER_BYTES + MARK_BYTES * first)
        self._put(dump.descriptor, rows, self._rows_offset + self._row_bytes * first)
        dump.reached = max(dump.reached, first + count)
        return True

    def give_up(self, rid: str, why: str) -> bool:
        """Remove a request's dump, and say why where its rows would be; best effort, raises nothing.

        A full disk may leave the file of the reason empty, or missing: the dump stays removed.

        Returns:
            False where nobody wants it any more, or it was said before: nothing is done then, at each pass again.
        """
        if rid in self._forgotten:
            return False
        with contextlib.suppress(OSError):
            os.close(os.open(dump_path(self.folder, rid), os.O_WRONLY | os.O_TRUNC | _FLAGS))
        with contextlib.suppress(OSError):
            dump_path(self.folder, rid).unlink()
        self._close(rid)
        self._forget(rid)
        with contextlib.suppress(OSError):
            descriptor = os.open(error_path(self.folder, rid), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _FLAGS, 0o600)
            try:
                os.write(descriptor, why.encode("utf-8", "replace"))
            finally:
                os.close(descriptor)
        return True

    def close_taken(self) -> None:
        """Close the files that were taken away, so that nothing keeps their memory."""
        for rid in [rid for rid, dump in self._open.items() if _taken(dump)]:
            self._close(rid)
            self._forget(rid)

    def close(self) -> None:
        """Close all files."""
        for rid in list(self._open):
            self._close(rid)

    def _find(self, rid: str) -> _Open | None:
        dump = self._open.get(rid)
        if dump is None:
            return None
        if _taken(dump):
            self._close(rid)
            self._forget(rid)
            return None
        self._open.move_to_end(rid)
        return dump

    def _reopen(self, rid: str, first: int) -> _Open | None:
        """Make a file for a request's first row; open one that was closed to make room."""
        if rid in self._forgotten:
            return None
        page = self._page(rid)  # no other rid is one: so its paths can be put together the quick way
        path, new = f"{self._prefix}{rid}{DUMP_SUFFIX}", False
        try:
            if first == 0 and not os.access(f"{self._prefix}{rid}{ERROR_SUFFIX}", os.F_OK):
                descriptor, new = self._create(path), True
            else:
                descriptor = os.open(path, os.O_RDWR | _FLAGS)
        except FileExistsError:
            descriptor = os.open(path, os.O_RDWR | _FLAGS)
        except FileNotFoundError:
            return None
        dump = self._open[rid] = _Open(descriptor, 0, b"")
        if not new and os.pread(descriptor, HEADER_BYTES, 0) == page:
            dump.reached = max(0, os.fstat(descriptor).st_size - self._rows_offset) // self._row_bytes
        elif first != 0:  # left by another server, which had got the same request
            self._close(rid)
            return None
        else:
            if not new:
                os.ftruncate(descriptor, 0)
            dump.page = page
        while len(self._open) > self._most_open:
            self._close(next(iter(self._open)))
        return dump

    def _create(self, path: str) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS
        try:
            return os.open(path, flags, 0o600)
        except FileNotFoundError:  # somebody removed the folder
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.open(path, flags, 0o600)

    def _put(self, descriptor: int, parts: list[memoryview], offset: int) -> None:
        """Write the parts one after the other, all of them."""
        for begin in range(0, len(parts), MOST_PIECES):
            waiting = parts[begin : begin + MOST_PIECES]
            left = sum([part.nbytes for part in waiting])
            while left:
                written = self._pwritev(descriptor, waiting, offset)
                if written <= 0:
                    raise OSError(errno.EIO, "the kernel wrote nothing")
                offset += written
                left -= written
                if left:
                    waiting = _without(waiting, written)

    def _close(self, rid: str) -> None:
        dump = self._open.pop(rid, None)
        if dump is not None:
            with contextlib.suppress(OSError):
                os.close(dump.descriptor)

    def _forget(self, rid: str) -> None:
        self._forgotten[rid] = None
        while len(self._forgotten) > MOST_FORGOTTEN:
            self._forgotten.popitem(last=False)


_FLAGS: Final = os.O_CLOEXEC | os.O_NOFOLLOW


def _without(parts: list[memoryview], nbytes: int) -> list[memoryview]:
    """Return what is left of the parts behind so many bytes."""
    for place, part in enumerate(parts):
        if nbytes < part.nbytes:
            return [part[nbytes:], *parts[place + 1 :]]
        nbytes -= part.nbytes
    return []


def _taken(dump: _Open) -> bool:
    return os.fstat(dump.descriptor).st_nlink == 0


def _header(about: About) -> DumpHeader:
    return DumpHeader(
        rid="",
        instance=about.instance,
        layers=about.layers,
        server_layers=about.server_layers,
        hidden_size=about.hidden_size,
        dtype=about.dtype,
        norm=about.norm,
        model=about.model,
        sglang=about.sglang,
        context_length=about.context_length,
    )
