"""Dumps that earlier sessions left in the dump folder: which of them are whole, and what they hold."""

from __future__ import annotations

from pathlib import Path

from contracts.fold.dataset import DatasetFold
from contracts.records import NextStep
from daemon.capture.dump import Dump
from daemon.capture.fault import CaptureFault
from daemon.capture.leftovers import Leftover
from daemon.capture.order import TakeOrder
from daemon.extract.entry import ExtractEntry
from daemon.extract.orders import Orders
from daemon.prompts.refusals import PromptError
from daemon.request_ids import sample_hash


class LeftDumps:
    """What was left, to be handed to the samples that still want it.

    Args:
        folder: The dump folder.
        left: What requests of the run have left there.
    """

    def __init__(self, folder: Path, left: list[Leftover]) -> None:
        self._folder = folder
        self._by_hash: dict[str, list[str]] = {}
        for each in left:
            if each.sample_hash is not None and each.rows_bytes:
                self._by_hash.setdefault(each.sample_hash, []).append(each.rid)
        self.taken: set[str] = set()
        """Request ids of those that a sample took."""

    def take(self, dataset: DatasetFold, entry: ExtractEntry, orders: Orders) -> TakeOrder | None:
        """Return what is to be taken of a whole dump of a sample; None: there is none, and it is captured anew.

        Args:
            dataset: Fold of the sample's data set. One that is given up there is not taken.
            entry: The sample.
            orders: Of its data set.
        """
        if not self._by_hash:  # as a rule; else each of 100,000 names would be hashed
            return None
        failure = dataset.failures.extract.get(entry.key)
        if failure is not None and failure.next is NextStep.QUARANTINED:
            return None
        for rid in self._by_hash.get(sample_hash(dataset.name, entry.key), []):
            try:
                order = orders.of_entry(entry, rid)
                if self._rows_written(rid) >= order.rows:
                    self.taken.add(rid)
                    return order
            except (CaptureFault, PromptError):
                return None  # the sample cannot be read: judged when it is sent
        return None

    def _rows_written(self, rid: str) -> int:
        try:
            with Dump.open(self._folder, rid) as dump:
                return dump.rows_written
        except CaptureFault:
            return 0
