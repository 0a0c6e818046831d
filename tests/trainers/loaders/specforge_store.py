"""SpecForge 0.2.0 reads an offline store; runs inside .venv-trainers.

Reader, normalizer and collator are those of its EAGLE-3 algorithm, through its data loader and its feature store, as
its offline training assembles them.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from seen import sample
from specforge.algorithms.eagle3.data import build_offline_collator, build_offline_normalizer, build_offline_reader
from specforge.modeling.draft.base import Eagle3DraftModel
from specforge.runtime.data_plane.feature_dataloader import FeatureDataLoader
from specforge.runtime.data_plane.feature_store import LocalFeatureStore

_MAX_LEN = 4096


def load(folder: str, batch_size: int = 1) -> list[dict[str, Any]]:
    """Return every sample of a store, in the order of the reader."""
    refs = build_offline_reader(folder, run_id="test", ttt_length=3, max_len=_MAX_LEN).read()
    loader = FeatureDataLoader(
        LocalFeatureStore(),
        refs=refs,
        batch_size=batch_size,
        collate_fn=build_offline_collator(),
        per_sample_transform=build_offline_normalizer(_MAX_LEN),
        drop_last=False,
    )
    sources = [str(Path(ref.feature_store_uri.removeprefix("file://")).relative_to(folder)) for ref in refs]
    found: list[dict[str, Any]] = []
    for batch in loader:
        tensors = batch.tensors
        for place, length in enumerate(tensors["attention_mask"].sum(dim=1).tolist()):
            found.append(
                sample(
                    ids=tensors["input_ids"][place, :length],
                    mask=tensors["loss_mask"][place, :length],
                    aux=tensors["hidden_state"][place, :length],
                    last=tensors["target"][place, :length],
                    source=sources[len(found)],
                )
            )
    return found


def maps(file: str, target_vocab: int, draft_vocab: int) -> dict[str, Any]:
    """Have a draft model's own method load the vocabulary maps."""
    model = SimpleNamespace(
        t2d=torch.ones(target_vocab, dtype=torch.bool), d2t=torch.zeros(draft_vocab, dtype=torch.int64)
    )
    Eagle3DraftModel.load_vocab_mapping(model, file)
    return {"t2d": [int(one) for one in model.t2d.tolist()], "d2t": model.d2t.tolist()}


ACTIONS = {"load": load, "maps": maps}
