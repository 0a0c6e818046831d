"""speculators 0.9.0 reads a data set folder with its hidden states; runs inside .venv-trainers."""

from __future__ import annotations

from typing import Any

import torch
from seen import sample
from speculators.models.eagle3.data import shift_batch
from speculators.train.cli import _load_mappings, build_vocab_mappings_from_distribution
from speculators.train.data import ArrowDataset, BatchType, CollateFn
from speculators.train.recovery import SampleUnavailable

_MAX_LEN = 4096


def open_dataset(folder: str) -> ArrowDataset:
    """Open it so that a missing file is an error, not a request to vLLM."""
    return ArrowDataset(max_len=_MAX_LEN, datapath=folder, on_missing="raise")


def load(folder: str) -> list[dict[str, Any]]:
    """Return every sample of a data set by row; one that its loader drops has only a reason."""
    dataset = open_dataset(folder)
    found = []
    for row in range(len(dataset)):
        item = dataset[row]
        if isinstance(item, SampleUnavailable):
            found.append({"dropped": item.reason})
            continue
        one = sample(
            ids=item["input_ids"],
            mask=item["loss_mask"],
            aux=item["hidden_states"],
            last=item["verifier_last_hidden_states"],
            source=f"hidden_states/hs_{row}.safetensors",
        )
        found.append({**one, "approx_length": dataset.approx_lengths[row]})
    return found


def collate(folder: str, layers: int, hidden_size: int, dtype: str) -> dict[str, Any]:
    """Pack all samples into one batch, as training does, and return it document by document."""
    dataset = open_dataset(folder)
    batch = packed(dataset, layers, hidden_size, getattr(torch, dtype))
    documents = batch["document_ids"][0]
    found = []
    for number in range(int(documents.max()) + 1):
        here = documents == number
        found.append(
            sample(
                ids=batch["input_ids"][0][here],
                mask=batch["loss_mask"][0][here],
                aux=batch["hidden_states"][0][here],
                last=batch["verifier_last_hidden_states"][0][here],
                source=str(number),
            )
        )
    return {"documents": found, "error_records": batch["error_records"]}


def packed(dataset: ArrowDataset, layers: int, hidden_size: int, dtype: torch.dtype) -> BatchType:
    """Return all samples of a data set in one batch that is as long as they are."""
    items = [dataset[row] for row in range(len(dataset))]
    length = sum(len(item["input_ids"]) - 1 for item in items if not isinstance(item, SampleUnavailable))
    return CollateFn(length, hidden_size, layers, dtype=dtype, preprocess=shift_batch)(items)


def maps(folder: str, draft_vocab: int) -> dict[str, Any]:
    """Have the trainer's own code load maps and token frequencies."""
    d2t, t2d, size = _load_mappings(f"{folder}/d2t-{draft_vocab}.npy", f"{folder}/t2d-{draft_vocab}.npy", draft_vocab)
    counts = torch.load(f"{folder}/token_freq.pt", weights_only=True)
    return {
        "d2t": d2t.tolist(),
        "d2t_dtype": str(d2t.dtype),
        "t2d": [int(one) for one in t2d.tolist()],
        "t2d_dtype": str(t2d.dtype),
        "size": size,
        "counts": [[int(token), int(count)] for token, count in counts.items()],
    }


def made_maps(folder: str, draft_vocab: int, vocab: int) -> dict[str, Any]:
    """Have the trainer's own code make maps from the token frequencies."""
    counts = torch.load(f"{folder}/token_freq.pt", weights_only=True)
    d2t, t2d = build_vocab_mappings_from_distribution(counts, draft_vocab, vocab)
    return {"d2t": d2t.tolist(), "t2d": [int(one) for one in t2d.tolist()]}


ACTIONS = {"load": load, "collate": collate, "maps": maps, "made_maps": made_maps}
