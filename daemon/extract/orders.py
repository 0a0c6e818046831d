"""What is wanted of a request, read anew from prompt and response file when it is sent; checked before it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from contracts.journal.stale import retry_stale
from contracts.records import CaptureCheck, Response
from contracts.run_config import AFTERWARDS, GENERATING
from contracts.shapes.output_ids import ids_in
from daemon.capture.fault import CaptureFault
from daemon.capture.order import TakeOrder
from daemon.extract.entry import ExtractEntry
from daemon.prompts.index import PromptEntry, PromptIndex
from daemon.prompts.refusals import PromptError


class _Named(msgspec.Struct):
    """Of a response line: only whose it is."""

    rid: str | None = None


_NAMED: Final = msgspec.json.Decoder(_Named)


class SampleMovedError(PromptError):
    """A sample is not in its file where it was."""


class Orders:
    """Makes the orders of one data set.

    Args:
        dataset: Its name.
        index: Its prompts.
        responses: Its response file.
        vocab_size: Of the model; None: not known. One id beyond it kills a server.
    """

    def __init__(self, dataset: str, index: PromptIndex, responses: Path, vocab_size: int | None) -> None:
        self._dataset = dataset
        self._index = index
        self._responses = responses
        self._vocab_size = vocab_size

    def of_entry(self, entry: ExtractEntry, rid: str) -> TakeOrder:
        """Return what is wanted of a sample whose sequence is in the files.

        Args:
            entry: The sample.
            rid: Of the request: that which its response names, or a prefill pass.

        Raises:
            CaptureFault: Its ids or its mask cannot be used (``NO_IDS``).
            SampleMovedError: The file holds something else where it was.
            PromptError: Its prompt cannot be read any more.
        """
        prompt = entry.prompt
        line = None if prompt.pretokenized else self._line(entry)
        order = TakeOrder(
            dataset=self._dataset,
            sample_id=prompt.sample_id,
            key=prompt.key,
            rid=rid,
            prompt_ids=self._index.read_ids(prompt),
            output_ids=None if line is None else self._output_ids(entry, line),
            loss_mask=self._index.read_mask(prompt),
            capture=GENERATING if line is not None and _rid_in(line) == rid else AFTERWARDS,
            cached_tokens=None,
            server="",
            limit=entry.tokens if entry.tokens < entry.whole_tokens else None,
        )
        self._check(order)
        if order.whole_ids.size != entry.whole_tokens:
            raise self._moved(entry)
        return order

    def of_answer(self, prompt: PromptEntry, response: Response, limit: int | None) -> TakeOrder:
        """Return what is wanted of an answer that has just come.

        Raises:
            CaptureFault: Its ids cannot be used (``NO_IDS``).
            PromptError: Its prompt cannot be read any more.
        """
        order = TakeOrder(
            dataset=self._dataset,
            sample_id=prompt.sample_id,
            key=prompt.key,
            rid=response.rid,
            prompt_ids=self._index.read_ids(prompt),
            output_ids=bytes(response.output_ids),
            loss_mask=None,
            capture=GENERATING,
            cached_tokens=response.cached_tokens,
            server=response.server,
            limit=limit,
        )
        self._check(order)
        return order

    def _check(self, order: TakeOrder) -> None:
        highest = int(order.whole_ids.max())
        if self._vocab_size is not None and highest >= self._vocab_size:
            raise CaptureFault(
                CaptureCheck.NO_IDS, f"holds the token id {highest}, the model's vocabulary ends at {self._vocab_size}"
            )
        if not order.mask.any():
            raise CaptureFault(
                CaptureCheck.NOTHING_TO_LEARN,
                f"its loss mask is 0 on all of its {order.mask.size} tokens: there is nothing to learn from",
            )

    def _line(self, entry: ExtractEntry) -> bytes:
        path = self._responses
        try:
            return retry_stale("read", path, lambda: _read_at(path, entry.offset, entry.length))
        except OSError as error:
            raise SampleMovedError(f"{path}: cannot be read: {error.strerror or error}") from error

    def _output_ids(self, entry: ExtractEntry, line: bytes) -> bytes:
        ids = ids_in(line, entry.key)
        if ids is None:
            raise self._moved(entry)
        return ids

    def _moved(self, entry: ExtractEntry) -> SampleMovedError:
        path = self._index.path if entry.prompt.pretokenized else self._responses
        return SampleMovedError(
            f"{path}: sample {entry.sample_id!r} is not where it was: the file changed while in use"
        )


def _rid_in(line: bytes) -> str | None:
    """Return the request whose answer a line of our own is; None: a line of another tool."""
    try:
        return _NAMED.decode(line).rid
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _read_at(path: Path, offset: int, length: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(descriptor, length, offset)
    finally:
        os.close(descriptor)
