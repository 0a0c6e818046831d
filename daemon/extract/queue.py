"""What one data set still has to have captured: samples that need a prefill pass of their own, and answers that bring
their rows along."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
import orjson

from contracts.fold.dataset import DatasetFold
from contracts.records import (
    CaptureCheck,
    FailureClass,
    NextStep,
    Requeue,
    Response,
    Stage,
    StoredSample,
    encode_line,
)
from contracts.run_config import AFTERWARDS, GENERATING
from contracts.sample_id import sample_key
from daemon.capture.fault import CaptureFault
from daemon.capture.order import TakeOrder
from daemon.extract.captures import Captures
from daemon.extract.entry import ExtractEntry
from daemon.extract.fitting import Fitting
from daemon.extract.orders import Orders, SampleMovedError
from daemon.extract.places import Place, ResponsePlaces
from daemon.extract.settling import Settling
from daemon.extract.stores import Store
from daemon.generate.executor import Job
from daemon.generate.work_queue import Trouble, WorkQueue
from daemon.prompts.index import PromptEntry, PromptIndex
from daemon.prompts.refusals import PromptError
from daemon.request_ids import CAPTURED
from daemon.writer import Writer

if TYPE_CHECKING:
    from daemon.generate.attempt import Attempt

_PREFILL: Final = msgspec.json.encode({"max_new_tokens": 1, "temperature": 0.0})
READ_BYTES: Final = 1 << 20
"""Of the response file at a time: the event loop waits for it."""
READ_AGAIN_S: Final = 1.0
"""Pause after the response file could not be read."""
_LOG: Final = logging.getLogger(__name__)


class ExtractQueue(WorkQueue[ExtractEntry]):
    """The samples of one data set whose hidden states are not in the store.

    It is also what a `DatasetQueue` tells of its answers (``daemon.generate.following``).

    Every sample is in one place at a time: it waits, a pass of its own is open (`_sent`), its rows are being taken
    (`_busy`), or it is given up. What is known of it meanwhile (its response came, the file is another one) goes to
    `_entries`, which is asked when it comes back.

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
        self._places = places
        self._captures = captures
        self._order_maker = orders
        self._fitting = fitting
        self._settling = settling
        self._writer = writer
        self._while_generating = while_generating
        self._prompts = {entry.key: entry for entry in index.entries}
        self._entries: dict[bytes, ExtractEntry] = {}
        """Samples that are not stored and whose sequence is known, as the files have it now."""
        self._refused: dict[bytes, CaptureFault] = {}
        self._orders: dict[str, TakeOrder] = {}
        """Of open prefill passes, by request id."""
        self._sent: set[bytes] = set()
        """Samples with an open prefill pass."""
        self._busy: dict[bytes, str] = {}
        """Samples that are being taken, or whose index record is on its way to its file -> request id."""
        self._unread = False
        """The response file could not be read."""
        self._reading_on: asyncio.TimerHandle | None = None
        for prompt in index.entries:
            if prompt.pretokenized:
                self._found(prompt, prompt.n_tokens, 0, 0)
        self.refresh()

    def refresh(self) -> None:
        """Take what the files say anew: records that arrived, responses that came."""
        stored = self._dataset.hidden.stored
        for key in [key for key in self._busy if key in stored]:
            self._captures.close(self._busy.pop(key))
            self._entries.pop(key, None)
        self._read_places()
        self.weight = max(float(self.waiting), 1.0)

    def _read_places(self) -> None:
        try:
            places = self._places.poll(READ_BYTES)
        except OSError as error:
            self._unread = True
            _LOG.error("%s: cannot be read: %s", self._places.path, error.strerror or error)
            self._read_later(READ_AGAIN_S)
            return
        self._unread = False
        if self._places.take_reset():
            self._forget_responses()
        for place in places:
            self._responded(place)
        if self._places.behind:
            self._read_later(0.0)

    def _read_later(self, delay_s: float) -> None:
        """Go on reading by and by: nobody else need notice that there is more."""
        if self._reading_on is None:
            self._reading_on = asyncio.get_running_loop().call_later(delay_s, self._read_on)

    def _read_on(self) -> None:
        self._reading_on = None
        self.refresh()

    def _forget_responses(self) -> None:
        """The response file is another one: where its lines are, and whose, is to be found out anew.

        What is being taken goes on: as a rule the same answers stand in the new file, and `verify` finds others.
        """
        answered = {key for key, entry in self._entries.items() if not entry.prompt.pretokenized}
        self._fresh = deque(entry for entry in self._fresh if entry.key not in answered)
        self._suspects = deque(entry for entry in self._suspects if entry.key not in answered)
        self._due = deque(each for each in self._due if each[0].key not in answered)
        self._later = sorted(each for each in self._later if each[2].key not in answered)
        for key in answered:
            self._quarantined.pop(key, None)
            del self._entries[key]
        for key in [key for key in self._refused if not self._prompts[key].pretokenized]:
            del self._refused[key]

    def _responded(self, place: Place) -> None:
        prompt = self._prompts.get(place.key)
        if prompt is None or prompt.pretokenized or place.key in self._dataset.hidden.stored:
            return
        if place.n_output_ids is None:
            why = "its response holds no output ids, or another number of them than it states"
            self._refuse(prompt, CaptureFault(CaptureCheck.NO_IDS, why))
            return
        if place.prompt_tokens not in (None, prompt.n_tokens):
            why = (
                f"its response answers a prompt of {place.prompt_tokens} tokens, {self.index.path} has "
                f"{prompt.n_tokens}: was the file of prompts or of responses exchanged?"
            )
            self._refuse(prompt, CaptureFault(CaptureCheck.NO_IDS, why))
            return
        self._found(prompt, prompt.n_tokens + place.n_output_ids - 1, place.offset, place.length)

    def _found(self, prompt: PromptEntry, whole: int, offset: int, length: int) -> None:
        """Queue a sample that is not stored yet, unless it is as it should not be."""
        key = prompt.key
        if key in self._dataset.hidden.stored:
            return
        tokens = self._fitting.fit(prompt, whole)
        if isinstance(tokens, CaptureFault):
            self._refuse(prompt, tokens)
            return
        entry = self._entries[key] = ExtractEntry(prompt, tokens, whole, offset, length)
        if key not in self._busy and key not in self._sent:
            self._enqueue(entry)

    def _enqueue(self, entry: ExtractEntry) -> None:
        """Put a sample where its past says, for a prefill pass of its own."""
        key, failure = entry.key, self._dataset.failures.extract.get(entry.key)
        fault = self._fitting.cut_to_pass(entry)
        if fault is not None:
            self._refuse(entry.prompt, fault)
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

    def _refuse(self, prompt: PromptEntry, fault: CaptureFault) -> None:
        self._entries.pop(prompt.key, None)
        # Not the exception itself where it was raised: its traceback keeps ids and masks in memory, for days.
        self._refused[prompt.key] = CaptureFault(fault.check, fault.message)
        self._settling.refuse(self._dataset, prompt, fault)

    def has_ready(self, now: float, suspects: bool) -> bool:
        """Whether a prefill pass could be sent now and its rows would have room."""
        if not super().has_ready(now, suspects):
            return False
        entry = self.next_entry(suspects)
        return entry is not None and self._captures.has_room(entry.tokens)

    def take(self, suspects: bool) -> ExtractEntry | None:
        """Return the sample to send next; see `WorkQueue.take`."""
        entry = super().take(suspects)
        if entry is not None:
            self._sent.add(entry.key)
        return entry

    @property
    def exhausted(self) -> bool:
        """Whether nothing more will be sent or stored, unless a person asks for retries."""
        return super().exhausted and not self.busy and not self._places.behind and not self._unread

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
            order = self._order_maker.of_entry(entry, attempt.rid, AFTERWARDS)
        except CaptureFault as fault:
            self._refuse(entry.prompt, fault)
            return None
        except SampleMovedError:
            self.refresh()
            if self._is_current(entry):
                raise
            return None
        self._orders[attempt.rid] = order
        return Job(
            dataset=self.name,
            sample_id=entry.sample_id,
            rid=attempt.rid,
            input_ids=orjson.dumps(order.ids, option=orjson.OPT_SERIALIZE_NUMPY),
            prompt_tokens=entry.tokens,
            sampling_params=_PREFILL,
            attempt=self.trouble_of(entry).attempts + 1,
        )

    def _is_current(self, entry: ExtractEntry) -> bool:
        """Whether a sample is still as it was when it was sent: its response file may be another one by now."""
        return self._entries.get(entry.key) is entry

    def accept(self, attempt: Attempt, response: Response) -> None:
        """Take the rows of a prefill pass."""
        order, entry = self._orders.pop(attempt.rid), attempt.entry
        if self._is_current(entry):
            self._sent.discard(entry.key)
            self._take(replace(order, cached_tokens=response.cached_tokens, server=response.server))
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
        current = self._entries.get(attempt.entry.key)
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

    def quarantine(self, entry: ExtractEntry, error: FailureClass) -> None:
        """See `WorkQueue.quarantine`."""
        if self._is_current(entry):
            super().quarantine(entry, error)

    def requeue(self, record: Requeue) -> int:
        """Do what a person asked. What is refused stays so, which is recorded anew: the wish has cleared it."""
        again = super().requeue(record)
        if record.stage in (None, self.stage) and record.error in (None, FailureClass.INVALID_INPUT):
            wanted = None if record.sample_id is None else sample_key(record.sample_id)
            for key, fault in self._refused.items():
                if wanted in (None, key):
                    self._settling.refuse(self._dataset, self._prompts[key], fault, anew=True)
        return again

    def begin(self, prompt: PromptEntry) -> str | None:
        """Return the id for an answer whose rows are captured with it; None: they are taken afterwards."""
        if not self._while_generating or self.halted:
            return None
        expected = prompt.n_tokens + self._captures.lengths.tokens
        return self._captures.begin(self.name, prompt.key, expected, at_least=prompt.n_tokens)

    def answered(self, prompt: PromptEntry, response: Response) -> None:
        """Take the rows of an accepted answer, where they were captured; else they are taken afterwards."""
        rid = response.rid
        self._captures.lengths.add(response.completion_tokens)
        if not rid.startswith(CAPTURED):
            return
        whole = prompt.n_tokens + response.completion_tokens - 1
        tokens = self._fitting.fit(prompt, whole)
        known = prompt.key in self._entries or prompt.key in self._dataset.hidden.stored
        if isinstance(tokens, CaptureFault) or known or prompt.key in self._busy:
            # Refused when its response is read back; or the file has an earlier one, and the first counts.
            self._captures.close(rid)
            return
        if not self._captures.is_open(rid):
            fault = CaptureFault(CaptureCheck.NO_ROOM, "given up while it was generated, to make room for others")
            self._settling.failed(self, prompt, rid, response.server, fault)
            return
        try:
            order = self._order_maker.of_answer(prompt, response, tokens if tokens < whole else None)
        except (CaptureFault, PromptError) as fault:
            _LOG.warning("%s: sample %r is captured afterwards: %s", self.name, prompt.sample_id, fault)
            self._captures.close(rid)
            return
        self._take(order)

    def abandon(self, rid: str) -> None:
        """Nobody wants the rows of this request any more."""
        self._captures.close(rid)

    def adopt(self, entry: ExtractEntry, rid: str, *, generated: bool) -> bool:
        """Take the rows that an earlier session left of a waiting sample; should they not be good, it is captured anew.

        Returns:
            False: its ids cannot be read; it waits on.
        """
        try:
            order = self._order_maker.of_entry(entry, rid, GENERATING if generated else AFTERWARDS)
        except (CaptureFault, PromptError):
            return False  # judged when it is sent
        self._captures.adopt(rid, order.rows)
        self._take(order, adopted=True)
        return True

    def waiting_entries(self) -> dict[bytes, ExtractEntry]:
        """Return what waits and was never tried in this session."""
        return {entry.key: entry for entry in (*self._fresh, *self._suspects)}

    def remove_waiting(self, keys: set[bytes]) -> None:
        """Take samples out that are adopted."""
        self._fresh = deque(entry for entry in self._fresh if entry.key not in keys)
        self._suspects = deque(entry for entry in self._suspects if entry.key not in keys)

    def _take(self, order: TakeOrder, *, adopted: bool = False) -> None:
        self._busy[order.key] = order.rid
        self._captures.take(order, self.store, partial(self._settled, order, adopted))

    def _settled(self, order: TakeOrder, adopted: bool, result: StoredSample | CaptureFault) -> None:
        if isinstance(result, StoredSample):
            self.trouble.pop(order.key, None)
            self._settling.succeeded(self)
            return
        self._busy.pop(order.key, None)
        entry = self._entries.get(order.key)
        if adopted and entry is not None:
            self._enqueue(entry)
            return
        unfit = None if entry is None else self._fitting.cut_to_pass(entry)
        prompt, again = self._prompts[order.key], entry if unfit is None else None
        self._settling.failed(self, prompt, order.rid, order.server, result, again)
        if unfit is not None:  # its rows could only come with its answer
            self._refuse(prompt, unfit)

    def close(self) -> None:
        """Read nothing more."""
        if self._reading_on is not None:
            self._reading_on.cancel()
