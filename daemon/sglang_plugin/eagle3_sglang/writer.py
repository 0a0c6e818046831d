"""Rows of hidden states to the dump files, by a thread: whoever computed them does no I/O. torch and stdlib only.

Used inside SGLang by the plugin, and by the embedded server.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch  # noqa: TID251
from torch import Tensor  # noqa: TID251

from .dump_files import DumpFiles, Refused
from .dump_format import About

_ROUND_BYTES: Final = 64 << 20
"""About so much is taken from the queue at a time, so that a full queue gets room early."""
_TIDY_EVERY_S: Final = 5.0
_LAST_NUMBER: Final = (1 << 32) - 1


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


@dataclass
class _Refusal:
    rids: list[str]
    why: str
    nbytes: int = 0


@dataclass
class _Piece:
    first: int
    count: int
    marks: memoryview
    rows: memoryview


class DumpWriter:
    """Takes batches of rows and writes each request's to its dump.

    Its thread outlives every fault: a request whose rows cannot be written gets a ``<rid>.error``, all others go on.
    """

    def __init__(
        self,
        folder: Path,
        about: About,
        *,
        most_pending_bytes: int = 1 << 30,
        log: Callable[[str], None],
        files: DumpFiles | None = None,
    ) -> None:
        """Make the folder, mode 0700, and start the thread; nothing is written yet.

        Raises:
            OSError: The folder cannot be made.
            DumpFormatError: The self-description does not fit a dump's header.
        """
        self._files = files or DumpFiles(folder, about)
        self._dtype: torch.dtype = getattr(torch, about.dtype)
        self._most_pending_bytes = most_pending_bytes
        self._log = log
        self._changed = threading.Condition()
        self._queue: deque[RowBatch | _Refusal] = deque()
        self._pending_bytes = 0
        self._put = self._done = 0
        self._closing = False
        self._number = 0
        self.dropped_rows = 0
        """Rows of requests that nobody wants any more."""
        self.failed_requests = 0
        self._thread = threading.Thread(target=self._run, name="eagle3-dump", daemon=True)
        self._thread.start()

    def put(self, batch: RowBatch) -> None:
        """Have the rows written; waits while more than the allowed bytes are pending.

        A batch that is larger than that passes alone. The tensors belong to the writer from here on.

        Raises:
            ValueError: The writer is closed.
        """
        self._enqueue(batch)

    def refuse(self, rids: list[str], why: str) -> None:
        """Say in each request's ``.error`` why there are no rows, in order with what was put before.

        Raises:
            ValueError: The writer is closed.
        """
        self._enqueue(_Refusal(rids, why))

    def flush(self) -> None:
        """Return when everything that was put so far is written, or given up."""
        with self._changed:
            target = self._put
            self._changed.wait_for(lambda: self._done >= target)

    def close(self) -> None:
        """Write what was put, end the thread, close the files."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()

    def _enqueue(self, item: RowBatch | _Refusal) -> None:
        nbytes = item.nbytes
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._closing or not self._pending_bytes or self._pending_bytes + nbytes <= self._most_pending_bytes
                )
            )
            if self._closing:
                raise ValueError("the dump writer is closed")
            self._queue.append(item)
            self._pending_bytes += nbytes
            self._put += 1
            self._changed.notify_all()

    def _run(self) -> None:
        tidied = time.monotonic()
        while self._wait_for_work():
            self._one_round()
            if time.monotonic() - tidied > _TIDY_EVERY_S:
                self._guarded(self._files.close_taken)
                tidied = time.monotonic()
        self._guarded(self._files.close)

    def _wait_for_work(self) -> bool:
        """Return False when there will be none."""
        with self._changed:
            while not self._queue and not self._closing:
                # What a request's end leaves open is closed although nothing comes after it.
                if not self._changed.wait(_TIDY_EVERY_S if self._files.open_count else None):
                    return True
            return bool(self._queue)

    def _one_round(self) -> None:
        with self._changed:
            taken: list[RowBatch | _Refusal] = []
            nbytes = 0
            while self._queue and nbytes < _ROUND_BYTES:
                taken.append(self._queue.popleft())
                nbytes += taken[-1].nbytes
        self._guarded(lambda: self._write(taken))
        with self._changed:
            self._pending_bytes -= nbytes
            self._done += len(taken)
            self._changed.notify_all()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - the thread outlives every fault
            self._say(f"dumping hidden states: {type(error).__name__}: {error}")

    def _say(self, line: str) -> None:
        with contextlib.suppress(Exception):
            self._log(line)

    def _write(self, taken: list[RowBatch | _Refusal]) -> None:
        pieces: dict[str, list[_Piece]] = {}
        failed: dict[str, str] = {}
        for item in taken:
            if isinstance(item, _Refusal):
                failed.update(dict.fromkeys(item.rids, item.why))
                continue
            try:
                self._divide(item, pieces)
            except Exception as error:  # noqa: BLE001 - CUDA's own kinds too
                failed.update(dict.fromkeys(item.rids, _words(error)))
        for rid, why in failed.items():
            pieces.pop(rid, None)
            self._give_up(rid, why)
        for rid, parts in pieces.items():
            try:
                self._write_request(rid, parts)
            except Exception as error:  # noqa: BLE001 - told to the request whose rows these are
                self._give_up(rid, _words(error))

    def _divide(self, batch: RowBatch, pieces: dict[str, list[_Piece]]) -> None:
        """Sort a batch's rows by request."""
        if batch.wait is not None:
            batch.wait()
        self._check(batch)
        self._number = self._number % _LAST_NUMBER + 1
        positions = batch.positions.tolist()
        number = self._number if self._number <= 0x7FFFFFFF else self._number - (1 << 32)
        marks = torch.empty((len(positions), 2), dtype=torch.int32)
        marks[:, 0] = batch.ids
        marks[:, 1] = number
        mark_bytes, row_bytes = _view(marks), _view(batch.rows)
        width = self._files.row_bytes
        begin = 0
        for rid, count in zip(batch.rids, batch.counts, strict=True):
            end = begin + count
            first = positions[begin]
            if positions[end - 1] != first + count - 1:
                raise Refused(f"positions of a request do not follow each other: {positions[begin:end][:8]} ...")
            piece = _Piece(first, count, mark_bytes[8 * begin : 8 * end], row_bytes[width * begin : width * end])
            pieces.setdefault(rid, []).append(piece)
            begin = end

    def _check(self, batch: RowBatch) -> None:
        total, width = sum(batch.counts), self._files.row_bytes // self._dtype.itemsize
        shapes = (tuple(batch.rows.shape), tuple(batch.ids.shape), tuple(batch.positions.shape))
        if shapes != ((total, width), (total,), (total,)):
            raise Refused(f"rows, ids, positions of shapes {shapes}; expected {total} rows of {width}")
        if batch.rows.dtype != self._dtype:
            raise Refused(f"rows of {batch.rows.dtype}, not {self._dtype}")
        if any(count < 1 for count in batch.counts):
            raise Refused(f"a segment without rows: {batch.counts}")

    def _write_request(self, rid: str, parts: list[_Piece]) -> None:
        for run in _runs(parts):
            if not self._files.write(rid, run[0].first, [one.marks for one in run], [one.rows for one in run]):
                self.dropped_rows += sum(one.count for one in run)

    def _give_up(self, rid: str, why: str) -> None:
        self.failed_requests += 1
        self._files.give_up(rid, why)
        self._say(f"no hidden states of {rid}: {why}")


def _runs(parts: list[_Piece]) -> Iterator[list[_Piece]]:
    """Yield the pieces in order, those together that follow each other."""
    run: list[_Piece] = []
    for part in parts:
        if run and part.first != run[-1].first + run[-1].count:
            yield run
            run = []
        run.append(part)
    if run:
        yield run


def _view(tensor: Tensor) -> memoryview:
    """Return the bytes of a contiguous tensor, not copied. Keeps them alive."""
    return tensor.view(torch.uint8).flatten().numpy().data


def _words(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or 'the dump folder'}: {error.strerror or error}"
    return str(error) if isinstance(error, Refused) else f"{type(error).__name__}: {error}"
