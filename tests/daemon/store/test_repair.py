"""After a repair verify finds nothing; what was good is as it was, what was bad will be made again, all is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from contracts.records import StoredSample
from contracts.run_dir import RunDir
from daemon.store.index import read_index
from daemon.store.layouts import make_layout
from daemon.store.repair import repair_store
from daemon.store.sample import Sample
from daemon.store.verify import verify_run
from tests.daemon.store.faults import drop_lines, file_of, flip_byte, found, index_path, records, replace_record
from tests.support.stored_run import append, bits_of, form_for, make_sample, make_stored_run, record_of, with_rows


def repair(run: Path) -> tuple[str, int]:
    """Repair every store; the sentences as one text, and what is left."""
    said: list[str] = []
    left = 0
    for store in verify_run(run, holding_lock=True)[1]:
        done = repair_store(store)
        said += done.said
        left += done.left
    return "\n".join(said), left


def a_nan(sample: Sample) -> Sample:
    bits = bits_of(sample)
    bits[0, 0, 0] = 0x7FC0
    return with_rows(sample, bits)


def bytes_of(run: Path, record: StoredSample) -> bytes:
    return files(run)[record.file][record.offset : record.offset + record.bytes]


def files(run: Path) -> dict[str, bytes]:
    folder = RunDir(run).store("B1")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_good_store_is_left_alone(tmp_path: Path, layout: str) -> None:
    run = make_stored_run(tmp_path, layout)
    before, index = files(run), index_path(run).read_bytes()
    assert repair(run) == ("", 0)
    assert (files(run), index_path(run).read_bytes()) == (before, index)


def test_bad_samples_are_given_up_and_nothing_else(tmp_path: Path, layout: str) -> None:
    def masked(sample: Sample) -> Sample:
        return replace(sample, loss_mask=np.roll(sample.loss_mask, 1))

    run = make_stored_run(tmp_path, layout, forge={1: a_nan, 2: masked})
    held = records(run)
    flip_byte(file_of(run, held["s4"]), held["s4"].offset + held["s4"].bytes // 2)
    good = {name: bytes_of(run, held[name]) for name in ("s0", "s3")}
    said, left = repair(run)
    assert left == 0
    for name, why in (("s1", "non_finite: row 0"), ("s2", "mask: "), ("s4", "checksum: ")):
        assert f"sample '{name}' is given up and will be made again: {why}" in said
    assert records(run).keys() == {"s0", "s3"}
    assert read_index(index_path(run)).dropped.keys() == {b"s1", b"s2", b"s4"}
    assert {name: bytes_of(run, held[name]) for name in good} == good
    assert {one.file for one in records(run).values()} == files(run).keys()
    for name in {held[bad].file for bad in ("s1", "s2", "s4")} - files(run).keys():
        assert f"removed {RunDir(run).store('B1') / name}" in said
    assert found(run) == {}
    report = verify_run(run)[0]
    assert report.stores[0].not_stored == 3


def test_what_was_given_up_can_be_stored_again(tmp_path: Path, layout: str) -> None:
    run = make_stored_run(tmp_path, layout, forge={1: a_nan})
    repair(run)
    store = make_layout(layout, RunDir(run).store("B1"))
    append(index_path(run), record_of(store, make_sample(1, form_for(store)), 1))
    assert found(run) == {}
    assert len(records(run)) == 5


def test_missing_and_cut_files(tmp_path: Path, layout: str) -> None:
    run = make_stored_run(tmp_path, layout)
    (RunDir(run).store("B1") / "notes.txt").write_text("kept")
    last, first = records(run)["s4"], records(run)["s0"]
    with file_of(run, last).open("r+b") as file:
        file.truncate(last.offset + last.bytes - 3)
    if last.file != first.file:
        file_of(run, first).unlink()
    said, left = repair(run)
    assert left == 0
    assert "truncated: " in said
    assert found(run) == {}
    assert "s4" not in records(run)
    assert files(run)["notes.txt"] == b"kept"
    assert len(records(run)) == (4 if last.file == first.file else 3)


def test_strays_and_tails(tmp_path: Path, layout: str) -> None:
    run = make_stored_run(tmp_path, layout)
    before = files(run)
    store = make_layout(layout, RunDir(run).store("B1"))
    record_of(store, make_sample(7, form_for(store)), 7)
    assert found(run)
    said, left = repair(run)
    assert left == 0
    assert "removed " in said or "cut " in said
    assert files(run) == before
    assert found(run) == {}
    assert len(records(run)) == 5


def test_a_file_of_one_sample_that_goes_on(tmp_path: Path, layout: str) -> None:
    """Where files are shared the rest is cut; a file of its own that grew is no longer what was written."""
    run = make_stored_run(tmp_path, layout)
    last = records(run)["s4"]
    with file_of(run, last).open("ab") as file:
        file.write(b"more")
    said, left = repair(run)
    assert left == 0
    assert ("s4" in records(run)) == (last.offset > 0)
    assert ("cut 4 bytes" in said) == (last.offset > 0)
    assert found(run) == {}


def test_unwanted_samples(tmp_path: Path, layout: str) -> None:
    run = make_stored_run(tmp_path, layout)
    drop_lines(RunDir(run).dataset("B1").responses, lambda line: line["sample_id"] == "s1")
    said, left = repair(run)
    assert (left, found(run)) == (0, {})
    assert "'s1' is given up: unwanted: has no response" in said


def test_two_records_of_one_place(tmp_path: Path, layout: str) -> None:
    """Nobody knows whose bytes these are: both are given up; what the other one really has is found again."""
    run = make_stored_run(tmp_path, layout)
    one, other = records(run)["s1"], records(run)["s2"]
    replace_record(run, "s2", file=one.file, offset=one.offset, bytes=one.bytes, checksum=one.checksum)
    assert repair(run)[1] == 0
    assert records(run).keys() == {"s0", "s2", "s3", "s4"}
    assert (records(run)["s2"].file, records(run)["s2"].offset) == (other.file, other.offset)
    assert found(run) == {}


def test_damage_of_the_index(tmp_path: Path, layout: str) -> None:
    """Damaged lines go to a file beside it; the samples that they stood for are recorded again."""
    run = make_stored_run(tmp_path, layout)
    path = index_path(run)
    lines = path.read_bytes().splitlines(keepends=True)
    damaged, torn = b'{"type":"stored","sample_id":"s2"}\n', lines[4][:50]
    path.write_bytes(lines[0] + lines[1] + damaged + lines[3] + lines[1] + torn)
    said, left = repair(run)
    assert (left, found(run)) == (0, {})
    assert path.read_bytes().startswith(lines[0] + lines[1] + lines[3])
    assert records(run).keys() == {"s0", "s1", "s2", "s3", "s4"}
    assert "sample 's2' is recorded again" in said and "sample 's4' is recorded again" in said
    assert path.with_name("hidden_states.jsonl.unusable-1").read_bytes() == damaged + lines[1]
    assert "2 lines that say nothing were taken out, kept in hidden_states.jsonl.unusable-1" in said
    assert "torn" in said
    assert verify_run(run)[0].stores[0].not_stored == 0


def test_a_store_that_is_not_there_is_not_given_up(tmp_path: Path) -> None:
    run = make_stored_run(tmp_path)
    index = index_path(run).read_bytes()
    RunDir(run).store("B1").rename(tmp_path / "elsewhere")
    said, left = repair(run)
    assert left == 1
    assert "nothing was changed" in said
    assert index_path(run).read_bytes() == index


@pytest.mark.parametrize("what", ["layers", "prompts", "exchanged"])
def test_what_a_person_has_to_see_to(tmp_path: Path, what: str) -> None:
    """No sample is at fault, so none is given up."""
    run = make_stored_run(tmp_path)
    folder = RunDir(run)
    if what == "layers":
        folder.config.write_text(folder.config.read_text().replace("[1, 4, 6]", "[1, 4, 5]"))
    elif what == "prompts":
        folder.dataset("B1").prompts.unlink()
    else:
        prompts = folder.dataset("B1").prompts
        prompts.write_text(prompts.read_text().replace('"sample_id":"s', '"sample_id":"other-'))
    index, before = index_path(run).read_bytes(), files(run)
    assert repair(run) == ("", 1)
    assert (index_path(run).read_bytes(), files(run)) == (index, before)
