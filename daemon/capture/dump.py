"""One request's dump file, read while the server may still write it, or take it away.

It is read, not mapped: a mapped file that is cut short kills the process that touches it, and a hole in a mapped file
of a tmpfs takes memory when it is looked at. Reading blocks of `daemon.store.sample.BLOCK_BYTES` is as fast.
"""

from __future__ import annotations

import dataclasses
import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from contracts.records import CaptureCheck
from daemon.capture.fault import CaptureFault
from daemon.sglang_plugin.eagle3_sglang.dump_format import (
    HEADER_BYTES,
    ITEM_BYTES,
    MARK_BYTES,
    About,
    DumpFormatError,
    DumpHeader,
    dump_path,
)
from daemon.store.blocks import block_at
from daemon.store.sample import BLOCK_BYTES

_MARK: Final = np.dtype("<u4")
_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""The folder may be open to others: no link is followed, and a pipe under a dump's name holds nobody up."""
_MOST_LAYERS: Final = 4096
_MOST_VALUES: Final = 1 << 24
"""Hidden sizes beyond it are damage, and would make rows that no memory holds."""
_MOST_CONTEXT: Final = 1 << 32

Described = TypeVar("Described", DumpHeader, About)


class Dump:
    """An open dump. What it says of itself is whole and of the known form; whether it is what was asked for is not
    checked here. Close it; several threads must not share one."""

    def __init__(self, path: Path, descriptor: int, header: DumpHeader) -> None:
        self.path = path
        self.header = header
        self._descriptor = descriptor

    @classmethod
    def open(cls, folder: Path, rid: str) -> Dump:
        """Open the dump of a request.

        Raises:
            CaptureFault: It is not there, its header is cut short or damaged, or it is another request's.
        """
        try:
            path = dump_path(folder, rid)
            descriptor = os.open(path, _FLAGS)
        except DumpFormatError as error:
            raise CaptureFault(CaptureCheck.MISSING, f"no dump: {error}") from None
        except OSError as error:
            raise CaptureFault(CaptureCheck.MISSING, f"{path}: no dump: {error.strerror or error}") from error
        dump: Dump | None = None
        try:
            _check_regular(path, descriptor)
            dump = cls(path, descriptor, _header_of(path, os.pread(descriptor, HEADER_BYTES, 0), rid))
        except OSError as error:
            raise CaptureFault(CaptureCheck.MISSING, f"{path}: cannot be read: {error.strerror or error}") from error
        finally:
            if dump is None:
                os.close(descriptor)
        return dump

    @property
    def rows_written(self) -> int:
        """Whole rows that the file reaches over now; 0 for one that was taken away."""
        return rows_in(os.fstat(self._descriptor).st_size, self.header)

    def marks(self, count: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
        """Return the fed token ids and the numbers of the forward passes of positions 0..count-1, each [count].

        Raises:
            CaptureFault: The file ends before them, or they are more than its context.
        """
        if count > self.header.context_length:
            raise CaptureFault(
                CaptureCheck.ROWS, f"{self.path}: {count} rows for a context of {self.header.context_length} tokens"
            )
        pairs = np.frombuffer(self._read(HEADER_BYTES, count * MARK_BYTES, "marks"), _MARK).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]

    def blocks(self, count: int, make_block: Callable[[int, int], memoryview] = block_at) -> Iterator[memoryview]:
        """Yield rows 0..count-1 in blocks of whole rows, about `BLOCK_BYTES` each.

        Args:
            count: Of rows.
            make_block: Gives the memory of each, for bytes from an offset of the file on, so many of them.

        Raises:
            CaptureFault: The file ends before them.
        """
        row_bytes = self.header.row_bytes
        at_once = max(1, BLOCK_BYTES // row_bytes)
        for first in range(0, count, at_once):
            rows = min(at_once, count - first)
            offset = self.header.rows_offset + first * row_bytes
            # Held by no name here, so that its memory is free for the next but one.
            yield self._read_into(make_block(offset, rows * row_bytes), offset, "rows")

    def close(self) -> None:
        """Close the file; it may be closed already."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self, offset: int, count: int, what: str) -> memoryview:
        return self._read_into(block_at(offset, count), offset, what)

    def _read_into(self, block: memoryview, offset: int, what: str) -> memoryview:
        count = block.nbytes
        done = 0
        while done < count:
            try:
                got = os.preadv(self._descriptor, [block[done:]], offset + done)
            except OSError as error:
                raise CaptureFault(
                    CaptureCheck.MISSING, f"{self.path}: cannot be read: {error.strerror or error}"
                ) from error
            if not got:
                raise CaptureFault(
                    CaptureCheck.MISSING,
                    f"{self.path}: ends at byte {offset + done} in its {what}; "
                    f"{offset + count} are needed (it was cut short, or taken away)",
                )
            done += got
        return block


def rows_in(size: int, header: DumpHeader) -> int:
    """Return how many whole rows a dump of this size reaches over."""
    return min(max(size - header.rows_offset, 0) // header.row_bytes, header.context_length)


def header_at(path: Path) -> DumpHeader | None:
    """Return the header of a dump, or None while there is none that can be used: it may be still to come."""
    try:
        return _header_of(path, read_start(path, HEADER_BYTES), None)
    except (OSError, CaptureFault):
        return None


def read_start(path: Path, most: int) -> bytes:
    """Return the first bytes of a file of the dump folder.

    Args:
        path: Its name there. Only a regular file is read, and no link followed.
        most: Bytes, at most.

    Raises:
        OSError: It is not there, is no regular file, or cannot be read.
    """
    descriptor = os.open(path, _FLAGS)
    try:
        _check_regular(path, descriptor)
        return os.pread(descriptor, most, 0)
    finally:
        os.close(descriptor)


def sound(kind: type[Described], text: bytes) -> Described:
    """Decode a self-description, every value of its declared type and within reason.

    Raises:
        DumpFormatError: It cannot be used; the message says why, and names no file.
    """
    try:
        found = kind.decode(text)
        msgspec.convert(dataclasses.asdict(found), kind)  # the decoder of the contract looks at no types
        found.model.encode(), found.norm.encode()  # half a surrogate pair could not be written into a record
    except RecursionError:
        raise DumpFormatError("cannot be read: nested too deeply") from None
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise DumpFormatError(f"cannot be used: {error}") from error
    if isinstance(found, About) and found.refusal is not None:
        return found  # there will be no rows: nothing else in it need make sense
    layers = found.layers
    if not 0 < len(layers) <= _MOST_LAYERS or list(layers) != sorted(set(layers)) or layers[0] < 0:
        raise DumpFormatError(f"cannot be used: layers {list(layers[:8])} are not ascending output ids")
    if found.dtype not in ITEM_BYTES:
        raise DumpFormatError(f"cannot be used: dtype {found.dtype!r}; known: {', '.join(ITEM_BYTES)}")
    if not 0 < found.hidden_size <= _MOST_VALUES or not 0 < found.context_length < _MOST_CONTEXT:
        raise DumpFormatError(
            f"cannot be used: hidden size {found.hidden_size}, context of {found.context_length} tokens"
        )
    return found


def _check_regular(path: Path, descriptor: int) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))


def _header_of(path: Path, page: bytes, rid: str | None) -> DumpHeader:
    """Decode the first page; a rid of None is any request's.

    Raises:
        CaptureFault: As for `Dump.open`.
    """
    if len(page) < HEADER_BYTES:
        raise CaptureFault(CaptureCheck.MISSING, f"{path}: {len(page)} of the header's {HEADER_BYTES} bytes are there")
    try:
        header = sound(DumpHeader, page)
    except DumpFormatError as error:
        raise CaptureFault(CaptureCheck.MISSING, f"{path}: the header {error}") from error
    if rid is not None and header.rid != rid:
        raise CaptureFault(CaptureCheck.IDS, f"{path}: holds the rows of request {header.rid!r}, not of {rid!r}")
    return header
