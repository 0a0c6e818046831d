"""Forward passes become batches of our requests' rows, and of no others."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from daemon.sglang_plugin.eagle3_sglang import capture
from daemon.sglang_plugin.eagle3_sglang.capture import NotCaptured, batches
from daemon.sglang_plugin.eagle3_sglang.writer import DumpWriter
from tests.daemon.sglang_plugin.dumps import HIDDEN, about, assert_whole
from tests.daemon.sglang_plugin.passes import forward_pass

A, B, OTHER = "e3.run.a.1.1", "e3.run.b.1.2", "0123456789abcdef"


@pytest.mark.parametrize("block_rows", [1, 2, 3, 7, 1024])
def test_prefill_in_chunks_then_decode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_rows: int) -> None:
    monkeypatch.setattr(capture, "BLOCK_ROWS", block_rows)
    writer = DumpWriter(tmp_path, about(), log=print)
    passes = [
        forward_pass("EXTEND", (A, 0, 8)),
        forward_pass("EXTEND", (A, 8, 2), (OTHER, 0, 3), (B, 0, 3), padding=4),
        forward_pass("IDLE", (OTHER, 0, 1)),
        forward_pass("DECODE", (OTHER, 3, 1), (A, 10, 1), (B, 3, 1), ("HEALTH_CHECK_1", 0, 1)),
        forward_pass("DECODE", (A, 11, 1), (B, 4, 1), padding=2),
    ]
    for result, batch in passes:
        for rows in batches(result, batch, None):
            assert len(rows.rows) <= block_rows
            writer.put(rows)
    writer.close()
    assert {path.name for path in tmp_path.iterdir()} == {f"{A}.dump", f"{B}.dump"}
    assert_whole(tmp_path, A, 12)
    assert_whole(tmp_path, B, 5)


def test_rows_are_copies() -> None:
    """SGLang uses its output buffers again in the next pass."""
    result, batch = forward_pass("DECODE", (A, 0, 1))
    (rows,) = batches(result, batch, None)
    before = rows.rows.clone(), rows.ids.clone(), rows.positions.clone()
    for tensor in (*vars(result.logits_output).values(), batch.input_ids, batch.positions):
        tensor.zero_()
    assert torch.equal(rows.rows, before[0])
    assert torch.equal(rows.ids, before[1])
    assert torch.equal(rows.positions, before[2])


def test_last_slot_alone_is_divided() -> None:
    result, batch = forward_pass("EXTEND", (A, 0, 3))
    (plain,) = batches(result, batch, None)
    (rows,) = batches(result, batch, lambda last: last / 2)
    assert torch.equal(rows.rows[:, :-HIDDEN], plain.rows[:, :-HIDDEN])
    assert torch.equal(rows.rows[:, -HIDDEN:], plain.rows[:, -HIDDEN:] / 2)


def test_pass_without_requests_of_ours_gives_nothing() -> None:
    result, batch = forward_pass("DECODE", (OTHER, 0, 1))
    result.logits_output = None
    assert list(batches(result, batch, None)) == []
    batch.rids = None
    assert list(batches(result, batch, None)) == []


@pytest.mark.parametrize("mode", ["MIXED", "TARGET_VERIFY", "SPLIT_PREFILL", "DLLM_EXTEND"])
def test_passes_of_other_kinds_are_not_guessed_at(mode: str) -> None:
    result, batch = forward_pass(mode, (A, 0, 3), (OTHER, 0, 1))
    with pytest.raises(NotCaptured, match=f"the rows of a {mode} pass") as caught:
        list(batches(result, batch, None))
    assert caught.value.rids == [A]


@pytest.mark.parametrize("missing", ["hidden_states", "last_hidden_states"])
def test_missing_states_are_said(missing: str) -> None:
    result, batch = forward_pass("EXTEND", (A, 0, 3))
    setattr(result.logits_output, missing, None)
    with pytest.raises(NotCaptured, match="the EXTEND pass gave no hidden states"):
        list(batches(result, batch, None))


def test_too_few_rows_are_said() -> None:
    """Of the last token alone, say, or of one rank's share."""
    result, batch = forward_pass("EXTEND", (A, 0, 3), (B, 0, 2))
    result.logits_output.hidden_states = result.logits_output.hidden_states[:2]
    with pytest.raises(NotCaptured, match="hidden_states has 2 rows, 5 tokens were fed"):
        list(batches(result, batch, None))
