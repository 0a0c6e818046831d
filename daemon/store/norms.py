"""The two forms of the last hidden state, and the way from one to the other.

``post`` is what the model's head reads: y = x / sqrt(mean(x^2) + eps) * w. ``over_weight`` is y / w, whose RMSNorm is y
again: what a trainer needs that applies the final norm itself. y / w has mean square s = m / (m + eps), where m is the
mean square of x; s is 1 unless x was tiny. There, RMSNorm of y / w would divide by sqrt(s + eps), not by 1, so it is
scaled to the length that x had: c * y / w with c = sqrt(m + eps) = sqrt(eps / (1 - s)).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from daemon.store.floats import BITS, from_float32, to_float32
from daemon.store.sample import RowForm, Rows

Floats = npt.NDArray[np.float32]

_TINY_FROM: Final = 2e-3
"""Where 1 - s is below it, it is rounding and not eps, and a scale from it would be noise."""
_SCALED_BELOW: Final = 0.5
"""Mean square of ``over_weight`` below which it was scaled: otherwise it is at least 1 - `_TINY_FROM`, scaled it is m,
which is at most eps / `_TINY_FROM`."""


class NormError(ValueError):
    """Rows that cannot be brought into the other form."""


@dataclass(frozen=True)
class NormWeight:
    """The final RMSNorm of a model."""

    weight: Floats
    """[H], as it is multiplied (for models that store w - 1: w)."""
    eps: float


def over_weight(rows: Floats, norm: NormWeight) -> Floats:
    """Bring last hidden states, [n, H], from ``post`` to ``over_weight``.

    Raises:
        NormError: The weight has a zero or a value that is not finite, or another size, or the result is not finite.
    """
    _check(rows, norm)
    if not norm.weight.all():
        raise NormError("the final norm's weight has a zero: rows of the form over_weight cannot be made from it")
    with np.errstate(over="ignore"):
        over = rows / norm.weight
        missing = 1.0 - np.mean(np.square(over, dtype=np.float64), axis=1, keepdims=True)
    scale = np.where(missing > _TINY_FROM, np.sqrt(norm.eps / np.maximum(missing, _TINY_FROM)), 1.0)
    return (over * scale.astype(np.float32)).astype(np.float32, copy=False)


def post(rows: Floats, norm: NormWeight) -> Floats:
    """Bring last hidden states, [n, H], from ``over_weight`` to ``post``.

    Raises:
        NormError: The weight has a value that is not finite, or another size.
    """
    _check(rows, norm)
    mean_square = np.mean(np.square(rows, dtype=np.float64), axis=1, keepdims=True)
    length = np.where(mean_square < _SCALED_BELOW, np.sqrt(mean_square + norm.eps), 1.0)
    return ((rows / length.astype(np.float32)) * norm.weight).astype(np.float32, copy=False)


def divide(rows: Rows, form: RowForm, norm: NormWeight) -> Rows:
    """Return rows of the form ``post`` with the last slot as ``over_weight``, converted block by block when read.

    Args:
        rows: Of ``form``; they are left as they are.
        form: Its ``norm`` is not looked at.
        norm: Of the model.

    Raises:
        NormError: When read: see `over_weight`; also when a converted value is not finite in the rows' dtype.
    """
    return _Converted(rows, form, lambda last: over_weight(last, norm))


def multiply(rows: Rows, form: RowForm, norm: NormWeight) -> Rows:
    """Return rows of the form ``over_weight`` with the last slot as ``post``; otherwise as `divide`."""
    return _Converted(rows, form, lambda last: post(last, norm))


class _Converted:
    """Rows whose last slot is changed on the way; a `Rows`."""

    def __init__(self, rows: Rows, form: RowForm, change: Callable[[Floats], Floats]) -> None:
        self._rows = rows
        self._form = form
        self._change = change

    @property
    def tokens(self) -> int:
        """How many there are."""
        return self._rows.tokens

    def blocks(self) -> Iterator[memoryview]:
        """Yield them in order, whole rows, each block in memory of its own."""
        form, first = self._form, 0
        for block in self._rows.blocks():
            bits = np.frombuffer(block, BITS[form.dtype]).reshape(-1, form.slots, form.hidden_size).copy()
            last = from_float32(self._change(to_float32(bits[:, -1], form.dtype)), form.dtype)
            if not np.isfinite(to_float32(last, form.dtype)).all():
                raise NormError(
                    f"the last hidden state of a row among {first} to {first + len(bits) - 1} is not finite in the "
                    f"other form of the norm, as {form.dtype}"
                )
            bits[:, -1] = last
            first += len(bits)
            yield bits.data.cast("B")


def _check(rows: Floats, norm: NormWeight) -> None:
    if norm.weight.shape != rows.shape[1:]:
        raise NormError(f"the final norm has {norm.weight.size} weights, the rows have {rows.shape[1]} values a slot")
    if not np.isfinite(norm.weight).all():
        raise NormError("the final norm's weight has values that are not finite")
