"""`eagle3 export` of a run in our own layout: each trainer loads every sample of what it wrote."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contracts.records import encode_line
from contracts.run_dir import RunDir
from daemon.store.export import export_run
from daemon.store.floats import from_float32, to_float32
from daemon.store.norm_file import write_norm
from daemon.store.norms import NormWeight, over_weight
from tests.support.known_samples import HIDDEN, Known, known_samples, write_store
from tests.trainers.trainer_process import Trainer

RUN_TOML = """\
[run]
name = "small"
stages = ["extract"]
[extract]
layers = [1, 3, 5]
[[servers]]
url = "http://127.0.0.1:9"
[[datasets]]
name = "B1"
"""
NORM = NormWeight(np.linspace(0.5, 3.0, HIDDEN, dtype=np.float32), 1e-5)


def divided(known: Known) -> Known:
    """Return a sample as speculators wants it."""
    bits = known.bits.copy()
    bits[:, -1] = from_float32(over_weight(to_float32(bits[:, -1], known.form.dtype), NORM), known.form.dtype)
    return replace(known, bits=bits)


def facts(seen: dict[str, Any]) -> tuple[Any, ...]:
    """Return what can be compared whatever the trainer (SpecForge never learns from the last token)."""
    return seen["ids"], seen["mask"][:-1], seen["aux"]["sha256"], seen["last"]["sha256"], seen["last"]["dtype"]


@pytest.mark.parametrize("layout", ["specforge", "speculators", "modelopt"])
def test_an_export_is_loaded_in_full(request: pytest.FixtureRequest, tmp_path: Path, layout: str) -> None:
    run = RunDir(tmp_path / "run")
    index = run.dataset("B1").hidden_states
    index.parent.mkdir(parents=True)
    run.config.write_text(RUN_TOML)
    samples = known_samples()
    index.write_bytes(b"".join(map(encode_line, write_store("safetensors", run.store("B1"), samples))))
    write_norm(run.store("B1"), NORM)
    export_run(run.path, layout, tmp_path / "out")
    trainer: Trainer = request.getfixturevalue(layout)
    found = sorted(map(facts, trainer.load(tmp_path / "out" / "B1")))
    wanted = [divided(known) if layout == "speculators" else known for known in samples]
    assert found == sorted(facts(known.seen()) for known in wanted)
