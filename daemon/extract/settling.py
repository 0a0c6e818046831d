"""What becomes of a sample whose hidden states could not be taken, and what is recorded of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from contracts.clock import Clock
from contracts.fold.dataset import DatasetFold
from contracts.fold.events import EXTRACT_HALTED
from contracts.records import CaptureCheck, Failure, FailureClass, NextStep, Severity, Stage, encode_line
from daemon.capture.fault import CaptureFault
from daemon.events import EventLog
from daemon.extract.entry import ExtractEntry
from daemon.generate.work_queue import Trouble
from daemon.prompts.index import PromptEntry
from daemon.writer import Writer

if TYPE_CHECKING:
    from daemon.extract.queue import ExtractQueue

MOST_ATTEMPTS: Final = 3
"""Charged attempts at the hidden states of one sample; the first may have been made while it was generated."""
SYSTEMATIC_MOST: Final = 3
"""So many samples of a data set in a row that failed as every other would: its extraction stops."""
ALL_FAIL: Final = 50
"""So many failed captures of a data set in a row, whatever the check: the fault is not in the samples."""
RETRY_S: Final = 1.0
LONGEST_RETRY_S: Final = 60.0
"""Pauses double up to this: a dump folder that others have filled stays full for a while."""
_MOST_DOUBLINGS: Final = 16
_OF_THE_SAMPLE: Final = frozenset({CaptureCheck.NO_ROOM, CaptureCheck.NO_IDS, CaptureCheck.TOO_LARGE})
"""Checks that say nothing of the server."""


class Settling:
    """Records captures that failed and puts their samples where they belong.

    Args:
        writer: Takes the records.
        events: Takes what a person should read.
        clock: Gives the times.
        recheck: Called with the URL of a server that delivered what no sample of this run can have.
    """

    def __init__(self, writer: Writer, events: EventLog, clock: Clock, recheck: Callable[[str], None]) -> None:
        self._writer = writer
        self._events = events
        self._clock = clock
        self._recheck = recheck
        self._in_a_row: dict[str, int] = {}
        """Systematic faults of each data set since its last stored sample."""
        self._fruitless: dict[str, int] = {}
        """Failed captures of each data set since then, those that were blameless not counted."""

    def now(self) -> float:
        """Return the time of a record that is made now."""
        return self._clock.now()

    def refuse(self, dataset: DatasetFold, prompt: PromptEntry, fault: CaptureFault, *, anew: bool = False) -> None:
        """Record that a sample is left out; ``anew``: also when that is recorded already."""
        known = dataset.failures.extract.get(prompt.key)
        if not anew and known is not None and known.next is NextStep.REFUSED and known.message == fault.message:
            return
        failure = Failure(
            sample_id=prompt.sample_id,
            error=FailureClass.INVALID_INPUT,
            message=fault.message,
            next=NextStep.REFUSED,
            at=self.now(),
            stage=Stage.EXTRACT,
            check=fault.check,
            tokens=fault.tokens,
        )
        self._writer.append(dataset.folder.failures, encode_line(failure))

    def is_given_up(self, trouble: Trouble) -> bool:
        """Whether a sample was tried often enough."""
        return trouble.attempts >= MOST_ATTEMPTS

    def succeeded(self, queue: ExtractQueue) -> None:
        """Note that a sample of a data set was stored."""
        self._in_a_row.pop(queue.name, None)
        self._fruitless.pop(queue.name, None)

    def failed(
        self,
        queue: ExtractQueue,
        prompt: PromptEntry,
        rid: str,
        server: str,
        fault: CaptureFault,
        entry: ExtractEntry | None = None,
    ) -> None:
        """Record a failed capture and decide what becomes of its sample.

        Args:
            queue: Of its data set.
            prompt: Its prompt.
            rid: Of the request.
            server: That answered it.
            fault: What is wrong.
            entry: Its place in the queue; None when its response is not read back yet: it comes by itself.
        """
        trouble = queue.trouble.setdefault(prompt.key, Trouble())
        blameless = fault.check is CaptureCheck.NO_ROOM
        trouble.attempts += not blameless
        trouble.waits += blameless
        step = self._next_step(queue, trouble, server, fault)
        failure = Failure(
            sample_id=prompt.sample_id,
            error=FailureClass.CAPTURE,
            message=fault.message,
            next=step,
            at=self.now(),
            attempt=trouble.attempts,
            rid=rid,
            server=server or None,
            stage=Stage.EXTRACT,
            check=fault.check,
        )
        self._writer.append(queue.failures_path, encode_line(failure))
        if step is NextStep.STOPPED and not queue.halted:
            queue.halted = True
            self._events.emit(
                Severity.CRITICAL,
                EXTRACT_HALTED,
                f"{queue.name}: hidden states are no longer taken: {fault.message}",
                dataset=queue.name,
            )
        if entry is None:
            return
        if step is NextStep.QUARANTINED:
            queue.quarantine(entry, FailureClass.CAPTURE)
        elif step is NextStep.STOPPED:
            queue.put_back(entry)
        else:
            doublings = min(max(trouble.attempts + trouble.waits - 1, 0), _MOST_DOUBLINGS)
            delay_s = min(RETRY_S * 2.0**doublings, LONGEST_RETRY_S)
            queue.retry_at(entry, time.monotonic() + delay_s, FailureClass.CAPTURE)

    def _next_step(self, queue: ExtractQueue, trouble: Trouble, server: str, fault: CaptureFault) -> NextStep:
        if fault.check not in _OF_THE_SAMPLE:
            fruitless = self._fruitless[queue.name] = self._fruitless.get(queue.name, 0) + 1
            if fruitless >= ALL_FAIL:
                self._recheck(server)
                del self._fruitless[queue.name]
                return NextStep.STOPPED
        if fault.systematic:
            in_a_row = self._in_a_row[queue.name] = self._in_a_row.get(queue.name, 0) + 1
            self._recheck(server)
            if in_a_row >= SYSTEMATIC_MOST:
                del self._in_a_row[queue.name]  # after a person let it go on, it is counted from the start
                return NextStep.STOPPED
        return NextStep.QUARANTINED if self.is_given_up(trouble) else NextStep.RETRY
