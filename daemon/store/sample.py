"""One sample on its way into a store: its ids, its mask, its rows, and what the rows are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from contracts.sample_id import SampleId
from daemon.sglang_plugin.eagle3_sglang.dump_format import ITEM_BYTES

BLOCK_BYTES: Final = 1 << 20
"""About so much is read, examined and written at a time: it stays in the processor's cache between the three."""


@dataclass(frozen=True)
class RowForm:
    """What the rows of a store are; the same for all of its samples."""

    layers: tuple[int, ...]
    """0-based output ids, ascending: slots 0..K-1. Slot K is the last hidden state."""
    hidden_size: int
    dtype: str
    norm: str
    """``post`` or ``over_weight`` (``daemon.sglang_plugin.eagle3_sglang.dump_format``)."""

    @property
    def slots(self) -> int:
        """K + 1."""
        return len(self.layers) + 1

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return self.slots * self.hidden_size * ITEM_BYTES[self.dtype]


class Rows(Protocol):
    """Rows of one sample, [tokens, K+1, H], contiguous, little-endian."""

    @property
    def tokens(self) -> int:
        """How many there are."""

    def blocks(self) -> Iterator[memoryview]:
        """Yield them in order, whole rows, about `BLOCK_BYTES` each.

        A block is the reader's until it asks for the next.

        Raises:
            Whatever the source finds wrong with them: then nothing of them may be kept.
        """


@dataclass(frozen=True)
class Sample:
    """What is stored of one sample."""

    sample_id: SampleId
    key: bytes
    """``contracts.sample_id.sample_key`` of it."""
    ids: npt.NDArray[np.int64]
    """[tokens]."""
    loss_mask: npt.NDArray[np.uint8]
    """[tokens]: 1 where the trainer learns from the token."""
    form: RowForm
    rows: Rows
