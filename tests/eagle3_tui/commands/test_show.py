"""`eagle3 show`: one sample for a person, and as JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from contracts.records import DroppedSample, Failure, FailureClass, NextStep, Stage
from contracts.run_dir import RunDir
from tests.daemon.store.faults import file_of, flip_byte, index_path, records
from tests.eagle3_tui.commands.conftest import Result
from tests.support.stored_run import append, make_stored_run

Eagle3 = Callable[..., Result]


def test_a_sample_for_people(eagle3: Eagle3, tmp_path: Path) -> None:
    result = eagle3("show", make_stored_run(tmp_path / "run", "specforge"), "s2")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[:6] == [
        "sample      s2 of B1",
        "prompt      3 tokens",
        "response    6 tokens, ended by stop",
        "first ids   102 7 9",
        "stored      rows_0-2000/data_2.ckpt, row 2, 3.2 kB",
        "tokens      8, 5 to learn from",
    ]
    assert [line.split()[0] for line in lines if "0.0 %" in line] == ["layer", "layer", "layer", "last"]
    assert lines[-1].endswith("checksum, ids, mask and every value are as they should be")
    assert max(map(len, lines)) <= 80


def test_a_sample_for_scripts(eagle3: Eagle3, tmp_path: Path) -> None:
    result = eagle3("show", make_stored_run(tmp_path / "run"), "s4", "--dataset", "B1", "--json")
    assert result.code == 0
    assert result.json["pretokenized"] is True
    assert result.json["stored"]["tokens"] == 11


def test_what_is_wrong_with_it(eagle3: Eagle3, tmp_path: Path) -> None:
    run = make_stored_run(tmp_path / "run", "specforge")
    flip_byte(file_of(run, records(run)["s1"]), 500)
    result = eagle3("show", run, "s1")
    assert result.code == 1
    assert "checksum: its bytes have" in result.out
    assert "as they should be" not in result.out


def test_a_sample_that_is_not_stored(eagle3: Eagle3, tmp_path: Path) -> None:
    run = make_stored_run(tmp_path / "run")
    append(index_path(run), DroppedSample(sample_id="s1", why="checksum: no", at=1.0))
    failure = Failure(
        sample_id="s1",
        error=FailureClass.CAPTURE,
        message="odd \x1b[2J",
        next=NextStep.QUARANTINED,
        at=1.0,
        stage=Stage.EXTRACT,
    )
    append(RunDir(run).dataset("B1").failures, failure)
    result = eagle3("show", run, "s1")
    assert result.code == 0
    assert "failed      extract: capture: odd ^[[2J (then: quarantined)\n" in result.out
    assert "given up    checksum: no\nstored      no\n" in result.out


def test_no_such_sample(eagle3: Eagle3, tmp_path: Path) -> None:
    result = eagle3("show", make_stored_run(tmp_path / "run"), "nobody")
    assert (result.code, result.out) == (1, "")
    assert "no sample 'nobody' in any data set" in result.err
