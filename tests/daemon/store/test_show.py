"""What a run knows of one sample: from every journal, and of its rows in figures that can be computed by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from contracts.records import DroppedSample, Failure, FailureClass, NextStep, Requeue, Stage
from contracts.run_dir import RunDir
from daemon.store.sample import RowForm, Sample
from daemon.store.show import NoSuchSampleError, show_sample
from daemon.store.slot_statistics import slot_statistics
from tests.daemon.store.faults import file_of, index_path, records
from tests.support.stored_run import MemoryRows, append, bits_of, make_stored_run, with_rows


def test_a_stored_sample(tmp_path: Path, layout: str) -> None:
    run = make_stored_run(tmp_path, layout)
    shown = show_sample(run, "s1")
    assert (shown.dataset, shown.sample_id, shown.prompt_tokens, shown.pretokenized) == ("B1", "s1", 3, False)
    assert (shown.completion_tokens, shown.finish_reason, shown.first_ids) == (5, "stop", [101, 7, 9])
    assert shown.stored == records(run)["s1"]
    assert [slot.slot for slot in shown.slots] == ["layer 1", "layer 4", "layer 6", "last"]
    assert (shown.findings, shown.failures, shown.trouble, shown.dropped) == ([], [], None, None)


def test_a_pretokenized_sample(tmp_path: Path) -> None:
    shown = show_sample(make_stored_run(tmp_path), "s4")
    assert (shown.pretokenized, shown.prompt_tokens, shown.completion_tokens) == (True, 11, None)
    assert shown.findings == []


def test_what_is_wrong_is_said(tmp_path: Path, layout: str) -> None:
    def spoiled(sample: Sample) -> Sample:
        bits = bits_of(sample)
        bits[1, 2, 0] = 0x7F80
        return with_rows(sample, bits)

    run = make_stored_run(tmp_path, layout, forge={1: spoiled})
    shown = show_sample(run, "s1")
    assert [finding.kind for finding in shown.findings] == ["non_finite"]
    assert [slot.non_finite for slot in shown.slots] == [0, 0, 1, 0]
    file_of(run, records(run)["s1"]).unlink()
    shown = show_sample(run, "s1")
    assert [finding.kind for finding in shown.findings] == ["missing"]
    assert shown.slots == []


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    run = make_stored_run(tmp_path, over={1: {"layout": "unheard_of"}})
    trouble = show_sample(run, "s1").trouble
    assert trouble is not None
    assert "unheard_of" in trouble


def test_failures_of_the_sample_alone(tmp_path: Path) -> None:
    run = make_stored_run(tmp_path, not_stored=(1,))
    failures = [
        Failure(sample_id=name, error=FailureClass.CAPTURE, message="m", next=NextStep.RETRY, at=1.0, stage=stage)
        for name, stage in (("s1", Stage.GENERATE), ("s2", Stage.EXTRACT), ("s1", Stage.EXTRACT))
    ]
    path = RunDir(run).dataset("B1").failures
    append(path, failures[0], Requeue(at=2.0), *failures[1:])
    shown = show_sample(run, "s1")
    assert [failure.stage for failure in shown.failures] == [Stage.GENERATE, Stage.EXTRACT]
    assert shown.stored is None


def test_a_sample_that_was_given_up(tmp_path: Path) -> None:
    run = make_stored_run(tmp_path)
    append(index_path(run), DroppedSample(sample_id="s1", why="checksum: no", at=1.0))
    shown = show_sample(run, "s1")
    assert (shown.stored, shown.dropped, shown.slots) == (None, "checksum: no", [])


def test_a_stored_sample_without_its_prompts(tmp_path: Path) -> None:
    run = make_stored_run(tmp_path)
    RunDir(run).dataset("B1").prompts.unlink()
    shown = show_sample(run, "s1")
    assert shown.prompt_tokens is None
    assert shown.stored is not None


def test_which_sample(tmp_path: Path) -> None:
    run = make_stored_run(tmp_path, datasets=("B1", "B2"))
    with pytest.raises(NoSuchSampleError, match="several data sets have a sample 's1': B1, B2"):
        show_sample(run, "s1")
    assert show_sample(run, "s1", "B2").dataset == "B2"
    with pytest.raises(NoSuchSampleError, match="no sample 'x' in data set 'B2'"):
        show_sample(run, "x", "B2")
    with pytest.raises(NoSuchSampleError, match="there are: B1, B2"):
        show_sample(run, "s1", "B3")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_statistics_by_hand(dtype: str) -> None:
    """Two slots of four values in two rows; the numbers are exact in every type."""
    values = np.array([[[3, 4, 0, 0], [1, 1, 1, 1]], [[-5, 5, 5, 5], [2, 2, np.nan, 2]]], np.float32)
    if dtype == "bfloat16":
        bits = (values.view(np.uint32) >> 16).astype("<u2")
    else:
        bits = values.astype("<f2" if dtype == "float16" else "<f4")
    first, last = slot_statistics(RowForm((7,), 4, dtype, "post"), MemoryRows(bits, block_rows=1))
    assert (first.slot, first.min, first.max, first.absmax) == ("layer 7", -5.0, 5.0, 5.0)
    assert first.rms_mean == pytest.approx((2.5 + 5) / 2)
    assert (first.zero_pct, first.non_finite) == (25.0, 0)
    assert (last.slot, last.min, last.max, last.rms_mean, last.non_finite) == ("last", 1.0, 2.0, 1.0, 1)


def test_statistics_of_nothing_finite() -> None:
    rows = MemoryRows(np.full((2, 1, 4), 0x7FC0, "<u2"))
    (last,) = slot_statistics(RowForm((), 4, "bfloat16", "post"), rows)
    assert (last.rms_mean, last.min, last.max, last.absmax, last.non_finite) == (None, None, None, None, 8)
    empty = replace(rows, bits=rows.bits[:0])
    assert slot_statistics(RowForm((), 4, "bfloat16", "post"), empty) == []
