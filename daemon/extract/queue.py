"""What one data set still has to have captured: samples that need a prefill pass of their own, and answers that bring
their rows along."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
from contracts.shapes.output_ids import output_ids_of
from daemon.capture.fault import CaptureFault
from daemon.capture.order import TakeOrder
from daemon.extract.captures import Captures
from daemon.extract.entry import ExtractEntry
from daemon.extract.places import Place, ResponsePlaces
from daemon.extract.settling import Settling
from daemon.extract.stores import Store
from daemon.generate.executor import Job
from daemon.generate.work_queue import Trouble, WorkQueue
from daemon.prompts.index import PromptEntry, PromptIndex
from daemon.prompts.prompt_file import PromptFileError, ReopeningFile
from daemon.request_ids import CAPTURED
from daemon.writer import Writer

if TYPE_CHECKING:
    from daemon.generate.attempt import Attempt

_PREFILL: Final = msgspec.json.encode({"max_new_tokens": 1, "temperature": 0.0})
READ_BYTES: Final = 4 << 20
"""Of the response file at a time: the event loop waits for it."""


@dataclass(frozen=True)
class SampleLimits:
    """How long a sample may be."""

    longest: int | None
    """Of the data set; None: no limit."""
    truncate: bool
    """Cut longer ones to it, instead of leaving them out."""
    longest_prefill: int | None
    """What every server can take in one pass; None: not known."""


class ExtractQueue(WorkQueue[ExtractEntry]):
    """The samples of one data set whose hidden states are not in the store.

    It is also what a `DatasetQueue` tells of its answers (``daemon.generate.following``).

    Args:
        dataset: The data set's fold, up to date.
        index: Its validated prompts.
        store: Where its samples go.
        captures: Those of the session.
        limits: How long a sample may be.
        settling: Judges and records captures that failed.
        writer: Takes records.
        while_generating: Rows are taken from answers as they are made.
    """

    def __init__(
        self,
        dataset: DatasetFold,
        index: PromptIndex,
        store: Store,
        captures: Captures,
        limits: SampleLimits,
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
        self._limits = limits
        self._settling = settling
        self._writer = writer
        self._while_generating = while_generating
        self._prompts = {entry.key: entry for entry in index.entries}
        self._places = ResponsePlaces(dataset.folder.responses)
        self._lines: ReopeningFile | None = None
        self._orders: dict[str, TakeOrder] = {}
        """Of open prefill passes, by request id."""
        self._busy: dict[bytes, str] = {}
        """Samples that are being taken, or whose index record is on its way to its file -> request id."""
        self._parked: dict[bytes, ExtractEntry] = {}
        """Those of them whose place is known, should they fail."""
        for prompt in index.entries:
            if prompt.pretokenized:
                self._found(prompt, prompt.n_tokens, 0, 0)
        self.refresh()

    def refresh(self) -> None:
        """Take what the files say anew: records that arrived, responses that came."""
        stored = self._dataset.hidden.stored
        for key in [key for key in self._busy if key in stored]:
            self._captures.close(self._busy.pop(key))
            self._parked.pop(key, None)
        for place in self._places.poll():
            self._responded(place)
        if self._places.was_reset:
            self._places.was_reset = False
            self._begin_again()
        self.weight = max(float(self.waiting), 1.0)

    def _begin_again(self) -> None:
        """The response file is another one: where its lines are is to be found out anew."""
        self._fresh.clear()
        self._suspects.clear()
        self._later.clear()
        self._due.clear()
        self._parked.clear()
        for prompt in self.index.entries:
            if prompt.pretokenized and prompt.key not in self._busy:
                self._found(prompt, prompt.n_tokens, 0, 0)
        for place in self._places.poll():
            self._responded(place)

    def _responded(self, place: Place) -> None:
        prompt = self._prompts.get(place.key)
        if prompt is None or prompt.pretokenized or place.key in self._dataset.hidden.stored:
            return
        if not place.n_output_ids:
            fault = CaptureFault(CaptureCheck.NO_IDS, "its response holds no output ids")
            self._settling.refuse(self._dataset, prompt, fault)
            return
        self._found(prompt, prompt.n_tokens + place.n_output_ids - 1, place.offset, place.length)

    def _found(self, prompt: PromptEntry, whole: int, offset: int, length: int) -> None:
        """Queue a sample that is not stored yet, unless it is as it should not be."""
        if prompt.key in self._dataset.hidden.stored:
            return
        tokens = self._fit(whole)
        if isinstance(tokens, CaptureFault):
            self._settling.refuse(self._dataset, prompt, tokens)
            return
        entry = ExtractEntry(prompt, tokens, whole, offset, length)
        if prompt.key in self._busy:
            self._parked[prompt.key] = entry
        else:
            self._enqueue(entry)

    def _enqueue(self, entry: ExtractEntry) -> None:
        key = entry.key
        if key in self.trouble:  # it failed while it was generated
            if self._settling.is_given_up(self.trouble[key]):
                self.quarantine(entry, FailureClass.CAPTURE)
            else:
                self._due.append((entry, FailureClass.CAPTURE))
            return
        failure = self._dataset.failures.extract.get(key)
        if failure is None:
            self._fresh.append(entry)
            return
        if failure.next is NextStep.REFUSED:  # and it fits now
            again = Requeue(at=self._settling.now(), sample_id=entry.sample_id, stage=Stage.EXTRACT)
            self._writer.append(self.failures_path, encode_line(again))
            self._fresh.append(entry)
            return
        self.trouble[key] = Trouble(attempts=failure.attempt, deaths=failure.deaths)
        if failure.next is NextStep.QUARANTINED:
            self.quarantine(entry, failure.error)
        elif failure.deaths:
            self._suspects.append(entry)
        else:
            self._fresh.append(entry)

    def _fit(self, whole: int) -> int | CaptureFault:
        """Return how many rows of a sample are stored, or why none is."""
        limits, tokens = self._limits, whole
        if limits.longest is not None and whole > limits.longest:
            if not limits.truncate:
                return CaptureFault(CaptureCheck.TOO_LONG, f"has {whole} tokens, the limit is {limits.longest}")
            tokens = limits.longest
        return self._captures.too_large(tokens) or tokens

    def has_ready(self, now: float, suspects: bool) -> bool:
        """Whether a prefill pass could be sent now and its rows would have room."""
        if not super().has_ready(now, suspects):
            return False
        entry = self.next_entry(suspects)
        return entry is not None and self._captures.has_room(entry.tokens)

    @property
    def exhausted(self) -> bool:
        """Whether nothing more will be sent or stored, unless a person asks for retries."""
        return super().exhausted and not self.busy

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

    def job(self, attempt: Attempt) -> Job:
        """Return a prefill pass over the whole sequence."""
        entry: ExtractEntry = attempt.entry
        order = self._orders[attempt.rid] = self._order(entry, attempt.rid, AFTERWARDS)
        return Job(
            dataset=self.name,
            sample_id=entry.sample_id,
            rid=attempt.rid,
            input_ids=orjson.dumps(order.ids, option=orjson.OPT_SERIALIZE_NUMPY),
            prompt_tokens=entry.tokens,
            sampling_params=_PREFILL,
            attempt=self.trouble_of(entry).attempts + 1,
        )

    def _order(self, entry: ExtractEntry, rid: str, capture: str) -> TakeOrder:
        prompt = entry.prompt
        return TakeOrder(
            dataset=self.name,
            sample_id=prompt.sample_id,
            key=prompt.key,
            rid=rid,
            prompt_ids=self.index.read_ids(prompt),
            output_ids=self._output_ids(entry),
            loss_mask=self.index.read_mask(prompt),
            capture=capture,
            cached_tokens=None,
            server="",
            limit=entry.tokens if entry.tokens < entry.whole_tokens else None,
        )

    def _output_ids(self, entry: ExtractEntry) -> bytes | None:
        if entry.length == 0:
            return None
        if self._lines is None:
            self._lines = ReopeningFile(self._dataset.folder.responses)
        ids = output_ids_of(self._lines.pread(entry.length, entry.offset))
        if ids is None:
            raise PromptFileError(
                f"{self._dataset.folder.responses}: the response of sample {entry.sample_id!r} is not where it was: "
                f"the file changed while in use"
            )
        return ids

    def accept(self, attempt: Attempt, response: Response) -> None:
        """Take the rows of a prefill pass."""
        order = self._orders.pop(attempt.rid)
        self._take(replace(order, cached_tokens=response.cached_tokens, server=response.server), attempt.entry)

    def fruitless(self, attempt: Attempt) -> None:
        """Nobody waits for the rows of this attempt any more."""
        self._orders.pop(attempt.rid, None)
        self._captures.close(attempt.rid)

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
        whole = prompt.n_tokens + response.completion_tokens - 1
        tokens = self._fit(whole)
        if not self._captures.is_open(rid):
            if rid.startswith(CAPTURED):
                fault = CaptureFault(CaptureCheck.NO_ROOM, "given up while it was generated, to make room for others")
                self._settling.failed(self, prompt, rid, response.server, fault)
            return
        if isinstance(tokens, CaptureFault) or not response.completion_tokens:
            self._captures.close(rid)  # refused when its response is read back
            return
        order = TakeOrder(
            dataset=self.name,
            sample_id=prompt.sample_id,
            key=prompt.key,
            rid=rid,
            prompt_ids=self.index.read_ids(prompt),
            output_ids=bytes(response.output_ids),
            loss_mask=None,
            capture=GENERATING,
            cached_tokens=response.cached_tokens,
            server=response.server,
            limit=tokens if tokens < whole else None,
        )
        self._take(order, None)

    def abandon(self, rid: str) -> None:
        """Nobody wants the rows of this request any more."""
        self._captures.close(rid)

    def adopt(self, entry: ExtractEntry, rid: str, *, generated: bool) -> None:
        """Take the rows that an earlier session left; should they not be good, the sample is captured anew."""
        order = self._order(entry, rid, GENERATING if generated else AFTERWARDS)
        self._captures.adopt(rid, entry.tokens)
        self._take(order, entry, adopted=True)

    def waiting_entries(self) -> dict[bytes, ExtractEntry]:
        """Return what waits and was never tried in this session."""
        return {entry.key: entry for entry in (*self._fresh, *self._suspects)}

    def remove_waiting(self, keys: set[bytes]) -> None:
        """Take samples out that are adopted."""
        self._fresh = type(self._fresh)(entry for entry in self._fresh if entry.key not in keys)
        self._suspects = type(self._suspects)(entry for entry in self._suspects if entry.key not in keys)

    def _take(self, order: TakeOrder, entry: ExtractEntry | None, *, adopted: bool = False) -> None:
        self._busy[order.key] = order.rid
        if entry is not None:
            self._parked[order.key] = entry
        self._captures.take(order, self.store, partial(self._settled, order, adopted))

    def _settled(self, order: TakeOrder, adopted: bool, result: StoredSample | CaptureFault) -> None:
        if isinstance(result, StoredSample):
            self.trouble.pop(order.key, None)
            self._settling.succeeded(self)
            return
        del self._busy[order.key]
        entry = self._parked.pop(order.key, None)
        if adopted and entry is not None:
            self._fresh.append(entry)
            return
        self._settling.failed(self, self._prompts[order.key], order.rid, order.server, result, entry)

    def close(self) -> None:
        """Close the files."""
        if self._lines is not None:
            self._lines.close()
