"""What one data set still has to have captured: samples that need a prefill pass, until their rows are stored."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from contracts.fold.dataset import DatasetFold
from contracts.records import FailureClass, NextStep, Requeue, Response, Stage, StoredSample, encode_line
from daemon.capture.fault import CaptureFault
from daemon.capture.order import TakeOrder
from daemon.extract.adopting import LeftDumps
from daemon.extract.answers import AnswerRows
from daemon.extract.captures import Captures
from daemon.extract.entry import ExtractEntry
from daemon.extract.fitting import Fitting
from daemon.extract.orders import Orders, SampleMovedError
from daemon.extract.places import ResponsePlaces
from daemon.extract.prefill import prefill_job
from daemon.extract.settling import Settling
from daemon.extract.stores import Store
from daemon.extract.wanted import Wanted
from daemon.generate.executor import Job
from daemon.generate.work_queue import Trouble, WorkQueue
from daemon.prompts.index import PromptIndex
from daemon.writer import Writer

if TYPE_CHECKING:
    from daemon.generate.attempt import Attempt

PUT_OFF_S: Final = 5.0
PUT_OFF_MOST: Final = 64
"""So many at a time, each for so long."""


class ExtractQueue(WorkQueue[ExtractEntry]):
    """The samples of one data set whose hidden states are not in the store.

    It holds nothing until `fill` has looked at the files.

    Every sample is in one place at a time: it waits, a pass of its own is open (`_sent`), its rows are being taken
    (`_busy`), or it is given up. What is known of it meanwhile (its response came, the file is another one) is in
    `Wanted.entries`, which is asked when it comes back.

    Args:
        dataset: The data set's fold, up to date.
        index: Its validated prompts.
        places: Of its responses, as far as they were read.
        store: Where its samples go.
        captures: Those of the session.
        orders: Says what is wanted of each request.
        fitting: Says how much of a sample is stored.
        settling: Judges and records captures that failed.
        writer: Takes records.
        while_generating: Rows are taken from answers as they are made.
    """

    def __init__(
        self,
        dataset: DatasetFold,
        index: PromptIndex,
        places: ResponsePlaces,
        store: Store,
        captures: Captures,
        orders: Orders,
        fitting: Fitting,
        settling: Settling,
        writer: Writer,
        *,
        while_generating: bool,
    ) -> None:
        halted = dataset.failures.extract_halted is not None
        super().__init__(dataset.name, Stage.EXTRACT, dataset.folder.failures, halted=halted)
        self.index = index
        self.store = store
        self._dataset = dataset
        self._captures = captures
        self._order_maker = orders
        self._fitting = fitting
        self._settling = settling
        self._writer = writer
        self.answers = AnswerRows(self, captures, orders, fitting, settling, while_generating=while_generating)
        """What a `DatasetQueue` tells of its answers."""
        self._wanted = Wanted(dataset, index, places, fitting, settling, self)
        self._left: LeftDumps | None = None
        """Of earlier sessions, while the queue is filled."""
        self._orders: dict[str, TakeOrder] = {}
        """Of open prefill passes, by request id."""
        self._sent: set[bytes] = set()
        """Samples with an open prefill pass."""
        self._busy: dict[bytes, str] = {}
        """Samples that are being taken, or whose index record is on its way to its file -> request id."""

    def fill(self, left: LeftDumps | None = None) -> bool:
        """Look at some of the samples that are in the files at the start; return whether there are more.

        Args:
            left: Dumps of earlier sessions, for the samples that still want them.
        """
        self._left = left
        more = self._wanted.step()
        self._left = None
        if not more:
            self.refresh()
        return more

    def refresh(self) -> None:
        """Take what the files say anew: records that arrived, responses that came."""
        stored = self._dataset.hidden.stored
        for key in [key for key in self._busy if key in stored]:
            self._captures.close(self._busy.pop(key))
            self._wanted.entries.pop(key, None)
        self._wanted.read()
        self.weight = max(float(self.waiting), 1.0)

    def forgotten(self, keys: set[bytes]) -> None:
        """See `daemon.extract.wanted.Follower`; those that are quarantined are so too when they are found again."""
        self._fresh = deque(entry for entry in self._fresh if entry.key not in keys)
        self._suspects = deque(entry for entry in self._suspects if entry.key not in keys)
        self._due = deque(each for each in self._due if each[0].key not in keys)
        self._later = sorted(each for each in self._later if each[2].key not in keys)

    def found(self, entry: ExtractEntry) -> None:
        """Take a sample that is to be stored: its rows may be there already, else it needs a prefill pass.

        What limits such a pass limits no rows that are there; but what is left may be of a pass that was so limited.
        """
        if entry.key in self._busy or entry.key in self._sent:
            return
        if not (self._adopt(entry) or (self._fitting.cut_to_pass(entry) is None and self._adopt(entry))):
            self._enqueue(entry)

    def _adopt(self, entry: ExtractEntry) -> bool:
        """Take the rows that an earlier session left of a sample; should they not be good, it is captured anew."""
        order = None if self._left is None else self._left.take(self._dataset, entry, self._order_maker)
        if order is not None:
            self._captures.adopt(order.rid)
            self.take_rows(order, adopted=True)
        return order is not None

    def _enqueue(self, entry: ExtractEntry) -> None:
        """Put a sample where its past says, for a prefill pass of its own."""
        key, failure = entry.key, self._dataset.failures.extract.get(entry.key)
        if key in self._quarantined:  # before the response file was replaced
            self.quarantine(entry, self._quarantined[key][1])
            return
        if (fault := self._fitting.cut_to_pass(entry)) is not None:
            self._wanted.refuse(entry.prompt, fault)
            return
        failed_now = key in self.trouble  # maybe while it was generated
        if failure is not None and failure.next is NextStep.REFUSED:  # and it fits now
            again = Requeue(at=self._settling.now(), sample_id=entry.sample_id, stage=Stage.EXTRACT)
            self._writer.append(self.failures_path, encode_line(again))
        elif failure is not None and not failed_now:
            self.trouble[key] = Trouble(attempts=failure.attempt, deaths=failure.deaths)
            if failure.next is NextStep.QUARANTINED:
                self.quarantine(entry, failure.error)
                return
        if failed_now and self._settling.is_given_up(self.trouble[key]):
            self.quarantine(entry, FailureClass.CAPTURE)
        elif self.is_suspect(entry):
            self._suspects.append(entry)
        elif failed_now:
            self._due.append((entry, FailureClass.CAPTURE))
        else:
            self._fresh.append(entry)

    def has_ready(self, now: float, suspects: bool) -> bool:
        """Whether a prefill pass could be sent now and its rows would have room.

        Samples for which others' files leave none let smaller ones go first; not all of many at a time.
        """
        for _ in range(PUT_OFF_MOST):
            entry = self.next_entry(suspects) if super().has_ready(now, suspects) else None
            if entry is None or self._captures.has_room(entry.tokens):
                return entry is not None
            if not self._captures.is_crowded_out(entry.tokens):
                return False  # as soon as other captures have ended
            self.put_off(suspects, now + PUT_OFF_S, FailureClass.CAPTURE)
        return False

    def take(self, suspects: bool) -> ExtractEntry | None:
        """Return the sample to send next; see `WorkQueue.take`."""
        if (entry := super().take(suspects)) is not None:
            self._sent.add(entry.key)
        return entry

    @property
    def exhausted(self) -> bool:
        """Whether nothing more will be sent or stored, unless a person asks for retries."""
        return super().exhausted and not self.busy and not self._wanted.unfinished

    @property
    def busy(self) -> bool:
        """Whether samples are being taken and stored."""
        return bool(self._busy)

    def rid(self, entry: ExtractEntry) -> str:
        """Return the id of a prefill pass, its room reserved."""
        rid = self._captures.begin(self.name, entry.key, entry.tokens)
        if rid is None:
            raise RuntimeError(f"no room for {entry.tokens} rows, though there was some a moment ago")
        return rid

    def job(self, attempt: Attempt) -> Job | None:
        """Return a prefill pass over the whole sequence; None where that cannot be made, and it is seen to."""
        entry: ExtractEntry = attempt.entry
        if not self._is_current(entry):
            return None  # `fruitless` sees to it
        try:
            order = self._order_maker.of_entry(entry, attempt.rid)
        except CaptureFault as fault:
            self._wanted.refuse(entry.prompt, fault)
            return None
        except SampleMovedError:
            self.refresh()
            if self._is_current(entry):
                raise
            return None
        self._orders[attempt.rid] = order
        return prefill_job(order, entry, self.trouble_of(entry).attempts + 1)

    def _is_current(self, entry: ExtractEntry) -> bool:
        """Whether a sample is still as it was when it was sent: its response file may be another one by now."""
        return self._wanted.entries.get(entry.key) is entry

    def accept(self, attempt: Attempt, response: Response) -> None:
        """Take the rows of a prefill pass."""
        order, entry = self._orders.pop(attempt.rid), attempt.entry
        if self._is_current(entry):
            self._sent.discard(entry.key)
            self.take_rows(replace(order, cached_tokens=response.cached_tokens, server=response.server))
        else:
            self._ended(attempt)

    def fruitless(self, attempt: Attempt) -> None:
        """Nobody waits for the rows of this attempt any more."""
        self._orders.pop(attempt.rid, None)
        self._ended(attempt)

    def _ended(self, attempt: Attempt) -> None:
        """An attempt ended without rows. Its sample is queued anew when it is another one by now."""
        self._captures.close(attempt.rid)
        self._sent.discard(attempt.entry.key)
        current = self._wanted.entries.get(attempt.entry.key)
        if current is not None and current is not attempt.entry:
            self._enqueue(current)

    def put_back(self, entry: ExtractEntry) -> None:
        """See `WorkQueue.put_back`; here and below what is not current is left to `_ended`."""
        if self._is_current(entry):
            super().put_back(entry)

    def suspect(self, entry: ExtractEntry) -> None:
        """See `WorkQueue.suspect`."""
        if self._is_current(entry):
            super().suspect(entry)

    def retry_at(self, entry: ExtractEntry, due: float, error: FailureClass) -> None:
        """See `WorkQueue.retry_at`."""
        if self._is_current(entry):
            super().retry_at(entry, due, error)

    def requeue(self, record: Requeue) -> int:
        """Do what a person asked. What is refused stays so."""
        again = super().requeue(record)
        self._fresh = deque(entry for entry in self._fresh if self._is_current(entry))  # others are yet to be found
        self._wanted.requeued(record)
        return again

    def is_known(self, key: bytes) -> bool:
        """Whether a sample's sequence is in the files, or its rows are in the store or on their way there."""
        return key in self._wanted.entries or key in self._busy or key in self._dataset.hidden.stored

    def take_rows(self, order: TakeOrder, *, adopted: bool = False) -> None:
        """Take the rows of a sample: nothing else is sent for it meanwhile."""
        self._busy[order.key] = order.rid
        self._captures.take(order, self.store, partial(self._settled, order, adopted))

    def _settled(self, order: TakeOrder, adopted: bool, result: StoredSample | CaptureFault) -> None:
        if isinstance(result, StoredSample):
            self.trouble.pop(order.key, None)
            self._settling.succeeded(self)
            return
        self._busy.pop(order.key, None)
        entry = self._wanted.entries.get(order.key)
        if adopted and entry is not None:
            self._enqueue(entry)
            return
        unfit = None if entry is None else self._fitting.cut_to_pass(entry)
        prompt, again = self._wanted.prompts[order.key], entry if unfit is None else None
        self._settling.failed(self, prompt, order.rid, order.server, result, again)
        if unfit is not None:  # its rows could only come with its answer
            self._wanted.refuse(prompt, unfit)

    def close(self) -> None:
        """Read nothing more."""
        self._wanted.close()
