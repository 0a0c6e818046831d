"""Stores of known content, written by our layouts, and what a loader must see of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from contracts.records import StoredSample
from contracts.sample_id import SampleId, sample_key
from daemon.store.floats import BITS, from_float32
from daemon.store.layouts import make_layout
from daemon.store.sample import RowForm, Sample

LAYERS: Final = (1, 3, 5)
HIDDEN: Final = 64
VOCAB: Final = 256
LENGTHS: Final = (2, 7, 41, 64, 5)
_IDS: Final[tuple[SampleId, ...]] = ("plain", 7, "with/slash and ünïcode", "a" * 200, "last")


@dataclass(frozen=True)
class Known:
    """One sample whose every bit is known."""

    sample_id: SampleId
    ids: npt.NDArray[np.int64]
    mask: npt.NDArray[np.uint8]
    bits: npt.NDArray[Any]
    """[L, K+1, H]."""
    form: RowForm

    def sample(self) -> Sample:
        """Return it as the store takes it."""
        key = sample_key(self.sample_id)
        return Sample(self.sample_id, key, self.ids, self.mask, self.form, _ArrayRows(self.bits))

    def seen(self) -> dict[str, Any]:
        """Return what a loader must hand out of it: see tests/trainers/loaders/seen.py."""
        tokens = len(self.ids)
        return {
            "ids": self.ids.tolist(),
            "ids_dtype": "int64",
            "mask": self.mask.tolist(),
            "aux": self._floats(self.bits[:, :-1].reshape(tokens, -1)),
            "last": self._floats(self.bits[:, -1]),
        }

    def _floats(self, bits: npt.NDArray[Any]) -> dict[str, Any]:
        raw = np.ascontiguousarray(bits).tobytes()
        digest = hashlib.sha256(raw).hexdigest()
        return {"dtype": self.form.dtype, "shape": list(bits.shape), "sha256": digest, "finite": True}


class _ArrayRows:
    """Rows in memory, handed out three at a time; a `daemon.store.sample.Rows`."""

    def __init__(self, bits: npt.NDArray[Any]) -> None:
        self._bits = bits

    @property
    def tokens(self) -> int:
        return len(self._bits)

    def blocks(self) -> Iterator[memoryview]:
        for first in range(0, len(self._bits), 3):
            yield memoryview(np.ascontiguousarray(self._bits[first : first + 3])).cast("B")


def known_samples(
    dtype: str = "bfloat16", norm: str = "post", lengths: tuple[int, ...] = LENGTHS, hidden: int = HIDDEN
) -> list[Known]:
    """Return samples of random content, the same each time; the last third of each is its response."""
    random = np.random.default_rng(3)
    form = RowForm(LAYERS, hidden, dtype, norm)
    found = []
    for number, tokens in enumerate(lengths):
        values = random.standard_normal((tokens, form.slots, hidden), dtype=np.float32)
        mask = np.zeros(tokens, dtype=np.uint8)
        mask[-max(1, tokens // 3) :] = 1
        ids = random.integers(0, VOCAB, tokens, dtype=np.int64)
        name = _IDS[number] if number < len(_IDS) else f"sample {number}"
        found.append(Known(name, ids, mask, from_float32(values, dtype), form))
    assert all(one.bits.dtype == np.dtype(BITS[dtype]) for one in found)
    return found


def write_store(layout: str, folder: Path, samples: list[Known]) -> list[StoredSample]:
    """Write samples with one of our layouts and return their index records."""
    store = make_layout(layout, folder)
    records = []
    for row, known in enumerate(samples):
        placed = store.place(known.sample(), row)
        form = known.form
        records.append(
            StoredSample(
                sample_id=known.sample_id,
                file=placed.file,
                row=row,
                offset=placed.offset,
                bytes=placed.bytes,
                checksum=placed.checksum,
                tokens=len(known.ids),
                loss_tokens=int(known.mask.sum()),
                layers=list(form.layers),
                hidden_size=form.hidden_size,
                dtype=form.dtype,
                norm=form.norm,
                layout=layout,
                capture="generating",
                at=float(row),
            )
        )
    return records
