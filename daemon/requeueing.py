"""Another try for samples that failed, because a person asked for it."""

from __future__ import annotations

from typing import Any

from contracts.fold.run import RunFold
from contracts.records import FailureClass, Requeue, encode_line
from contracts.sample_id import SampleId, sample_key
from daemon.generate.work_queue import WorkQueue
from daemon.wishes import Requeued, has_failed, requeued
from daemon.writer import Writer


class Requeueing:
    """Carries requeues out, also while there are no queues yet.

    Args:
        fold: The run's fold.
        writer: Takes the records.
    """

    def __init__(self, fold: RunFold, writer: Writer) -> None:
        self._fold = fold
        self._writer = writer
        self._early: list[tuple[Requeue, str | None]] = []

    def requeue(self, record: Requeue, dataset: str | None, queues: list[WorkQueue[Any]]) -> Requeued:
        """Carry the wish out and record it where it comes to anything; return what that is.

        Refused lines are no matter of trying again: they are checked anew at each start. What a wish can help is the
        fold's to say (`contracts.fold.failures.is_put_back`): what it does not clear counts as it did.

        Args:
            record: What is to be tried again.
            dataset: Only this one; None: all.
            queues: Those that there are.
        """
        if record.error is FailureClass.INVALID_INPUT:
            return Requeued()
        total = Requeued()
        for name, fold in self._fold.datasets.items():
            if dataset in (None, name):
                told = requeued(fold, record, running=True)
                done = sum((_requeue(queue, record) for queue in queues if queue.name == name), Requeued())
                # A queue that is still reading its files does not hold all that they say.
                found = done or told
                if found:
                    # Before anything else is sent: later failures must stand behind this line.
                    self._writer.append(fold.folder.failures, encode_line(record))
                total += found
        if not queues and total:
            self._early.append((record, dataset))
        return total

    def knows(self, dataset: str | None, sample: SampleId, queues: list[WorkQueue[Any]]) -> bool:
        """Whether a sample failed and has no answer yet: in one data set, with None in any."""
        if not queues:
            return has_failed(self._fold, dataset, sample)
        key = sample_key(sample)
        return any(key in queue.trouble for queue in queues if dataset in (None, queue.name))

    def apply_early(self, queues: list[WorkQueue[Any]]) -> None:
        """Carry out in fresh queues what was asked for before: the fold may not have read it yet."""
        for record, dataset in self._early:
            for queue in queues:
                if dataset in (None, queue.name):
                    queue.requeue(record)


def _requeue(queue: WorkQueue[Any], record: Requeue) -> Requeued:
    going_on: dict[str, int | None] = {queue.name: queue.waiting} if queue.ends_halt(record) else {}
    return Requeued(queue.requeue(record), going_on)
