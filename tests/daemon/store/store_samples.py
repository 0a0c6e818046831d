"""Samples for tests of the store: made here, placed, and described as the daemon does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from contracts.records import StoredSample
from contracts.sample_id import sample_key
from daemon.store.floats import from_float32
from daemon.store.layout import Layout, Placed
from daemon.store.sample import RowForm, Sample

NAMES = ["safetensors", "specforge", "speculators", "modelopt"]
LAYERS = (2, 5, 9)


class BytesRows:
    """Rows from memory, a few at a time; may break off with an error."""

    def __init__(self, data: np.ndarray, *, at_once: int = 3, fail_at: int | None = None) -> None:
        self.data = data
        self.at_once = at_once
        self.fail_at = fail_at

    @property
    def tokens(self) -> int:
        return len(self.data)

    def blocks(self) -> Iterator[memoryview]:
        for first in range(0, len(self.data), self.at_once):
            if self.fail_at is not None and first >= self.fail_at:
                raise RowsGone("row 3 is all zero")
            yield self.data[first : first + self.at_once].data.cast("B")


class RowsGone(Exception):
    """What a source of rows may raise."""


def make_sample(
    sample_id: str | int = "s",
    *,
    tokens: int = 11,
    hidden: int = 8,
    dtype: str = "bfloat16",
    norm: str = "post",
    seed: int = 0,
    fail_at: int | None = None,
    at_once: int = 3,
) -> Sample:
    random = np.random.default_rng(seed)
    values = random.standard_normal((tokens, len(LAYERS) + 1, hidden), dtype=np.float32)
    mask = np.zeros(tokens, np.uint8)
    mask[tokens // 3 :] = 1
    return Sample(
        sample_id=sample_id,
        key=sample_key(sample_id),
        ids=random.integers(0, 50, tokens, dtype=np.int64),
        loss_mask=mask,
        form=RowForm(LAYERS, hidden, dtype, norm),
        rows=BytesRows(from_float32(values, dtype), fail_at=fail_at, at_once=at_once),
    )


def record_of(sample: Sample, placed: Placed, row: int, layout: Layout) -> StoredSample:
    return StoredSample(
        sample_id=sample.sample_id,
        file=placed.file,
        row=row,
        offset=placed.offset,
        bytes=placed.bytes,
        checksum=placed.checksum,
        tokens=len(sample.ids),
        loss_tokens=int(sample.loss_mask.sum()),
        layers=list(sample.form.layers),
        hidden_size=sample.form.hidden_size,
        dtype=sample.form.dtype,
        norm=sample.form.norm,
        layout=layout.name,
        capture="generating",
        at=1.0,
    )


def place(layout: Layout, sample: Sample, row: int = 0) -> StoredSample:
    return record_of(sample, layout.place(sample, row), row, layout)


def place_many(layout: Layout, count: int) -> list[StoredSample]:
    return [
        place(layout, make_sample(f"s{row}", tokens=5 + row, norm=layout.norm, seed=row), row) for row in range(count)
    ]


def raw(sample: Sample) -> bytes:
    rows = sample.rows
    assert isinstance(rows, BytesRows)
    return rows.data.tobytes()


def files_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
