"""What is wanted of one dump: the sample that its rows are to be, and what is known of how they were made."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from contracts.records import CaptureCheck
from contracts.run_config import GENERATING
from contracts.sample_id import SampleId
from daemon.capture.fault import CaptureFault
from daemon.store.sequences import sequence_of_response

_IDS: Final = msgspec.json.Decoder(list[int])
_MASK: Final = msgspec.json.Decoder(list[Literal[0, 1]])
_MOST_ID: Final = (1 << 32) - 1
"""Marks hold no larger one."""


@dataclass(frozen=True)
class TakeOrder:
    """One sample whose rows are, or will be, in the dump folder.

    The sample of a response is prompt + answer without its last token, which is never fed; a pre-tokenized one is the
    whole of its ids. What its properties read from JSON text raises `CaptureFault` (``NO_IDS``) where it is unusable.
    """

    dataset: str
    sample_id: SampleId
    key: bytes
    """``contracts.sample_id.sample_key`` of it."""
    rid: str
    prompt_ids: bytes
    """JSON text; of a pre-tokenized sample all of its ids."""
    output_ids: bytes | None
    """JSON text; None: pre-tokenized."""
    loss_mask: bytes | None
    """JSON text of 0 and 1, one for each id of a pre-tokenized sample; None: 1 on the answer's tokens."""
    capture: str
    """``generating`` or ``afterwards``."""
    cached_tokens: int | None
    """Prompt tokens that the server says it took from its cache; None where it says nothing."""
    server: str
    limit: int | None = None
    """Longest sample: a longer one is cut to its beginning. In the mode ``afterwards`` only that much is sent."""

    def __post_init__(self) -> None:
        if (self.output_ids is None) == (self.loss_mask is None):
            raise ValueError(f"{self.rid}: a sample has an answer or a loss mask of its own, and not both")

    @property
    def whole_ids(self) -> npt.NDArray[np.int64]:
        """Ids before any cut, [tokens]."""
        return self._prompt if self.output_ids is None else self._of_response[0]

    @property
    def ids(self) -> npt.NDArray[np.int64]:
        """Ids of the sample, [tokens]."""
        return self.whole_ids[: self.limit]

    @cached_property
    def mask(self) -> npt.NDArray[np.uint8]:
        """Loss mask of the sample, [tokens]."""
        if self.loss_mask is None:
            mask = self._of_response[1]
        else:
            mask = _mask(self.loss_mask)
            if mask.size != self.whole_ids.size:
                raise CaptureFault(
                    CaptureCheck.NO_IDS, f"{mask.size} values in the loss mask for {self.whole_ids.size} token ids"
                )
        return mask[: self.limit]

    @property
    def truncated_from(self) -> int | None:
        """Tokens before the cut; None: it was not cut."""
        return self.whole_ids.size if self.ids.size < self.whole_ids.size else None

    @property
    def fed_ids(self) -> npt.NDArray[np.int64]:
        """Ids that the dump must hold: while generating those before the cut, in a pass of its own those after it."""
        return self.whole_ids if self.capture == GENERATING else self.ids

    @property
    def rows(self) -> int:
        """Rows that the dump must hold."""
        return self.fed_ids.size

    @cached_property
    def _of_response(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
        """Ids and mask of prompt and answer, before any cut."""
        assert self.output_ids is not None
        return sequence_of_response(self._prompt, _ids(self.output_ids, "the answer"))

    @cached_property
    def _prompt(self) -> npt.NDArray[np.int64]:
        return _ids(self.prompt_ids, "the prompt")


def _ids(text: bytes, whose: str) -> npt.NDArray[np.int64]:
    try:
        ids = np.array(_IDS.decode(text), np.int64)
    except (msgspec.DecodeError, UnicodeDecodeError, OverflowError) as error:
        raise CaptureFault(CaptureCheck.NO_IDS, f"{whose} has no usable token ids: {error}") from error
    if not ids.size:
        raise CaptureFault(CaptureCheck.NO_IDS, f"{whose} has no token ids")
    if ids.min() < 0 or ids.max() > _MOST_ID:
        raise CaptureFault(CaptureCheck.NO_IDS, f"{whose} has token ids from {ids.min()} to {ids.max()}")
    return ids


def _mask(text: bytes) -> npt.NDArray[np.uint8]:
    try:
        return np.array(_MASK.decode(text), np.uint8)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CaptureFault(CaptureCheck.NO_IDS, f"the loss mask is no list of 0 and 1: {error}") from error
