"""What the hidden states of one sample are like, slot by slot: size, range, zeros."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from daemon.store.sample import RowForm, Rows


class SlotStatistics(msgspec.Struct, kw_only=True):
    """One slot over all rows of a sample; in float32. None: of no value that is finite."""

    slot: str
    """``layer <n>`` (0-based output) or ``last``."""
    rms_mean: float | None
    """Mean over the rows of the root of a row's mean square."""
    min: float | None
    max: float | None
    absmax: float | None
    zero_pct: float
    """Values that are 0."""
    non_finite: int


@dataclass
class _Sums:
    """Of each slot, [K+1]."""

    rms: npt.NDArray[np.float64]
    finite_rows: npt.NDArray[np.int64]
    least: npt.NDArray[np.float32]
    most: npt.NDArray[np.float32]
    zeros: npt.NDArray[np.int64]
    odd: npt.NDArray[np.int64]


def slot_statistics(form: RowForm, rows: Rows) -> list[SlotStatistics]:
    """Return the statistics of each slot, K+1; none where there are no rows.

    Raises:
        StoreError, OSError: The rows cannot be read.
    """
    count = form.slots
    sums = _Sums(
        np.zeros(count),
        np.zeros(count, np.int64),
        np.full(count, np.inf, np.float32),
        np.full(count, -np.inf, np.float32),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
    )
    seen = 0
    for block in rows.blocks():
        values = _as_float32(block, form.dtype).reshape(-1, count, form.hidden_size)
        seen += len(values)
        finite = np.isfinite(values)
        whole = finite.all(axis=2)
        known = np.where(finite, values, np.float32(0))
        square = np.sqrt(np.square(known, dtype=np.float64).mean(axis=2))
        sums.rms += np.where(whole, square, 0.0).sum(axis=0)
        sums.finite_rows += whole.sum(axis=0)
        sums.least = np.minimum(sums.least, np.where(finite, values, np.float32(np.inf)).min(axis=(0, 2)))
        sums.most = np.maximum(sums.most, np.where(finite, values, np.float32(-np.inf)).max(axis=(0, 2)))
        sums.zeros += (values == 0).sum(axis=(0, 2))
        sums.odd += (~finite).sum(axis=(0, 2))
    if not seen:
        return []
    names = [*(f"layer {layer}" for layer in form.layers), "last"]
    return [_of_slot(sums, slot, name, seen * form.hidden_size) for slot, name in enumerate(names)]


def _of_slot(sums: _Sums, slot: int, name: str, values: int) -> SlotStatistics:
    known = sums.odd[slot] < values
    least, most = float(sums.least[slot]), float(sums.most[slot])
    return SlotStatistics(
        slot=name,
        rms_mean=float(sums.rms[slot] / sums.finite_rows[slot]) if sums.finite_rows[slot] else None,
        min=least if known else None,
        max=most if known else None,
        absmax=max(abs(least), abs(most)) if known else None,
        zero_pct=100.0 * float(sums.zeros[slot]) / values,
        non_finite=int(sums.odd[slot]),
    )


def _as_float32(block: memoryview, dtype: str) -> npt.NDArray[np.float32]:
    if dtype == "bfloat16":
        # The upper half of a float32 is a bfloat16.
        return (np.frombuffer(block, "<u2").astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(block, "<f2" if dtype == "float16" else "<f4").astype(np.float32)
