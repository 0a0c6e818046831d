"""ModelOpt 0.47.0 loads every sample of a store in its layout, every bit as it was stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.known_samples import Known, known_samples, write_store
from tests.trainers.trainer_process import Trainer

IGNORED = -100
"""Label of a position without a next token."""


def wanted(known: Known) -> dict[str, Any]:
    """What it hands out of a sample: beside what was stored the ids moved by one, which it makes itself."""
    return {**known.seen(), "labels": [*known.ids[1:].tolist(), IGNORED], "prenorm": False}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_every_sample_is_seen_as_it_was_stored(modelopt: Trainer, tmp_path: Path, dtype: str) -> None:
    samples = known_samples(dtype)
    records = write_store("modelopt", tmp_path, samples)
    by_file = {one.pop("source"): one for one in modelopt.load(tmp_path)}
    assert by_file == {record.file: wanted(known) for record, known in zip(records, samples, strict=True)}
