"""A store is opened: compared with its index, put right, and said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contracts.fold.dataset import DatasetFold
from contracts.run_config import Extract
from contracts.run_dir import RunDir
from daemon.extract.stores import TOLD, open_store
from daemon.store.index import read_index
from daemon.store.layout import StoreError
from tests.daemon.extract.support import Journals
from tests.support.stored_run import make_stored_run


def opened(path: Path):  # type: ignore[no-untyped-def]
    run = RunDir(path)
    fold = DatasetFold(run.dataset("B1"))
    fold.poll()
    extract = Extract(layers=[1, 4, 6], layout="specforge")
    return open_store(run, fold, extract, 5.0, Journals().append)


def test_a_new_one(tmp_path: Path) -> None:
    RunDir(tmp_path).dataset("B1").path.mkdir(parents=True)
    found = opened(tmp_path)
    assert found.said == [] and found.store.folder.is_dir()
    assert [found.store.numbers.take() for _ in range(2)] == [0, 1]


def test_what_is_missing_is_dropped_and_its_number_given_again(tmp_path: Path) -> None:
    run = RunDir(make_stored_run(tmp_path, "specforge", 4))
    records = [json.loads(line) for line in run.dataset("B1").hidden_states.read_bytes().splitlines()]
    lost = records[1]
    (run.store("B1") / lost["file"]).unlink()
    stray = run.store("B1") / "stray.ckpt"
    stray.write_bytes(b"x")
    found = opened(tmp_path)
    assert len(found.said) == 2 and not stray.exists()
    last = json.loads(run.dataset("B1").hidden_states.read_bytes().splitlines()[-1])
    assert (last["type"], last["sample_id"], last["at"]) == ("dropped", lost["sample_id"], 5.0)
    assert [found.store.numbers.take() for _ in range(2)] == [lost["row"], 4]
    again = opened(tmp_path)
    assert again.said == []


def test_a_disk_that_is_not_mounted_is_no_reason_to_make_all_of_it_again(tmp_path: Path) -> None:
    run = RunDir(make_stored_run(tmp_path, "specforge", 4))
    content = run.dataset("B1").hidden_states.read_bytes()
    run.store("B1").rename(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="mount its disk"):
        opened(tmp_path)
    assert run.dataset("B1").hidden_states.read_bytes() == content


def test_a_sample_whose_answer_was_lost_is_made_again(tmp_path: Path) -> None:
    """A power cut can keep the sample and lose the line of its answer: another answer will come."""
    run = RunDir(make_stored_run(tmp_path, "specforge", 4))
    responses = run.dataset("B1").responses
    lines = responses.read_bytes().splitlines(keepends=True)
    lost = json.loads(lines[-1])["sample_id"]
    responses.write_bytes(b"".join(lines[:-1]))
    found = opened(tmp_path)
    assert any(repr(lost) in sentence and "its answer is not there" in sentence for sentence in found.said)
    last = json.loads(run.dataset("B1").hidden_states.read_bytes().splitlines()[-1])
    assert (last["type"], last["sample_id"]) == ("dropped", lost)
    assert opened(tmp_path).said == []


@pytest.mark.parametrize("how", ["gone", "empty"])
def test_a_response_file_without_answers_costs_no_store(tmp_path: Path, how: str) -> None:
    run = RunDir(make_stored_run(tmp_path, "specforge", 40))
    dataset = run.dataset("B1")
    dataset.responses.unlink() if how == "gone" else dataset.responses.write_bytes(b"")
    before = dataset.hidden_states.read_bytes()
    with pytest.raises(StoreError, match="39 samples stored from its answers: bring the file back"):
        opened(tmp_path)
    assert dataset.hidden_states.read_bytes() == before
    assert len(list(run.store("B1").rglob("*.ckpt"))) == 40


def test_an_older_copy_of_the_response_file_costs_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lacks answers that no power cut took: those of samples that were stored long ago."""
    monkeypatch.setattr("daemon.extract.stores.MOST_LOST", 8)
    run = RunDir(make_stored_run(tmp_path, "specforge", 40))
    dataset = run.dataset("B1")
    lines = dataset.responses.read_bytes().splitlines(keepends=True)
    before = dataset.hidden_states.read_bytes()
    for left in (lines[:20], lines[1:]):
        dataset.responses.write_bytes(b"".join(left))
        (said,) = opened(tmp_path).said
        assert "was it replaced?" in said
    assert dataset.hidden_states.read_bytes() == before
    assert len(list(run.store("B1").rglob("*.ckpt"))) == 40


def test_lines_that_the_index_lost_are_recorded_again(tmp_path: Path) -> None:
    run = RunDir(make_stored_run(tmp_path, "specforge", 30))
    index = run.dataset("B1").hidden_states
    lines = index.read_bytes().splitlines(keepends=True)
    index.write_bytes(lines[0])
    found = opened(tmp_path)
    assert len(read_index(index).records) == 30
    assert len(found.said) == TOLD + 1, "not an event for each of 100,000"
    assert "is recorded again" in found.said[0]
    assert found.said[-1] == "and 9 more sentences like the last one"
    assert found.store.numbers.take() == 30
    assert opened(tmp_path).said == []


def test_what_nobody_knows_is_left_and_never_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.store.unrecorded.MOST_LEFT", 1)
    run = RunDir(make_stored_run(tmp_path, "specforge", 4))
    dataset = run.dataset("B1")
    lines = dataset.hidden_states.read_bytes().splitlines(keepends=True)
    dataset.hidden_states.write_bytes(lines[0])
    dataset.responses.write_bytes(dataset.responses.read_bytes().splitlines(keepends=True)[0])
    found = opened(tmp_path)
    again, remark = found.said
    assert "sample 's3' is recorded again" in again  # pre-tokenized: it needs no response
    assert "2 files and documents that the index does not know" in remark and "verify" in remark
    assert found.store.reserved == (1, 2)
    assert found.store.numbers.take() == 4
    assert sorted(path.name for path in run.store("B1").rglob("*.ckpt")) == [f"data_{row}.ckpt" for row in range(4)]
