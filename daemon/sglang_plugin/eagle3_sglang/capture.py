"""What a forward pass left -> batches of rows for the writer. Enqueues copies, waits for nothing, writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import torch  # noqa: TID251
from torch import Tensor  # noqa: TID251

from .dump_format import RID
from .writer import RowBatch

BLOCK_ROWS: Final = 1024
"""Rows put together at a time: bounds the memory that this takes on the GPU beside the model."""


class NotCaptured(Exception):
    """A pass of which no rows can be taken; the message says why, ``rids`` whose they were."""

    def __init__(self, rids: list[str], why: str) -> None:
        super().__init__(why)
        self.rids = rids


@dataclass(frozen=True)
class Segment:
    """Consecutive rows of one request in a pass."""

    rid: str
    begin: int
    count: int


def batches(result: Any, forward: Any, over_weight: Callable[[Tensor], Tensor] | None) -> Iterator[RowBatch]:
    """Yield the rows of our requests, at most `BLOCK_ROWS` in a batch.

    Args:
        result: What ``ModelRunner.forward`` returned.
        forward: Its ``ForwardBatch``.
        over_weight: Applied to the last hidden state; None: it stays as it is.

    Raises:
        NotCaptured: The pass is of a kind that cannot be, or has too few rows.
    """
    wanted = [rid for rid in forward.rids or () if RID.fullmatch(rid)]
    if not wanted or forward.forward_mode.is_idle():
        return
    segments = _segments(forward, wanted)
    output = getattr(result, "logits_output", None)
    aux, last = getattr(output, "hidden_states", None), getattr(output, "last_hidden_states", None)
    if aux is None or last is None:
        raise NotCaptured(wanted, f"the {forward.forward_mode.name} pass gave no hidden states")
    needed = max(segment.begin + segment.count for segment in segments)
    for name, tensor in (("hidden_states", aux), ("last_hidden_states", last), ("positions", forward.positions)):
        # More of them is padding.
        if tensor.shape[0] < needed:
            raise NotCaptured(wanted, f"{name} has {tensor.shape[0]} rows, {needed} tokens were fed")
    for block in _blocks(segments):
        yield _batch(block, aux, last, forward.input_ids, forward.positions, over_weight)


def _segments(forward: Any, wanted: list[str]) -> list[Segment]:
    mode = forward.forward_mode.name
    if mode == "DECODE":
        counts = [1] * len(forward.rids)
    elif mode == "EXTEND":
        counts = [int(count) for count in forward.extend_seq_lens_cpu[: len(forward.rids)]]
    else:
        raise NotCaptured(wanted, f"the rows of a {mode} pass are not understood")
    begins = accumulate(counts, initial=0)
    return [
        Segment(rid, begin, count)
        for rid, begin, count in zip(forward.rids, begins, counts, strict=False)
        if count and RID.fullmatch(rid)
    ]


def _blocks(segments: list[Segment]) -> Iterator[list[Segment]]:
    """Yield them in order, cut where a block is full."""
    block: list[Segment] = []
    room = BLOCK_ROWS
    for segment in segments:
        begin, left = segment.begin, segment.count
        while left:
            count = min(left, room)
            block.append(Segment(segment.rid, begin, count))
            begin, left, room = begin + count, left - count, room - count
            if not room:
                yield block
                block, room = [], BLOCK_ROWS
    if block:
        yield block


def _runs(block: list[Segment]) -> list[tuple[int, int]]:
    """Return (begin, end) of the rows that lie together: with no other requests among ours, one run."""
    runs: list[tuple[int, int]] = []
    for segment in block:
        end = segment.begin + segment.count
        if runs and runs[-1][1] == segment.begin:
            runs[-1] = (runs[-1][0], end)
        else:
            runs.append((segment.begin, end))
    return runs


def _batch(
    block: list[Segment],
    aux: Tensor,
    last: Tensor,
    input_ids: Tensor,
    positions: Tensor,
    over_weight: Callable[[Tensor], Tensor] | None,
) -> RowBatch:
    total, runs = sum(segment.count for segment in block), _runs(block)
    on_gpu = aux.device.type == "cuda"
    rows = torch.empty((total, aux.shape[1] + last.shape[1]), dtype=aux.dtype, pin_memory=on_gpu)
    ids = torch.empty(total, dtype=torch.int64, pin_memory=on_gpu)
    places = torch.empty(total, dtype=torch.int64, pin_memory=on_gpu)
    at = 0
    for begin, end in runs:
        here = slice(at, at + end - begin)
        state = last[begin:end] if over_weight is None else over_weight(last[begin:end])
        if on_gpu:
            # Put together there: one copy of whole rows. The output's buffers may be a CUDA graph's, which the next
            # pass fills again; on this stream that comes after.
            rows[here].copy_(torch.cat((aux[begin:end], state), 1), non_blocking=True)
        else:
            torch.cat((aux[begin:end], state), 1, out=rows[here])
        ids[here].copy_(input_ids[begin:end], non_blocking=on_gpu)
        places[here].copy_(positions[begin:end], non_blocking=on_gpu)
        at = here.stop
    wait: Callable[[], None] | None = None
    if on_gpu:
        event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
        event.record()
        wait = event.synchronize
    return RowBatch([segment.rid for segment in block], [segment.count for segment in block], rows, ids, places, wait)
