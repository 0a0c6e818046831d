"""The final norm of the model, kept beside the samples: ``norm.safetensors``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from daemon.store.layout import StoreError
from daemon.store.norms import NormWeight
from daemon.store.reading import read_array
from daemon.store.safetensors_form import encode_header, read_document
from daemon.store.writing import new_file

NORM_FILE: Final = "norm.safetensors"
"""No reader takes it for a sample: speculators reads ``hidden_states/`` only, the others no safetensors."""
_FORMAT: Final = "eagle3-norm/1"
_WEIGHT: Final = "weight"


def write_norm(folder: Path, norm: NormWeight) -> Path:
    """Write weight (float32 [H]) and eps of the final norm, whole or not at all.

    Raises:
        OSError: It cannot be written.
    """
    path = folder / NORM_FILE
    with new_file(path) as output:
        metadata = {"format": _FORMAT, "eps": repr(float(norm.eps))}
        output.write(encode_header([(_WEIGHT, "F32", norm.weight.shape)], metadata))
        output.write(np.ascontiguousarray(norm.weight, dtype="<f4").data)
    return path


def read_norm(folder: Path) -> NormWeight | None:
    """Read it back; None where there is none.

    Raises:
        StoreError: It is damaged.
        OSError: It cannot be read.
    """
    path = folder / NORM_FILE
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return None
    document = read_document(path, 0, size)
    entry = document.entries.get(_WEIGHT)
    try:
        eps = float(document.metadata["eps"])
    except (KeyError, ValueError) as error:
        raise StoreError(f"{path} does not state the norm's eps: {error!r}") from error
    if entry is None or entry.dtype != "F32" or len(entry.shape) != 1:
        raise StoreError(f"{path} holds no weight of a norm (float32, one dimension)")
    weight = read_array(path, entry.offset, entry.shape[0], "<f4").astype(np.float32)
    return NormWeight(weight, eps)
