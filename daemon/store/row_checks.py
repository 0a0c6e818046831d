"""Whether rows of hidden states can be real: every value finite, no slot of a row all zero.

The values are looked at as whole numbers: the sign is the top bit, and infinities and NaN are all that is at or above
the infinity. Nothing is converted, so that a look costs two passes over memory that is in the processor's cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from contracts.records import CaptureCheck


@dataclass(frozen=True)
class RowFault:
    """The first row of a block that cannot be real."""

    row: int
    """Within the block, from 0."""
    slot: int
    kind: CaptureCheck
    """``NON_FINITE`` or ``ZERO_ROW``."""

    def __str__(self) -> str:
        what = "a value that is not finite" if self.kind is CaptureCheck.NON_FINITE else "nothing but zeros"
        return f"row {self.row}, slot {self.slot}: {what}"


@dataclass(frozen=True)
class _Form:
    """How one type of floating-point number lies in memory."""

    unsigned: np.dtype[Any]
    signed: np.dtype[Any]
    infinity: int
    """The bits of positive infinity."""

    @property
    def sign(self) -> int:
        """The bit of the sign."""
        return 1 << (8 * self.unsigned.itemsize - 1)


_PIECE: Final = 512
"""Bytes: every page of 4,096 that was lost has such a piece as a whole, also where two blocks share it."""
_HALF: Final = (np.dtype("<u2"), np.dtype("<i2"))
_SINGLE: Final = (np.dtype("<u4"), np.dtype("<i4"))
_FORMS: Final = {
    "bfloat16": _Form(*_HALF, 0x7F80),
    "float16": _Form(*_HALF, 0x7C00),
    "float32": _Form(*_SINGLE, 0x7F800000),
}


def check_rows(block: memoryview, dtype: str, values_per_row: int, slots: int) -> RowFault | None:
    """Return the first fault of whole rows, or None.

    Args:
        block: Whole rows, little-endian, contiguous.
        dtype: ``bfloat16``, ``float16`` or ``float32``.
        values_per_row: (K+1) * H.
        slots: K+1: of these none may be all zero either.

    Raises:
        ValueError: The block does not hold whole rows.
        KeyError: Another dtype.
    """
    form = _FORMS[dtype]
    bits = np.frombuffer(block, form.unsigned)
    if bits.size % values_per_row or values_per_row % slots:
        raise ValueError(f"{bits.size} values are no rows of {slots} slots and {values_per_row} values")
    if not bits.size:
        return None
    if _all_finite(bits, form) and not _zero_slots(bits.reshape(-1, values_per_row // slots), form).size:
        return None
    return _first_fault(bits.reshape(-1, slots, values_per_row // slots), form)


def lacks_a_page(block: memoryview) -> bool:
    """Whether some of the rows are nothing but zeros for so long as a page of a disk that a power cut left unwritten.

    `check_rows` sees those that hold a whole slot. Less than that may be real, in a model that fills up its width with
    zeros: for samples of which nobody knows that they were written whole.

    Args:
        block: Whole rows, contiguous.
    """
    words = np.frombuffer(block, np.uint64, block.nbytes // _PIECE * (_PIECE // 8)).reshape(-1, _PIECE // 8)
    likely = np.flatnonzero(words[:, 0] == 0)
    return any(not words[index].any() for index in likely)


def _all_finite(bits: npt.NDArray[Any], form: _Form) -> bool:
    """As signed numbers the largest positive value is on top, as unsigned ones the largest negative one."""
    return bool(bits.view(form.signed).max() < form.infinity and bits.max() < form.infinity + form.sign)


def _zero_slots(slots: npt.NDArray[Any], form: _Form) -> npt.NDArray[np.intp]:
    """Return which slots, [n, H], are all zero, of either sign: only those that begin with a zero are read."""
    magnitude = form.sign - 1
    likely = np.flatnonzero(slots[:, 0] & magnitude == 0)
    return likely[[not (slots[index] & magnitude).any() for index in likely]] if likely.size else likely


def _first_fault(rows: npt.NDArray[Any], form: _Form) -> RowFault:
    """Search rows, [n, K+1, H], of which one has a fault."""
    peaks = (rows & (form.sign - 1)).max(axis=2)
    bad = np.argwhere((peaks == 0) | (peaks >= form.infinity))
    row, slot = (int(place) for place in bad[0])
    kind = CaptureCheck.ZERO_ROW if peaks[row, slot] == 0 else CaptureCheck.NON_FINITE
    return RowFault(row, slot, kind)
