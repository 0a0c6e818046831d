"""Decode steps whose rows are not yet written, so that many rows of a request go out in one call.

A step costs the same whether one request runs or 512: as long as the same requests run, nothing is done for a single
one of them. Only when rows are taken out are they looked at request by request, once for all steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import torch  # noqa: TID251
from torch import Tensor  # noqa: TID251

from .dump_format import MARK_BYTES
from .rows import Piece, RowBatch, bytes_of, marks_of, signed


@dataclass
class _Stretch:
    """Steps of the same requests at positions that follow each other."""

    rids: list[str]
    index: dict[str, int]
    """Which row of each step is whose."""
    firsts: list[int]
    """Position of each request's row in the first step."""
    next: Any
    """Positions of the step that would follow, an array of numpy's."""
    rows: list[memoryview] = field(default_factory=list)
    ids: list[Tensor] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    _marks: memoryview | None = None
    """Of all steps, request by request; once somebody wants them: then no step is added any more."""

    @classmethod
    def begin(cls, batch: RowBatch) -> _Stretch | None:
        """Return one that the step may be added to; None where a request has two rows in it."""
        index = dict(zip(batch.rids, range(len(batch.rids)), strict=True))
        if len(index) < len(batch.rids):
            return None
        return cls(batch.rids, index, batch.positions.tolist(), batch.positions.numpy())

    def follows(self, batch: RowBatch) -> bool:
        return self._marks is None and batch.rids == self.rids and bool((batch.positions.numpy() == self.next).all())

    def add(self, batch: RowBatch, number: int) -> None:
        self.rows.append(bytes_of(batch.rows))
        self.ids.append(batch.ids)
        self.numbers.append(signed(number))
        self.next = batch.positions.numpy() + 1

    def marks(self) -> memoryview:
        if self._marks is None:
            self._marks = bytes_of(marks_of(torch.stack(self.ids, 1), torch.tensor(self.numbers)))
        return self._marks


class HeldSteps:
    """What was put of decode steps since they were last written all."""

    def __init__(self, row_bytes: int) -> None:
        self._row_bytes = row_bytes
        self.steps = 0
        self.nbytes = 0
        """Of all their rows: also of requests that were taken, whose memory the others keep alive."""
        self._stretches: list[_Stretch] = []
        self._taken: dict[str, int] = {}
        """Stretches of which a request's rows are no longer here."""

    def add(self, batch: RowBatch, number: int) -> list[str] | None:
        """Keep a step.

        Args:
            batch: Checked; its copies are done.
            number: For the marks.

        Returns:
            The requests of the step before that are not in this one; None where it is no step and was not kept.
        """
        newest = self._stretches[-1] if self._stretches else None
        ended: list[str] = []
        if newest is None or not newest.follows(batch):
            begun = _Stretch.begin(batch)
            if begun is None:
                return None
            if newest is not None:
                ended = [rid for rid in newest.index if rid not in begun.index]
            self._stretches.append(begun)
            newest = begun
        newest.add(batch, number)
        self.steps += 1
        self.nbytes += batch.nbytes
        return ended

    def rids(self) -> list[str]:
        """Return whose rows are or were here."""
        return list(dict.fromkeys(chain.from_iterable(stretch.rids for stretch in self._stretches)))

    def take(self, rid: str) -> list[Piece]:
        """Return a request's rows; they are no longer here."""
        pieces: list[Piece] = []
        width, follows = self._row_bytes, -1
        for stretch in self._stretches[self._taken.get(rid, 0) :]:
            at = stretch.index.get(rid)
            if at is None:
                continue
            if stretch.firsts[at] != follows:
                follows = stretch.firsts[at]
                piece = Piece(follows, 0, [], [])
                pieces.append(piece)
            steps = stretch.rows
            count, begin, end = len(steps), width * at, width * at + width
            piece.count += count
            piece.marks.append(stretch.marks()[MARK_BYTES * count * at : MARK_BYTES * count * (at + 1)])
            if count == 1:
                piece.rows.append(steps[0][begin:end])
            else:
                piece.rows += [step[begin:end] for step in steps]
            follows += count
        if pieces:
            self._taken[rid] = len(self._stretches)
        return pieces

    def clear(self) -> None:
        """Forget all."""
        self.steps = self.nbytes = 0
        self._stretches, self._taken = [], {}
