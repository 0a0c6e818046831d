"""Rows on their way from a forward pass to the files: as they were computed, and as they are written.

Each call of torch lets go of Python's lock, and the thread that computes takes it meanwhile: on a fast model waiting
for each other costs both more than the call. So small numbers are looked at without torch.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch  # noqa: TID251
from torch import Tensor  # noqa: TID251

from .dump_files import Refused
from .dump_format import MARK_BYTES


@dataclass
class RowBatch:
    """Rows of one forward pass, of any number of requests."""

    rids: list[str]
    """One for each segment; only such as match `dump_format.RID`."""
    counts: list[int]
    """Rows of each segment, in order; together T."""
    rows: Tensor
    """[T, (K+1)*H], contiguous, host memory (pinned when it came from a GPU)."""
    ids: Tensor
    """[T] integers, host: the token ids that were fed."""
    positions: Tensor
    """[T] integers, host."""
    wait: Callable[[], None] | None
    """Waits until the copies to the host are done; called by the writer's thread."""

    @property
    def nbytes(self) -> int:
        """Of the rows."""
        return self.rows.numel() * self.rows.element_size()

    @property
    def is_step(self) -> bool:
        """Whether every request has one row, as in a decode step."""
        return len(self.rids) == self.rows.shape[0]

    def check(self, row_bytes: int, dtype: torch.dtype) -> None:
        """Look at the shapes.

        Raises:
            Refused: They are not those of a batch with rows of `row_bytes`.
        """
        total, width = sum(self.counts), row_bytes // dtype.itemsize
        shapes = (tuple(self.rows.shape), tuple(self.ids.shape), tuple(self.positions.shape))
        if shapes != ((total, width), (total,), (total,)):
            raise Refused(f"rows, ids, positions of shapes {shapes}; expected {total} rows of {width}")
        if self.rows.dtype != dtype:
            raise Refused(f"rows of {self.rows.dtype}, not {dtype}")
        if min(self.counts, default=1) < 1:
            raise Refused(f"a segment without rows: {self.counts}")


@dataclass
class Piece:
    """Consecutive rows of one request, with their marks, as views of what they came in."""

    first: int
    count: int
    marks: list[memoryview]
    rows: list[memoryview]

    def append(self, other: Piece) -> bool:
        """Take rows that follow these; False where they do not."""
        if other.first != self.first + self.count:
            return False
        self.count += other.count
        self.marks += other.marks
        self.rows += other.rows
        return True


def divided(batch: RowBatch, number: int) -> Iterator[tuple[str, Piece]]:
    """Yield a checked batch's rows, request by request.

    Args:
        batch: Its copies are done.
        number: For the marks.

    Raises:
        Refused: Positions within a segment do not follow each other.
    """
    positions = batch.positions.tolist()
    each = array("I", (number,)) * (2 * len(positions))
    each[::2] = array("I", batch.ids.tolist())
    marks, rows = memoryview(each).cast("B"), bytes_of(batch.rows)
    width = rows.nbytes // len(positions)
    begin = 0
    for rid, count in zip(batch.rids, batch.counts, strict=True):
        end = begin + count
        first = positions[begin]
        if positions[end - 1] != first + count - 1:
            raise Refused(f"positions of a request do not follow each other: {positions[begin:end][:8]} ...")
        mark_bytes = marks[MARK_BYTES * begin : MARK_BYTES * end]
        yield rid, Piece(first, count, [mark_bytes], [rows[width * begin : width * end]])
        begin = end


def joined(pieces: list[Piece]) -> Iterator[Piece]:
    """Yield pieces of one request in order, those together that follow each other."""
    run: Piece | None = None
    for piece in pieces:
        if run is None or not run.append(piece):
            if run is not None:
                yield run
            run = piece
    if run is not None:
        yield run


def marks_of(ids: Tensor, numbers: Tensor) -> Tensor:
    """Return marks as the dump has them, [..., 2] int32, for ids [...] and the `signed` numbers of their batches."""
    marks = torch.empty((*ids.shape, 2), dtype=torch.int32)
    marks[..., 0] = ids
    marks[..., 1] = numbers
    return marks


def signed(number: int) -> int:
    """Return the int32 with the bits of a uint32."""
    return number if number <= 0x7FFFFFFF else number - (1 << 32)


def bytes_of(tensor: Tensor) -> memoryview:
    """Return the bytes of a contiguous tensor, not copied. Keeps them alive."""
    known = tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor  # numpy has no bfloat16
    return known.numpy().data.cast("B")
