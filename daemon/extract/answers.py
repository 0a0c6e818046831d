"""Rows that come with the answers of one data set, as these are made."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from contracts.records import CaptureCheck, Response
from daemon.capture.fault import CaptureFault
from daemon.extract.captures import Captures
from daemon.extract.fitting import Fitting
from daemon.extract.orders import Orders
from daemon.extract.settling import Settling
from daemon.prompts.index import PromptEntry
from daemon.prompts.refusals import PromptError
from daemon.request_ids import CAPTURED

if TYPE_CHECKING:
    from daemon.extract.queue import ExtractQueue

_LOG: Final = logging.getLogger(__name__)


class AnswerRows:
    """Follows the answers of one data set; a `daemon.generate.following.Following`.

    Args:
        queue: Takes the rows, or has the sample captured afterwards.
        captures: Those of the session.
        orders: Says what is wanted of each answer.
        fitting: Says how much of a sample is stored.
        settling: Judges and records captures that failed.
        while_generating: Rows are taken from answers as they are made.
    """

    def __init__(
        self,
        queue: ExtractQueue,
        captures: Captures,
        orders: Orders,
        fitting: Fitting,
        settling: Settling,
        *,
        while_generating: bool,
    ) -> None:
        self._queue = queue
        self._captures = captures
        self._orders = orders
        self._fitting = fitting
        self._settling = settling
        self._while_generating = while_generating

    def begin(self, prompt: PromptEntry) -> str | None:
        """Return the id for an answer whose rows are captured with it; None: they are taken afterwards."""
        if not self._while_generating or self._queue.halted:
            return None
        expected = prompt.n_tokens + self._captures.lengths.tokens
        return self._captures.begin(self._queue.name, prompt.key, expected, at_least=prompt.n_tokens)

    def answered(self, prompt: PromptEntry, response: Response) -> None:
        """Take the rows of an accepted answer, where they were captured; else they are taken afterwards."""
        rid, queue = response.rid, self._queue
        self._captures.lengths.add(response.completion_tokens)
        if not rid.startswith(CAPTURED):
            return
        whole = prompt.n_tokens + response.completion_tokens - 1
        tokens = self._fitting.fit(prompt, whole)
        if isinstance(tokens, CaptureFault) or queue.is_known(prompt.key):
            # Refused when its response is read back; or the file has an earlier one, and the first counts.
            self._captures.close(rid)
            return
        if not self._captures.is_open(rid):
            fault = CaptureFault(CaptureCheck.NO_ROOM, "given up while it was generated, to make room for others")
            self._settling.failed(queue, prompt, rid, response.server, fault)
            return
        try:
            order = self._orders.of_answer(prompt, response, tokens if tokens < whole else None)
        except (CaptureFault, PromptError) as fault:
            _LOG.warning("%s: sample %r is captured afterwards: %s", queue.name, prompt.sample_id, fault)
            self._captures.close(rid)
            return
        queue.take_rows(order)

    def abandon(self, rid: str) -> None:
        """Nobody wants the rows of this request any more."""
        self._captures.close(rid)
