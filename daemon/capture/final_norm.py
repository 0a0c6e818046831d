"""Whether the last slot of a dump came out of the final norm as it says, by its numbers.

y = x / sqrt(mean(x^2) + eps) * w. So y / w has the mean square s = m / (m + eps), m being that of x: 1, whatever the
model computes, unless x is tiny. ``post`` rows are y. ``over_weight`` rows are y / w already; where s seems to be below
1, which rounding alone can do where one channel is nearly all of a row, they are scaled to a mean square of at most 500
eps, of which the norm makes y again (see `daemon.store.norms`). A state before the norm has any other mean square.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from daemon.sglang_plugin.eagle3_sglang.dump_format import OVER_WEIGHT, POST
from daemon.store.norms import NormWeight

Floats = npt.NDArray[np.float32]

TOLERANCE: Final = {"bfloat16": 0.03, "float16": 0.01, "float32": 0.01}
"""Of a mean square of 1. Rounding twice to bfloat16 takes a row that is one huge value at most 0.016 away, any other
far less; in float16 it is 0.002."""
_LEAST_WEIGHT: Final = {"bfloat16": 2.0**-126, "float16": 2.0**-18, "float32": 2.0**-126}
"""Below it, and at 0, w leaves of a normed value of 1 only what underflows: y / w tells nothing of that channel."""
_SCALED: Final = 500.0
"""Epsilons; up to there reach ``over_weight`` rows that were scaled."""
_TINY: Final = 1000.0
"""Outputs of layers whose mean square is below so many epsilons: then x may be tiny too, and s anything below 1."""


@dataclass(frozen=True)
class LastRows:
    """Of a few rows of one dump, what is needed to judge their norm."""

    last: Floats
    """The last slot, [n, H]."""
    least_square: float
    """The smallest mean square among all their other slots."""
    dtype: str
    norm: str
    """As the dump says."""

    @classmethod
    def of(cls, rows: Floats, dtype: str, norm: str) -> LastRows:
        """Take them from whole rows, [n, K+1, H]."""
        squares = np.mean(np.square(rows[:, :-1], dtype=np.float64), axis=2)
        return cls(rows[:, -1].copy(), float(squares.min()), dtype, norm)


def norm_fault(rows: LastRows, norm: NormWeight) -> str | None:
    """Return how the last slot contradicts the norm that it is said to come out of, or None.

    A weight with zeros, or too small for the dtype, hides channels of ``post`` rows: then only a mean square that is
    too large shows. So it is where the model's states are tiny. The weight may be of any RMS norm, as long as it is
    what multiplies; other norms the plugin refuses by itself.

    Args:
        rows: Of a dump.
        norm: Of the same server; weight [H].
    """
    tolerance = TOLERANCE[rows.dtype]
    right: npt.NDArray[np.bool_]
    if rows.norm == POST:
        squares, whole = _divided(rows, norm)
        may_be_less = not whole or rows.least_square < _TINY * norm.eps
        right = (squares <= 1 + tolerance) & ((squares >= 1 - tolerance) | may_be_less)
    else:
        squares = _mean_squares(rows.last)
        right = (np.abs(squares - 1) <= tolerance) | (squares <= _SCALED * norm.eps * (1 + tolerance))
    if right.all():
        return None
    divided = ", divided by the norm's weight," if rows.norm == POST else ""
    return (
        f"the last hidden state{divided} has a mean square of {_listed(squares)} (rows 0 to {len(squares) - 1}); after "
        f"the final norm, as {rows.norm!r}, it is 1 within {tolerance:g}. {_guess(rows, norm, tolerance)}. Start the "
        f"server as `eagle3 server-args RUN` says, with the plugin of `eagle3 plugin-path`; if it was started so, the "
        f"plugin does not know how this model ends, and its rows cannot be used"
    )


def _divided(rows: LastRows, norm: NormWeight) -> tuple[npt.NDArray[np.float64], bool]:
    """Return the mean square of y / w of each row, [n], and whether it is over all channels."""
    known = np.abs(norm.weight) >= _LEAST_WEIGHT[rows.dtype]
    divided = rows.last[:, known].astype(np.float64) / norm.weight[known]
    return np.square(divided).sum(axis=1) / norm.weight.size, bool(known.all())


def _mean_squares(values: Floats) -> npt.NDArray[np.float64]:
    squares: npt.NDArray[np.float64] = np.mean(np.square(values, dtype=np.float64), axis=1)
    return squares


def _guess(rows: LastRows, norm: NormWeight, tolerance: float) -> str:
    """Say what it looks like instead."""
    if rows.norm == POST and (np.abs(_mean_squares(rows.last) - 1) <= tolerance).all():
        return "It looks like the state after the norm divided by the norm's weight ('over_weight')"
    if rows.norm == OVER_WEIGHT and (np.abs(_divided(rows, norm)[0] - 1) <= tolerance).all():
        return "It looks like the state after the norm, not divided by the norm's weight ('post')"
    return "It looks like the state before the norm, or like that of another norm than the saved one"


def _listed(squares: npt.NDArray[np.float64]) -> str:
    return ", ".join(f"{square:.4g}" for square in squares)
