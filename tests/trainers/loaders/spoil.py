"""Faults put into samples that our layouts wrote; runs inside .venv-trainers.

Our layouts refuse to write most of them, so the files are written again by torch, safetensors and datasets.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import torch
from datasets import Dataset, load_from_disk
from safetensors.torch import load_file, save_file

_IDS = ("input_ids", "token_ids")
Tensors = dict[str, Any]


def _float_names(tensors: Tensors) -> list[str]:
    return [name for name, one in tensors.items() if isinstance(one, torch.Tensor) and one.is_floating_point()]


def _tokens(tensor: torch.Tensor) -> int:
    return 1 if tensor.dim() == 3 and tensor.shape[0] == 1 else 0


def _mask_short(tensors: Tensors) -> None:
    tensors["loss_mask"] = tensors["loss_mask"][:-1]


def _float32(tensors: Tensors) -> None:
    for name in _float_names(tensors):
        tensors[name] = tensors[name].float()


def _token_short(tensors: Tensors) -> None:
    for name, one in tensors.items():
        if isinstance(one, torch.Tensor):
            dim = _tokens(one)
            tensors[name] = one.narrow(dim, 0, one.shape[dim] - 1).clone()


def _row_short(tensors: Tensors) -> None:
    for name in _float_names(tensors):
        dim = _tokens(tensors[name])
        tensors[name] = tensors[name].narrow(dim, 0, tensors[name].shape[dim] - 1).clone()


def _nan(tensors: Tensors) -> None:
    for name in _float_names(tensors):
        tensors[name].view(-1)[-1] = torch.nan


def _zero_row(tensors: Tensors) -> None:
    for name in _float_names(tensors):
        tensors[name].narrow(_tokens(tensors[name]), 1, 1).zero_()


def _int32_ids(tensors: Tensors) -> None:
    for name in _IDS:
        if name in tensors:
            tensors[name] = tensors[name].int()


_FAULTS: dict[str, Callable[[Tensors], None]] = {
    "mask short": _mask_short,
    "float32": _float32,
    "token short": _token_short,
    "row short": _row_short,
    "nan": _nan,
    "zero row": _zero_row,
    "int32 ids": _int32_ids,
}


def spoil_torch(file: str, fault: str) -> None:
    """Put a fault into a file of torch.save."""
    tensors = torch.load(file, weights_only=False)
    tensors = {name: one.clone().contiguous() if torch.is_tensor(one) else one for name, one in tensors.items()}
    _FAULTS[fault](tensors)
    torch.save(tensors, file)


def spoil_safetensors(file: str, fault: str) -> None:
    """Put a fault into a safetensors file."""
    tensors = load_file(file)
    _FAULTS[fault](tensors)
    save_file({name: one.contiguous() for name, one in tensors.items()}, file)


def spoil_arrow(folder: str, row: int) -> None:
    """Make the loss mask of a row of a data set one value shorter."""
    rows = load_from_disk(folder).with_format(None).to_dict()
    rows["loss_mask"][row] = rows["loss_mask"][row][:-1]
    spoiled = Dataset.from_dict(rows)
    spoiled.set_format("torch")
    spoiled.save_to_disk(f"{folder}/spoiled")
    shutil.copytree(f"{folder}/spoiled", folder, dirs_exist_ok=True)


ACTIONS = {"spoil_torch": spoil_torch, "spoil_safetensors": spoil_safetensors, "spoil_arrow": spoil_arrow}
