"""Forward passes become batches of our requests' rows, and of no others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from daemon.sglang_plugin.eagle3_sglang import capture
from daemon.sglang_plugin.eagle3_sglang.capture import Capture, NotCaptured
from daemon.sglang_plugin.eagle3_sglang.rows import RowBatch
from daemon.sglang_plugin.eagle3_sglang.writer import DumpWriter
from tests.daemon.sglang_plugin.dumps import HIDDEN, about, assert_whole, row, token
from tests.daemon.sglang_plugin.passes import forward_pass

A, B, OTHER = "e3.run.a.1.1", "e3.run.b.1.2", "0123456789abcdef"


def batches(result: Any, batch: Any, over_weight: Callable[[Tensor], Tensor] | None = None) -> list[RowBatch]:
    return list(Capture(over_weight).batches(result, batch))


@pytest.mark.parametrize("block_rows", [1, 2, 3, 7, 1024])
def test_prefill_in_chunks_then_decode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_rows: int) -> None:
    monkeypatch.setattr(capture, "BLOCK_ROWS", block_rows)
    writer, take = DumpWriter(tmp_path, about(), log=print), Capture(None)
    passes = [
        forward_pass("EXTEND", (A, 0, 8)),
        forward_pass("EXTEND", (A, 8, 2), (OTHER, 0, 3), (B, 0, 3), padding=4),
        forward_pass("IDLE", (OTHER, 0, 1)),
        forward_pass("DECODE", (OTHER, 3, 1), (A, 10, 1), (B, 3, 1), ("HEALTH_CHECK_1", 0, 1)),
        forward_pass("DECODE", (A, 11, 1), (B, 4, 1), padding=2),
    ]
    for result, batch in passes:
        for rows in take.batches(result, batch):
            assert len(rows.rows) <= block_rows or batch.forward_mode.name == "DECODE"
            writer.put(rows)
    writer.close()
    assert {path.name for path in tmp_path.iterdir()} == {f"{A}.dump", f"{B}.dump"}
    assert_whole(tmp_path, A, 12)
    assert_whole(tmp_path, B, 5)


def test_decode_steps_whose_requests_come_go_and_change_places() -> None:
    """What was worked out for the step before is used again only for the same requests."""
    take, at = Capture(None), dict.fromkeys((A, B, OTHER), 0)
    for rids in ((A, OTHER, B), (A, OTHER, B), (B, OTHER, A), (OTHER,), (A, B), (A,), (A, B), (OTHER, B, A)):
        result, batch = forward_pass("DECODE", *((rid, at[rid], 1) for rid in rids), padding=2)
        found = list(take.batches(result, batch))
        ours = [rid for rid in rids if rid != OTHER]
        assert [each.rids for each in found] == ([ours] if ours else [])
        for each in found:
            assert torch.equal(each.rows, torch.stack([row(rid, at[rid]) for rid in ours]))
            assert each.ids.tolist() == [token(rid, at[rid]) for rid in ours]
            assert each.positions.tolist() == [at[rid] for rid in ours]
        for rid in rids:
            at[rid] += 1


def test_rows_are_copies() -> None:
    """SGLang uses its output buffers again in the next pass."""
    result, batch = forward_pass("DECODE", (A, 0, 1))
    (rows,) = batches(result, batch)
    before = rows.rows.clone(), rows.ids.clone(), rows.positions.clone()
    for tensor in (*vars(result.logits_output).values(), batch.input_ids, batch.positions):
        tensor.zero_()
    assert torch.equal(rows.rows, before[0])
    assert torch.equal(rows.ids, before[1])
    assert torch.equal(rows.positions, before[2])


def test_last_slot_alone_is_divided() -> None:
    result, batch = forward_pass("EXTEND", (A, 0, 3))
    (plain,) = batches(result, batch)
    (rows,) = batches(result, batch, lambda last: last / 2)
    assert torch.equal(rows.rows[:, :-HIDDEN], plain.rows[:, :-HIDDEN])
    assert torch.equal(rows.rows[:, -HIDDEN:], plain.rows[:, -HIDDEN:] / 2)


def test_pass_without_requests_of_ours_gives_nothing() -> None:
    result, batch = forward_pass("DECODE", (OTHER, 0, 1))
    result.logits_output = None
    assert batches(result, batch) == []
    batch.rids = None
    assert batches(result, batch) == []


@pytest.mark.parametrize("mode", ["MIXED", "TARGET_VERIFY", "SPLIT_PREFILL", "DLLM_EXTEND"])
def test_passes_of_other_kinds_are_not_guessed_at(mode: str) -> None:
    result, batch = forward_pass(mode, (A, 0, 3), (OTHER, 0, 1))
    with pytest.raises(NotCaptured, match=f"the rows of a {mode} pass") as caught:
        batches(result, batch)
    assert caught.value.rids == [A]


@pytest.mark.parametrize("missing", ["hidden_states", "last_hidden_states"])
def test_missing_states_are_said(missing: str) -> None:
    result, batch = forward_pass("EXTEND", (A, 0, 3))
    setattr(result.logits_output, missing, None)
    with pytest.raises(NotCaptured, match="the EXTEND pass gave no hidden states"):
        batches(result, batch)


def test_too_few_rows_are_said() -> None:
    """Of the last token alone, say, or of one rank's share."""
    result, batch = forward_pass("EXTEND", (A, 0, 3), (B, 0, 2))
    result.logits_output.hidden_states = result.logits_output.hidden_states[:2]
    with pytest.raises(NotCaptured, match="hidden_states has 2 rows, 5 tokens were fed"):
        batches(result, batch)
