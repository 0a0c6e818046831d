"""What a forward pass left -> batches of rows for the writer. Enqueues copies, waits for nothing, writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any, Final

import torch  # noqa: TID251
from torch import Tensor  # noqa: TID251

from .dump_format import RID
from .rows import RowBatch

BLOCK_ROWS: Final = 1024
"""Rows put together at a time: bounds the memory that this takes on the GPU beside the model."""


class NotCaptured(Exception):
    """A pass of which no rows can be taken; the message says why, ``rids`` whose they were."""

    def __init__(self, rids: list[str], why: str) -> None:
        super().__init__(why)
        self.rids = rids


@dataclass(frozen=True)
class _Block:
    """Rows of a pass that go to the writer together."""

    rids: list[str]
    counts: list[int]
    total: int
    where: slice | Tensor
    """Their places in the pass: one stretch, or (with other people's requests among ours) each place."""
    end: int
    """They lie before this place."""

    @classmethod
    def of(cls, segments: list[tuple[str, int, int]], device: torch.device) -> _Block:
        """Make one of (rid, place of the first row, count)."""
        rids, begins, counts = map(list, zip(*segments, strict=True))
        total, begin, end = sum(counts), begins[0], begins[-1] + counts[-1]
        where: slice | Tensor = slice(begin, end)
        if end - begin != total:
            places = [range(first, first + count) for _, first, count in segments]
            where = torch.tensor(list(chain.from_iterable(places)), pin_memory=device.type == "cuda")
            where = where.to(device, non_blocking=True)
        return cls(rids, counts, total, where, end)

    def parts(self) -> Iterator[tuple[slice, slice | Tensor]]:
        """Yield at most `BLOCK_ROWS` of the rows at a time: places in the block, places in the pass."""
        for begin in range(0, self.total, BLOCK_ROWS):
            end = min(self.total, begin + BLOCK_ROWS)
            if isinstance(self.where, slice):
                yield slice(begin, end), slice(self.where.start + begin, self.where.start + end)
            else:
                yield slice(begin, end), self.where[begin:end]


class Capture:
    """Takes the rows of our requests out of forward passes.

    In a decode step all that depends on the requests is taken from the step before, as long as they are the same.
    """

    def __init__(self, over_weight: Callable[[Tensor], Tensor] | None) -> None:
        """over_weight: Applied to the last hidden state; None: it stays as it is."""
        self._over_weight = over_weight
        self._step_rids: list[str] = []
        self._step: list[_Block] = []

    def batches(self, result: Any, forward: Any) -> Iterator[RowBatch]:
        """Yield the rows of our requests: those of a decode step at once, of another pass at most `BLOCK_ROWS`.

        Args:
            result: What ``ModelRunner.forward`` returned.
            forward: Its ``ForwardBatch``.

        Raises:
            NotCaptured: The pass is of a kind that cannot be, or has too few rows.
        """
        blocks = self._blocks(forward)
        if not blocks:
            return
        output = getattr(result, "logits_output", None)
        aux, last = getattr(output, "hidden_states", None), getattr(output, "last_hidden_states", None)
        if aux is None or last is None:
            raise NotCaptured(_rids(blocks), f"the {forward.forward_mode.name} pass gave no hidden states")
        needed = blocks[-1].end
        for name, tensor in (("hidden_states", aux), ("last_hidden_states", last), ("positions", forward.positions)):
            # More of them is padding.
            if tensor.shape[0] < needed:
                raise NotCaptured(_rids(blocks), f"{name} has {tensor.shape[0]} rows, {needed} tokens were fed")
        for block in blocks:
            yield self._batch(block, aux, last, forward.input_ids, forward.positions)

    def _blocks(self, forward: Any) -> list[_Block]:
        rids = forward.rids or []
        mode = forward.forward_mode.name
        if mode == "DECODE":
            if rids != self._step_rids:
                places = [(rid, at, 1) for at, rid in enumerate(rids) if RID.fullmatch(rid)]
                self._step = [_Block.of(places, forward.positions.device)] if places else []
                self._step_rids = list(rids)
            return self._step
        wanted = [rid for rid in rids if RID.fullmatch(rid)]
        if not wanted or forward.forward_mode.is_idle():
            return []
        if mode != "EXTEND":
            raise NotCaptured(wanted, f"the rows of a {mode} pass are not understood")
        counts = [int(count) for count in forward.extend_seq_lens_cpu[: len(rids)]]
        begins = accumulate(counts, initial=0)
        segments = [
            (rid, begin, count)
            for rid, begin, count in zip(rids, begins, counts, strict=False)
            if count and RID.fullmatch(rid)
        ]
        return [_Block.of(block, forward.positions.device) for block in _cut(segments)]

    def _batch(self, block: _Block, aux: Tensor, last: Tensor, input_ids: Tensor, positions: Tensor) -> RowBatch:
        on_gpu = aux.device.type == "cuda"
        rows = torch.empty((block.total, aux.shape[1] + last.shape[1]), dtype=aux.dtype, pin_memory=on_gpu)
        numbers = torch.empty((2, block.total), dtype=torch.int64, pin_memory=on_gpu)
        for here, there in block.parts():
            state = last[there] if self._over_weight is None else self._over_weight(last[there])
            if on_gpu:
                # Put together there: one copy of whole rows. The output's buffers may be a CUDA graph's, which the next
                # pass fills again; on this stream that comes after.
                rows[here].copy_(torch.cat((aux[there], state), 1), non_blocking=True)
            else:
                torch.cat((aux[there], state), 1, out=rows[here])
        numbers[0].copy_(input_ids[block.where], non_blocking=on_gpu)
        numbers[1].copy_(positions[block.where], non_blocking=on_gpu)
        wait: Callable[[], None] | None = None
        if on_gpu:
            event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
            event.record()
            wait = event.synchronize
        return RowBatch(block.rids, block.counts, rows, numbers[0], numbers[1], wait)


def _cut(segments: list[tuple[str, int, int]]) -> Iterator[list[tuple[str, int, int]]]:
    """Yield them in order, cut where `BLOCK_ROWS` are together."""
    block: list[tuple[str, int, int]] = []
    room = BLOCK_ROWS
    for rid, first, whole in segments:
        begin, left = first, whole
        while left:
            count = min(left, room)
            block.append((rid, begin, count))
            begin, left, room = begin + count, left - count, room - count
            if not room:
                yield block
                block, room = [], BLOCK_ROWS
    if block:
        yield block


def _rids(blocks: list[_Block]) -> list[str]:
    return list(dict.fromkeys(rid for block in blocks for rid in block.rids))
