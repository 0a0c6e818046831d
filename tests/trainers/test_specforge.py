"""SpecForge 0.2.0 loads every sample of a store in its layout, every bit as it was stored.

SPECFORGE_VALIDATE_OFFLINE_FEATURES=1 is set: its reader opens and checks each file before the first batch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daemon.store.dataset_files import write_dataset_files
from daemon.store.layouts import make_layout
from tests.support.known_samples import VOCAB, Known, known_samples, write_store
from tests.trainers.trainer_process import Trainer

DRAFT_VOCAB = 32


def wanted(known: Known) -> dict[str, Any]:
    """What it hands out of a sample: the trainer never learns from the last token."""
    seen = known.seen()
    return {**seen, "mask": [*seen["mask"][:-1], 0]}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("batch_size", [1, 2])
def test_every_sample_is_seen_as_it_was_stored(specforge: Trainer, tmp_path: Path, dtype: str, batch_size: int) -> None:
    samples = known_samples(dtype)
    records = write_store("specforge", tmp_path, samples)
    found = specforge.load(tmp_path, batch_size=batch_size)
    by_file = {one.pop("source"): one for one in found}
    assert by_file == {record.file: wanted(known) for record, known in zip(records, samples, strict=True)}


def test_its_order_is_that_of_the_paths_as_text(specforge: Trainer, tmp_path: Path) -> None:
    """Which is why nothing may hang on it: sample 10 comes before sample 2."""
    samples = known_samples(lengths=(3,) * 12)
    records = write_store("specforge", tmp_path, samples)
    found = specforge.load(tmp_path)
    assert [one["source"] for one in found] == sorted(record.file for record in records)


def test_a_draft_model_loads_the_vocabulary_maps(specforge: Trainer, tmp_path: Path) -> None:
    samples = known_samples()
    records = write_store("specforge", tmp_path, samples)
    layout = make_layout("specforge", tmp_path)
    write_dataset_files(layout, tmp_path, records, draft_vocab_size=DRAFT_VOCAB, vocab_size=VOCAB, norm=None)
    file = tmp_path / "vocab_mapping" / "vocab_mapping.pt"
    found = specforge.ask("maps", file=str(file), target_vocab=VOCAB, draft_vocab=DRAFT_VOCAB)
    t2d, d2t = np.array(found["t2d"]), np.array(found["d2t"])
    assert (np.flatnonzero(t2d) == d2t + np.arange(DRAFT_VOCAB)).all()
    count = np.bincount(np.concatenate([known.ids[known.mask == 1] for known in samples]), minlength=VOCAB)
    assert count[t2d == 1].min() >= count[t2d == 0].max()
    assert len(specforge.load(tmp_path)) == len(samples)  # nothing that was written is taken for a sample
