"""The daemon's extract stage on the real server: what lies in the store are transformers' hidden states."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from contracts.records import StoredSample
from contracts.run_dir import RunDir
from daemon.store.index import read_index
from daemon.store.layouts import make_layout
from daemon.store.sequences import expected_sequences
from daemon.store.verify import verify_run
from tests.sglang.conftest import StartSglang
from tests.sglang.hidden_states import LAYERS, distances, norm_weight, prompts, reference, start_dumping
from tests.sglang.server import SglangServer
from tests.support.runs import failures, make_run, records, responses, run_to_end

COUNT = 60
NEW = 40
CLOSE = 5e-4
FAR = 1.0
STOPS = list(range(100, 140))
"""One token in twenty-five ends an answer: they have 2 to 40 tokens (of one there is nothing to learn)."""


@pytest.fixture(scope="module", params=["safetensors", "speculators"])
def dumping(
    request: pytest.FixtureRequest, start_sglang_for_module: StartSglang, tmp_path_factory: pytest.TempPathFactory
) -> tuple[SglangServer, Path, str, Path]:
    """A Llama with another layout, so another norm of the last slot, each."""
    folder = tmp_path_factory.mktemp("dumps")
    model = request.getfixturevalue("tiny_llama")
    return start_dumping(start_sglang_for_module, model, folder, layout=request.param), folder, request.param, model


@pytest.mark.parametrize("capture", ["generating", "afterwards"])
async def test_what_is_stored_are_transformers_states(
    dumping: tuple[SglangServer, Path, str, Path], capture: str, tmp_path: Path
) -> None:
    server, folder, layout, model = dumping
    asked = [{"sample_id": f"p{n}", "input_ids": ids} for n, ids in enumerate(prompts(COUNT, seed=7))]
    ready = [
        {"sample_id": f"a{n}", "input_ids": ids, "loss_mask": [0, *[1] * (len(ids) - 1)]}
        for n, ids in enumerate(prompts(8, seed=8))
    ]
    run = make_run(
        tmp_path / "run",
        [server.url],
        {"B1": asked, "A1": ready},
        concurrency=24,
        sampling={"temperature": 0.8, "max_new_tokens": NEW, "min_new_tokens": 2, "stop_token_ids": STOPS},
        generate={"vocab_size": 1024},
        stages=["generate", "extract"],
        extract={"layers": LAYERS, "layout": layout, "capture": capture, "dump_dir": str(folder)},
    )
    assert await run_to_end(run, 200) is False
    assert failures(run) == failures(run, "A1") == []
    lengths = {record["completion_tokens"] for record in responses(run)}
    assert min(lengths) < 5 and max(lengths) == NEW
    assert {record["capture"] for record in records(run / "prepared/B1/hidden_states.jsonl")} == {capture}
    assert list(folder.glob("*.dump")) == []
    report, _ = verify_run(run)
    assert [store.counts for store in report.stores] == [{}, {}]
    for name, count in (("B1", COUNT), ("A1", 8)):
        _compare(run, name, count, layout, model, norm_weight(folder) if layout == "speculators" else None, tmp_path)


def _compare(run: Path, name: str, count: int, layout: str, model: Path, weight: Tensor | None, folder: Path) -> None:
    """Hold every stored row against transformers' states of the sequence that prompts and responses give."""
    stored = read_index(run / "prepared" / name / "hidden_states.jsonl").records
    sequences = list(expected_sequences(RunDir(run), name, set(stored)))
    assert len(stored) == len(sequences) == count
    states = reference(model, [sequence.ids.tolist() for sequence in sequences], folder)
    made = make_layout(layout, run / "hidden_states" / name)
    for sequence, expected in zip(sequences, states, strict=True):
        record = stored[sequence.key]
        loaded = made.load(record)
        assert loaded.ids.tolist() == sequence.ids.tolist()
        assert loaded.loss_mask is not None and loaded.loss_mask.tolist() == sequence.mask.tolist()
        slots = _slots(record, b"".join(bytes(block) for block in loaded.rows.blocks()))
        for slot, layer in enumerate(LAYERS):
            found = distances(slots[slot], expected)
            assert found[layer] < CLOSE
            assert torch.cat([found[:layer], found[layer + 1 :]]).min() > FAR
        last = expected[-1] if weight is None else expected[-1] / weight
        assert (slots[-1] - last).abs().max() < CLOSE


def _slots(record: StoredSample, rows: bytes) -> Tensor:
    """[slots, tokens, hidden]."""
    shape = (record.tokens, len(record.layers) + 1, record.hidden_size)
    return torch.from_numpy(np.frombuffer(rows, "<f4").reshape(shape).copy()).transpose(0, 1)
