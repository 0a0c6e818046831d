"""What a loader handed out, in a form that can be compared outside of torch; runs inside .venv-trainers."""

from __future__ import annotations

import hashlib
from typing import Any

import torch


def floats(tensor: torch.Tensor) -> dict[str, Any]:
    """Return dtype, shape and a hash of every bit of a tensor."""
    raw = tensor.detach().contiguous().view(torch.uint8).numpy().tobytes()
    return {
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.shape),
        "sha256": hashlib.sha256(raw).hexdigest(),
        "finite": bool(torch.isfinite(tensor).all()),
    }


def sample(
    *, ids: torch.Tensor, mask: torch.Tensor, aux: torch.Tensor, last: torch.Tensor, source: str
) -> dict[str, Any]:
    """Return one sample: ids [L], mask [L], aux [L, K*H], last [L, H]."""
    return {
        "ids": ids.tolist(),
        "ids_dtype": str(ids.dtype).removeprefix("torch."),
        "mask": [int(one) for one in mask.tolist()],
        "aux": floats(aux),
        "last": floats(last),
        "source": source,
    }
