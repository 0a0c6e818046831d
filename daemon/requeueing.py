"""Another try for samples that failed, because a person asked for it."""

from __future__ import annotations

from contracts.fold.dataset import DatasetFold
from contracts.fold.run import RunFold
from contracts.records import FailureClass, NextStep, Requeue, encode_line
from contracts.sample_id import sample_key
from daemon.generate.queue import DatasetQueue
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

    def requeue(self, record: Requeue, dataset: str | None, queues: list[DatasetQueue]) -> int:
        """Record the wish and carry it out; return how many samples are sent again.

        Refused lines are no matter of trying again: they are checked anew at each start.

        Args:
            record: What is to be tried again.
            dataset: Only this one; None: all.
            queues: Those that there are.
        """
        if record.error is FailureClass.INVALID_INPUT:
            return 0
        by_name = {queue.name: queue for queue in queues}
        count = 0
        for name, fold in self._fold.datasets.items():
            if dataset in (None, name):
                self._writer.append(fold.folder.failures, encode_line(record))
                count += by_name[name].requeue(record) if name in by_name else _given_up(fold, record)
        if not queues:
            self._early.append((record, dataset))
        return count

    def apply_early(self, queues: list[DatasetQueue]) -> None:
        """Carry out in fresh queues what was asked for before: the fold may not have read it yet."""
        for record, dataset in self._early:
            for queue in queues:
                if dataset in (None, queue.name):
                    queue.requeue(record)


def _given_up(dataset: DatasetFold, record: Requeue) -> int:
    """Return how many given-up samples a requeue concerns, as the files say."""
    wanted = None if record.sample_id is None else sample_key(record.sample_id)
    return sum(
        failure.next is NextStep.QUARANTINED and record.error in (None, failure.error) and wanted in (None, key)
        for key, failure in dataset.open_failures()
    )
