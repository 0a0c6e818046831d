"""bfloat16, float16 and float32 as numpy sees them: numpy has no bfloat16, so rows are handled as their bits."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

BITS: Final[dict[str, str]] = {"bfloat16": "<u2", "float16": "<u2", "float32": "<u4"}
"""numpy type of the bits of each dtype of rows."""


def to_float32(bits: npt.NDArray[Any], dtype: str) -> npt.NDArray[np.float32]:
    """Return the values of bits, exactly.

    Args:
        bits: Of the type that `BITS` names, any shape.
        dtype: ``bfloat16``, ``float16`` or ``float32``.
    """
    if dtype == "bfloat16":
        return (bits.astype("<u4") << 16).view("<f4")
    return np.ascontiguousarray(bits).view("<f2" if dtype == "float16" else "<f4").astype(np.float32, copy=False)


def from_float32(values: npt.NDArray[np.float32], dtype: str) -> npt.NDArray[Any]:
    """Return the bits of values, rounded to the nearest, ties to even; what is too large becomes infinite.

    Args:
        values: Any shape.
        dtype: ``bfloat16``, ``float16`` or ``float32``.
    """
    values = np.ascontiguousarray(values, dtype="<f4")
    if dtype == "float32":
        return values.view("<u4")
    if dtype == "float16":
        with np.errstate(over="ignore"):
            return values.astype("<f2").view("<u2")
    bits = values.view("<u4")
    rounded: npt.NDArray[Any] = ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype("<u2")
    # Rounding would turn some NaN into infinity, or carry into the sign: they stay NaN.
    nan = np.isnan(values)
    if nan.any():
        rounded[nan] = ((bits[nan] >> 16) | 0x40).astype("<u2")
    return rounded
