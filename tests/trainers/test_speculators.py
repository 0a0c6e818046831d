"""speculators 0.9.0 loads every row of a store in its layout, every bit as it was stored; on_missing="raise"."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daemon.store.dataset_files import write_dataset_files
from daemon.store.layouts import make_layout
from tests.support.known_samples import HIDDEN, LAYERS, VOCAB, Known, known_samples, write_store
from tests.trainers.trainer_process import Trainer

DRAFT_VOCAB = 32


def write(folder: Path, samples: list[Known]) -> None:
    """Write a store with its data set files."""
    records = write_store("speculators", folder, samples)
    write_dataset_files(
        make_layout("speculators", folder),
        folder,
        records,
        draft_vocab_size=DRAFT_VOCAB,
        vocab_size=VOCAB,
        norm=None,
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_every_row_is_seen_as_it_was_stored(speculators: Trainer, tmp_path: Path, dtype: str) -> None:
    samples = known_samples(dtype, "over_weight")
    write(tmp_path, samples)
    found = speculators.load(tmp_path)
    assert speculators.warnings == []
    assert found == [
        {
            **known.seen(),
            "source": f"hidden_states/hs_{row}.safetensors",
            "approx_length": len(known.ids),
        }
        for row, known in enumerate(samples)
    ]


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_a_packed_batch_holds_every_document(speculators: Trainer, tmp_path: Path, dtype: str) -> None:
    """Its collator drops the first id and the last layers' row of each document: (x1, g0, y1) belong together."""
    samples = known_samples(dtype, "over_weight")
    write(tmp_path, samples)
    batch = speculators.ask("collate", folder=str(tmp_path), layers=len(LAYERS), hidden_size=HIDDEN, dtype=dtype)
    assert batch["error_records"] == 0
    assert [(one["ids"], one["mask"], one["aux"], one["last"]) for one in batch["documents"]] == [
        shifted(known) for known in samples
    ]


def shifted(known: Known) -> tuple[Any, ...]:
    """What its collator makes of a sample."""
    late = Known(known.sample_id, known.ids[1:], known.mask[1:], known.bits[1:], known.form).seen()
    early = Known(known.sample_id, known.ids[:-1], known.mask[:-1], known.bits[:-1], known.form).seen()
    return late["ids"], late["mask"], early["aux"], late["last"]


def test_its_own_code_loads_maps_and_frequencies(speculators: Trainer, tmp_path: Path) -> None:
    samples = known_samples("bfloat16", "over_weight")
    write(tmp_path, samples)
    found = speculators.ask("maps", folder=str(tmp_path), draft_vocab=DRAFT_VOCAB)
    learned = np.concatenate([known.ids[known.mask == 1] for known in samples])
    ids, counts = np.unique(learned, return_counts=True)
    assert sorted(found["counts"]) == [[int(one), int(count)] for one, count in zip(ids, counts, strict=True)]
    t2d, d2t = np.array(found["t2d"]), np.array(found["d2t"])
    assert (found["size"], found["d2t_dtype"], found["t2d_dtype"]) == (DRAFT_VOCAB, "torch.int64", "torch.bool")
    assert (len(t2d), t2d.sum(), len(d2t)) == (VOCAB, DRAFT_VOCAB, DRAFT_VOCAB)
    assert (np.flatnonzero(t2d) == d2t + np.arange(DRAFT_VOCAB)).all()
    count = np.bincount(learned, minlength=VOCAB)
    assert count[t2d == 1].min() >= count[t2d == 0].max()


def test_its_own_code_makes_the_same_maps_from_the_frequencies(speculators: Trainer, tmp_path: Path) -> None:
    """What it does where it finds ``token_freq.pt`` and no maps."""
    write(tmp_path, known_samples("bfloat16", "over_weight"))
    ours = speculators.ask("maps", folder=str(tmp_path), draft_vocab=DRAFT_VOCAB)
    theirs = speculators.ask("made_maps", folder=str(tmp_path), draft_vocab=DRAFT_VOCAB, vocab=VOCAB)
    assert (ours["t2d"], ours["d2t"]) == (theirs["t2d"], theirs["d2t"])
