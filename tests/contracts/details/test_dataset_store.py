"""A data set whose prompts bring their answers: how long they are, and what of it is stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.details import prompts, windows
from contracts.details.dataset import dataset_detail
from contracts.details.prompts import lengths_in, prompt_lengths
from contracts.details.stored import latest_stored
from contracts.records import DroppedSample
from tests.support.records import NOW, folded, make_run, write
from tests.support.stored import stored


def line(number: int, tokens: int) -> bytes:
    ids = ",".join(["7"] * tokens)
    return f'{{"sample_id":"s{number}","input_ids":[{ids}],"loss_mask":[{ids}]}}\n'.encode()


def test_a_short_prompt_file_is_counted_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_bytes(line(0, 3) + line(1, 5) + b'{"messages": []}\nnot json\n' + b'{"input_ids" : [ ]}\n' + line(2, 9))
    found = lengths_in(path, path.stat().st_size - len(line(2, 9)))
    assert found.steps is not None
    assert found.looked_at == 3
    assert (found.steps.edges[0], found.steps.edges[-1] - 1) == (0, 5)
    assert [count for count in found.steps.counts if count] == [1, 1, 1]
    assert lengths_in(tmp_path / "none", 0).steps is None


def test_of_a_long_one_stretches_from_everywhere_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompts, "WINDOW", 400)
    monkeypatch.setattr(windows, "BLOCK", 400)
    path = tmp_path / "prompts.jsonl"
    path.write_bytes(b"".join(line(number, 2 if number < 500 else 12) for number in range(1000)))
    found = lengths_in(path, path.stat().st_size)
    assert found.steps is not None
    assert 2 * prompts.WINDOWS < found.looked_at < 500
    assert found.steps.edges[0] == 2
    assert found.steps.edges[-1] == 13


def test_the_detail_says_that_there_is_nothing_to_answer(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", prompts=0, datasets=("d", "mixed"))
    own = run.dataset("d")
    write(own.prompts, [line(number, 3) for number in range(4)])
    write(run.dataset("mixed").prompts, [line(0, 3), b'{"sample_id":"x","input_ids":[1]}\n'])
    gone = DroppedSample(sample_id="s1", why="its file is gone", at=NOW - 1)
    write(own.hidden_states, [stored("s0", row=0, at=NOW - 9), stored("s1", row=1, at=NOW - 8), gone, b"torn {\n"])
    fold = folded(run)
    detail = dataset_detail(fold, NOW, "d", steps=10)
    assert detail is not None
    assert detail.is_brought
    said = [(each.outcome, each.key) for each in detail.latest_stored]
    assert said == [("unreadable", None), ("taken out", "s1"), ("stored", "s1"), ("stored", "s0")]
    assert sum(rate or 0.0 for rate in detail.stored_rates[0]) > 0
    assert latest_stored(own.hidden_states, None, 3)[-1].row == 1
    lengths = prompt_lengths(fold, NOW, "d")
    assert lengths is not None
    assert lengths.looked_at == detail.prompts == 4
    assert prompt_lengths(fold, NOW, "none") is None
    mixed = dataset_detail(fold, NOW, "mixed")
    assert mixed is not None
    assert not mixed.is_brought
