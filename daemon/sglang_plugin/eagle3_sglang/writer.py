"""Rows of hidden states to the dump files, by a thread: whoever computed them does no I/O. torch and stdlib only.

Used inside SGLang by the plugin, and by the embedded server. A decode step brings one row of each request that runs;
written one by one they would cost a large part of the process that computes them. So steps are held, and a request's
rows go out together: when there are enough of them, when it is not in the next step, and soon after the last step.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch  # noqa: TID251

from .dump_files import DumpFiles, Refused
from .dump_format import About
from .held_steps import HeldSteps
from .rows import Piece, RowBatch, divided, joined

HELD_STEPS: Final = 32
"""Decode steps that are held at most. More would save little: half of what one row costs is then its copy."""
_HELD_SHARE: Final = 4
"""Held steps take at most one part in so many of the bytes that may be pending: the rest is for the disk's delays."""
_PATIENCE: Final = 3.0
"""Steps that do not come for so many times the last distance of two are not waited for any more."""
_SHORTEST_S, _LONGEST_S = 0.02, 0.2
"""Bounds of that wait. A long one delays nothing but the last rows of a server that becomes idle."""
_ROUND_BYTES: Final = 64 << 20
"""About so much is taken from the queue at a time, so that a full queue gets room early."""
_TIDY_EVERY_S: Final = 5.0
_LAST_NUMBER: Final = (1 << 32) - 1


@dataclass
class _Refusal:
    rids: list[str]
    why: str

    @property
    def nbytes(self) -> int:
        """About what it takes in the queue: a server may refuse at every pass."""
        return 256 * len(self.rids)


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
        lock = threading.Lock()
        self._work = threading.Condition(lock)
        """Wakes the thread."""
        self._progress = threading.Condition(lock)
        """Wakes those who wait for it."""
        self._queue: deque[RowBatch | _Refusal] = deque()
        self._queued_steps = 0
        self._newest_rids: list[str] = []
        """Of the last step that was put."""
        self._step_at = 0.0
        self._patience_s = _SHORTEST_S
        self._paused = False
        """No step follows soon."""
        self._pending_bytes = 0
        """Of all that was put and not yet written, held steps among it."""
        self._put = self._taken = self._done = 0
        self._due = False
        """There is something that should not wait for the steps to come."""
        self._waiting = 0
        """How many wait for progress: nothing is held back then."""
        self._closing = False
        self._held = HeldSteps(self._files.row_bytes)
        """The thread's own."""
        self._held_steps = 0
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
        with self._work:
            self._enqueue(batch)
            if not batch.is_step:
                self._make_due()
                return
            now = time.monotonic()
            self._patience_s = min(_LONGEST_S, max(_SHORTEST_S, _PATIENCE * (now - self._step_at)))
            self._step_at = now
            self._paused = False
            self._queued_steps += 1
            steps = self._queued_steps + self._held_steps
            full = steps >= HELD_STEPS or self._pending_bytes >= self._most_pending_bytes // _HELD_SHARE
            if full or steps == 1 or batch.rids != self._newest_rids:
                self._make_due()
            self._newest_rids = batch.rids

    def pause(self) -> None:
        """Say that no step follows soon: steps that are held are written now, not after a wait for the next."""
        with self._work:
            self._paused = True
            if self._queue or self._held_steps:
                self._make_due()

    def refuse(self, rids: list[str], why: str) -> None:
        """Say in each request's ``.error`` why there are no rows, in order with what was put before.

        Raises:
            ValueError: The writer is closed.
        """
        with self._work:
            self._enqueue(_Refusal(rids, why))
            self._make_due()

    def flush(self) -> None:
        """Return when everything that was put so far is written, or given up."""
        with self._work:
            target = self._put
            self._await(lambda: self._done >= target)

    def close(self) -> None:
        """Write what was put, end the thread, close the files."""
        with self._work:
            self._closing = True
            self._make_due()
            self._progress.notify_all()
        self._thread.join()

    def _enqueue(self, item: RowBatch | _Refusal) -> None:
        room = self._most_pending_bytes - item.nbytes
        self._await(lambda: self._closing or not self._pending_bytes or self._pending_bytes <= room)
        if self._closing:
            raise ValueError("the dump writer is closed")
        self._queue.append(item)
        self._pending_bytes += item.nbytes
        self._put += 1

    def _await(self, reached: Callable[[], bool]) -> None:
        if reached():
            return
        self._waiting += 1
        self._make_due()
        self._progress.wait_for(reached)
        self._waiting -= 1

    def _make_due(self) -> None:
        self._due = True
        self._work.notify()

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
        with self._work:
            while not self._due and not self._closing:
                if self._queue or self._held_steps:
                    left_s = self._quiet_in_s()
                    if left_s <= 0:
                        break
                    self._work.wait(left_s)
                # What a request's end leaves open is closed although nothing comes after it.
                elif not self._work.wait(_TIDY_EVERY_S if self._files.open_count else None):
                    break
            return bool(self._queue or self._held_steps or not self._closing)

    def _quiet_in_s(self) -> float:
        return 0.0 if self._paused else self._step_at + self._patience_s - time.monotonic()

    def _one_round(self) -> None:
        with self._work:
            taken: list[RowBatch | _Refusal] = []
            nbytes = 0
            while self._queue and nbytes < _ROUND_BYTES:
                taken.append(self._queue.popleft())
                nbytes += taken[-1].nbytes
            self._queued_steps = sum(1 for item in self._queue if isinstance(item, RowBatch) and item.is_step)
            self._taken += len(taken)
            self._due = bool(self._queue)
            hold = not (self._closing or self._waiting or self._quiet_in_s() <= 0)
        nbytes += self._held.nbytes
        self._guarded(lambda: self._write(taken, hold))
        taken.clear()  # before what they hold is counted as free
        with self._work:
            self._held_steps = self._held.steps
            self._pending_bytes -= nbytes - self._held.nbytes
            if not self._held_steps:
                self._done = self._taken
            self._progress.notify_all()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - the thread outlives every fault
            self._held.clear()
            self._say(f"dumping hidden states: {type(error).__name__}: {error}")

    def _say(self, line: str) -> None:
        with contextlib.suppress(Exception):
            self._log(line)

    def _write(self, taken: list[RowBatch | _Refusal], hold: bool) -> None:
        """Write what is to be written now.

        Args:
            taken: What was put.
            hold: Decode steps may wait for the next ones.
        """
        pieces: dict[str, list[Piece]] = {}
        failed: dict[str, str] = {}
        for item in taken:
            if isinstance(item, _Refusal):
                failed.update(dict.fromkeys(item.rids, item.why))
                continue
            try:
                self._take(item, pieces)
            except Exception as error:  # noqa: BLE001 - CUDA's own kinds too
                failed.update(dict.fromkeys(item.rids, _words(error)))
        for rid, why in failed.items():
            pieces.pop(rid, None)
            self._give_up(rid, why)
        for rid, parts in pieces.items():
            self._write_request(rid, parts)
        if not hold or self._full():
            for rid in self._held.rids():
                self._write_request(rid, self._held.take(rid))
            self._held.clear()

    def _full(self) -> bool:
        return self._held.steps >= HELD_STEPS or self._held.nbytes >= self._most_pending_bytes // _HELD_SHARE

    def _take(self, batch: RowBatch, pieces: dict[str, list[Piece]]) -> None:
        """Hold a decode step; sort another batch's rows by request, and those held that have to go before."""
        if batch.wait is not None:
            batch.wait()
        batch.check(self._files.row_bytes, self._dtype)
        self._number = self._number % _LAST_NUMBER + 1
        ended = self._held.add(batch, self._number) if batch.is_step else None
        for rid in batch.rids if ended is None else ended:
            if parts := self._held.take(rid):
                pieces.setdefault(rid, []).extend(parts)
        if ended is None:
            for rid, piece in divided(batch, self._number):
                pieces.setdefault(rid, []).append(piece)

    def _write_request(self, rid: str, parts: list[Piece]) -> None:
        try:
            for piece in joined(parts):
                if not self._files.write(rid, piece.first, piece.marks, piece.rows):
                    self.dropped_rows += piece.count
        except Exception as error:  # noqa: BLE001 - told to the request whose rows these are
            self._give_up(rid, _words(error))

    def _give_up(self, rid: str, why: str) -> None:
        if self._files.give_up(rid, why):
            self.failed_requests += 1
            self._say(f"no hidden states of {rid}: {why}")


def _words(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or 'the dump folder'}: {error.strerror or error}"
    return str(error) if isinstance(error, Refused) else f"{type(error).__name__}: {error}"
