"""Which samples of a data set are to be stored, as its prompts and its response file have it now."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Final, Protocol

from contracts.fold.dataset import DatasetFold
from contracts.records import CaptureCheck, FailureClass, Requeue, Stage
from contracts.sample_id import sample_key
from daemon.capture.fault import CaptureFault
from daemon.extract.entry import ExtractEntry
from daemon.extract.fitting import Fitting
from daemon.extract.places import Place, ResponsePlaces
from daemon.extract.settling import Settling
from daemon.prompts.index import PromptEntry, PromptIndex

READ_BYTES: Final = 1 << 20
"""Of the response file at a time: the event loop waits for it."""
SAMPLES_AT_A_TIME: Final = 500
"""Looked at before others have their turn: some milliseconds."""
READ_AGAIN_S: Final = 1.0
"""Pause after the response file could not be read."""
_LOG: Final = logging.getLogger(__name__)


class Follower(Protocol):
    """Who sees to the samples that are found."""

    def found(self, entry: ExtractEntry) -> None:
        """Take a sample that is to be stored."""

    def forgotten(self, keys: set[bytes]) -> None:
        """Give up these samples: their response file is another one, which may name them anew."""

    def refresh(self) -> None:
        """Look at the files again."""


class Wanted:
    """Reads, a slice at a time, what is to be stored of one data set; judges what can be, and records what cannot.

    Args:
        dataset: The data set's fold, up to date.
        index: Its validated prompts.
        places: Of its responses, as far as they were read.
        fitting: Says how much of a sample is stored.
        settling: Records what is left out.
        follower: Told of the samples.
    """

    def __init__(
        self,
        dataset: DatasetFold,
        index: PromptIndex,
        places: ResponsePlaces,
        fitting: Fitting,
        settling: Settling,
        follower: Follower,
    ) -> None:
        self._dataset = dataset
        self._index = index
        self._places = places
        self._fitting = fitting
        self._settling = settling
        self._follower = follower
        self.prompts = {entry.key: entry for entry in index.entries}
        self.entries: dict[bytes, ExtractEntry] = {}
        """Samples that are not stored and whose sequence is known, as the files have it now."""
        self._refused: dict[bytes, CaptureFault] = {}
        self._pending: deque[PromptEntry | Place] = deque(entry for entry in index.entries if entry.pretokenized)
        """Read, and not looked at yet."""
        self._unread = False
        """The response file could not be read."""
        self._reading_on: asyncio.TimerHandle | None = None

    @property
    def unfinished(self) -> bool:
        """Whether the files may name samples that nobody has looked at yet."""
        return bool(self._pending) or self._places.behind or self._unread

    def read(self) -> None:
        """Take what is new in the files; the rest of much that is new follows by and by, without being asked for."""
        if self.step():
            self._read_later(0.0)

    def step(self) -> bool:
        """Take some of what is new; return whether there is more."""
        try:
            places = self._places.poll(READ_BYTES)
        except OSError as error:
            self._unread = True
            _LOG.error("%s: cannot be read: %s", self._places.path, error.strerror or error)
            self._read_later(READ_AGAIN_S)
        else:
            self._unread = False
            if self._places.take_reset():
                self._forget_responses()
            self._pending.extend(places)
        for _ in range(min(len(self._pending), SAMPLES_AT_A_TIME)):
            each = self._pending.popleft()
            if isinstance(each, Place):
                self._responded(each)
            else:
                self._found(each, each.n_tokens, 0, 0)
        return bool(self._pending) or (self._places.behind and not self._unread)

    def _read_later(self, delay_s: float) -> None:
        """Go on reading by and by: nobody else need notice that there is more."""
        if self._reading_on is None:
            self._reading_on = asyncio.get_running_loop().call_later(delay_s, self._read_on)

    def _read_on(self) -> None:
        self._reading_on = None
        self._follower.refresh()

    def _forget_responses(self) -> None:
        """The response file is another one: where its lines are, and whose, is to be found out anew.

        What is being taken goes on: as a rule the same answers stand in the new file, and `verify` finds others.
        """
        self._pending = deque(each for each in self._pending if not isinstance(each, Place))
        answered = {key for key, entry in self.entries.items() if not entry.prompt.pretokenized}
        self._follower.forgotten(answered)
        for key in answered:
            del self.entries[key]
        for key in [key for key in self._refused if not self.prompts[key].pretokenized]:
            del self._refused[key]

    def _responded(self, place: Place) -> None:
        prompt = self.prompts.get(place.key)
        if prompt is None or prompt.pretokenized or place.key in self._dataset.hidden.stored:
            return
        if place.n_output_ids is None:
            why = "its response holds no output ids, or another number of them than it states"
            self.refuse(prompt, CaptureFault(CaptureCheck.NO_IDS, why))
            return
        if place.prompt_tokens not in (None, prompt.n_tokens):
            why = (
                f"its response answers a prompt of {place.prompt_tokens} tokens, {self._index.path} has "
                f"{prompt.n_tokens}: was the file of prompts or of responses exchanged?"
            )
            self.refuse(prompt, CaptureFault(CaptureCheck.NO_IDS, why))
            return
        self._found(prompt, prompt.n_tokens + place.n_output_ids - 1, place.offset, place.length)

    def _found(self, prompt: PromptEntry, whole: int, offset: int, length: int) -> None:
        """Hand on a sample that is not stored yet, unless it is as it should not be."""
        if prompt.key in self._dataset.hidden.stored:
            return
        tokens = self._fitting.fit(prompt, whole)
        if isinstance(tokens, CaptureFault):
            self.refuse(prompt, tokens)
            return
        entry = self.entries[prompt.key] = ExtractEntry(prompt, tokens, whole, offset, length)
        self._follower.found(entry)

    def refuse(self, prompt: PromptEntry, fault: CaptureFault) -> None:
        """Leave a sample out, and record that where it is new."""
        self.entries.pop(prompt.key, None)
        # Not the exception itself where it was raised: its traceback keeps ids and masks in memory, for days.
        self._refused[prompt.key] = CaptureFault(fault.check, fault.message, fault.tokens)
        self._settling.refuse(self._dataset, prompt, fault)

    def requeued(self, record: Requeue) -> None:
        """Record anew what is refused, and stays so, where a wish for another try has cleared it."""
        if record.stage not in (None, Stage.EXTRACT) or record.error not in (None, FailureClass.INVALID_INPUT):
            return
        wanted = None if record.sample_id is None else sample_key(record.sample_id)
        for key, fault in self._refused.items():
            by_class = record.error is not None and fault.check is not CaptureCheck.NOTHING_TO_LEARN
            if key == wanted or (wanted is None and by_class):
                self._settling.refuse(self._dataset, self.prompts[key], fault, anew=True)

    def close(self) -> None:
        """Read nothing more."""
        if self._reading_on is not None:
            self._reading_on.cancel()
