"""At a start: what a crash left goes, records without a file are found, whole samples without a record come back."""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.records import DroppedSample, StoredSample
from contracts.run_config import Extract
from contracts.run_dir import RunDir
from daemon.store.adopting import Adopting
from daemon.store.index import read_index
from daemon.store.layout import StoreError
from daemon.store.layouts import make_layout
from daemon.store.reconcile import Reconciled, reconcile
from daemon.store.sample import Sample
from tests.daemon.store.faults import drop_lines, file_of, flip_byte, found, index_path, records, replace_record
from tests.support.stored_run import (
    LAYERS,
    append,
    bits_of,
    form_for,
    make_sample,
    make_stored_run,
    record_of,
    with_rows,
)


def reconciled(run: Path, layout: str, *, demanded: bool = False, at_most: int | None = None) -> Reconciled:
    """Reconcile, and append what the caller is to append."""
    folder, extract = RunDir(run).store("B1"), Extract(layers=list(LAYERS), layout=layout)
    judge = Adopting(RunDir(run), "B1", extract, at_most=at_most)
    index = read_index(index_path(run))
    done = reconcile(make_layout(layout, folder), index, folder, judge, demanded=demanded)
    append(index_path(run), *done.adopted)
    return done


def nothing(done: Reconciled) -> bool:
    return not (done.adopted or done.missing or done.sentences or done.kept)


def lose(run: Path, *lost: str) -> dict[str, StoredSample]:
    """Take lines out of the index; return what they said."""
    held = records(run)
    drop_lines(index_path(run), lambda line: line["sample_id"] in lost)
    return {name: held[name] for name in lost}


def test_a_good_store(tmp_path: Path, layout: str) -> None:
    run = make_stored_run(tmp_path, layout)
    flip_byte(file_of(run, records(run)["s1"]), records(run)["s1"].offset + 20)  # for verify to find
    before = index_path(run).read_bytes()
    assert nothing(reconciled(run, layout))
    assert index_path(run).read_bytes() == before


def test_what_a_crash_left(tmp_path: Path, layout: str) -> None:
    """A sample of no prompt was placed, its record was not written; another was half written."""
    run = make_stored_run(tmp_path, layout)
    folder = RunDir(run).store("B1")
    store = make_layout(layout, folder)
    extra = record_of(store, make_sample(7, form_for(store)), 7)
    half = file_of(run, extra).parent / ".half.part"
    half.write_bytes(b"x")
    done = reconciled(run, layout)
    assert not done.missing and not done.adopted and not done.kept
    assert not half.exists()
    if extra.offset:
        assert file_of(run, extra).stat().st_size <= extra.offset
        assert any("cut" in sentence for sentence in done.removed)
    else:
        assert not file_of(run, extra).exists()
        why = "sample 's7': no prompt with a usable response"
        assert f"removed {file_of(run, extra)}: {why}" in done.removed
    assert f"removed {half}: it was being written when its writer ended" in done.removed
    assert nothing(reconciled(run, layout))


def test_records_without_their_file(tmp_path: Path, layout: str) -> None:
    run = make_stored_run(tmp_path, layout)
    held = records(run)
    last = held["s4"]
    with file_of(run, last).open("r+b") as file:
        file.truncate(last.offset + last.bytes - 1)
    lost = ["s4"]
    if held["s1"].file != last.file:
        file_of(run, held["s1"]).unlink()
        lost = ["s1", "s4"]
    before = index_path(run).read_bytes()
    done = reconciled(run, layout)
    assert [record.sample_id for record in done.missing] == lost
    assert all(any(repr(name) in sentence for sentence in done.sentences) for name in lost)
    assert index_path(run).read_bytes() == before, "giving them up is for the caller"
    assert file_of(run, last).exists() == (last.offset > 0), "what is left of its file is no sample"


def test_a_store_that_is_not_there(tmp_path: Path, layout: str) -> None:
    run = make_stored_run(tmp_path, layout)
    RunDir(run).store("B1").rename(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="mount its disk"):
        reconciled(run, layout)


@pytest.mark.parametrize("how", ["emptied", "gone"])
def test_an_index_that_is_not_there_is_made_again(tmp_path: Path, layout: str, how: str) -> None:
    """By a full disk or by hand: what days have made is not taken for what a crash has left."""
    run = make_stored_run(tmp_path, layout)
    held = records(run)
    content = {name: file_of(run, record).read_bytes() for name, record in held.items()}
    index_path(run).unlink() if how == "gone" else index_path(run).write_bytes(b"")
    done = reconciled(run, layout)
    assert not done.removed and len(done.adopted) == len(held)
    again = records(run)
    assert {name: (one.file, one.offset, one.checksum, one.capture) for name, one in again.items()} == {
        name: (one.file, one.offset, one.checksum, one.capture) for name, one in held.items()
    }
    assert {name: file_of(run, record).read_bytes() for name, record in held.items()} == content
    assert found(run) == {}


def test_lines_that_were_lost_come_back(tmp_path: Path, layout: str) -> None:
    run = make_stored_run(tmp_path, layout, samples=7)
    lost = lose(run, "s0", "s3", "s6")
    done = reconciled(run, layout)
    assert not done.removed
    for name, record in lost.items():
        again = records(run)[name]
        assert (again.file, again.offset, again.bytes, again.checksum) == (
            record.file,
            record.offset,
            record.bytes,
            record.checksum,
        )
        assert (again.tokens, again.loss_tokens, again.model) == (record.tokens, record.loss_tokens, "tiny")
        assert any(f"sample {name!r} is recorded again" in sentence for sentence in done.sentences)
    assert len({record.row for record in records(run).values()}) == 7
    assert found(run) == {} and nothing(reconciled(run, layout))


def test_what_is_not_what_prompt_and_response_ask_for_is_not_adopted(tmp_path: Path, layout: str) -> None:
    def masked(sample: Sample) -> Sample:
        return replace(sample, loss_mask=np.roll(sample.loss_mask, 1))

    def not_finite(sample: Sample) -> Sample:
        bits = bits_of(sample)
        bits[0, 0, 0] = 0x7FC0
        return with_rows(sample, bits)

    def other_layers(sample: Sample) -> Sample:
        return replace(sample, form=replace(sample.form, layers=(1, 4, 5)))

    run = make_stored_run(tmp_path, layout, forge={1: masked, 2: not_finite, 3: other_layers})
    lose(run, "s1", "s2", "s3")
    done = reconciled(run, layout)
    assert not done.adopted and records(run).keys() == {"s0", "s4"}
    for name, why in (("s1", "of its loss mask are wrong"), ("s2", "not finite"), ("s3", "layers 1,4,5 instead")):
        assert any(f"sample '{name}': " in sentence and why in sentence for sentence in done.removed)
    assert nothing(reconciled(run, layout)) and found(run) == {}


def test_rows_with_a_page_that_was_never_written_are_not_adopted(tmp_path: Path, layout: str) -> None:
    """A shard gets its document before the document is on the disk: after a power cut a page of it may be zeros."""

    def torn(sample: Sample) -> Sample:
        bits = bits_of(sample)
        bits.reshape(-1)[300 : 300 + 2048] = 0
        return with_rows(sample, bits)

    run = make_stored_run(tmp_path, layout, width=2560, forge={1: torn})
    lose(run, "s1", "s2")
    done = reconciled(run, layout)
    assert [record.sample_id for record in done.adopted] == ["s2"]
    assert any("sample 's1': a part of its rows is nothing but zeros" in sentence for sentence in done.removed)


def test_more_than_a_crash_can_leave_stays(tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its responses are gone: nobody can say what the samples are, and nobody but a person may remove them."""
    monkeypatch.setattr("daemon.store.unrecorded.MOST_LEFT", 2)
    run = make_stored_run(tmp_path, layout, samples=6)
    lost = lose(run, "s1", "s2", "s3")
    drop_lines(RunDir(run).dataset("B1").responses, lambda line: line["sample_id"] in lost)
    content = {name: file_of(run, record).read_bytes() for name, record in lost.items()}
    done = reconciled(run, layout)
    assert not done.removed and len(done.kept) == 3
    assert done.remark is not None and "3 files and documents that the index does not know" in done.remark
    assert {name: file_of(run, record).read_bytes() for name, record in lost.items()} == content
    done = reconciled(run, layout, demanded=True)
    assert len(done.removed) == 3 and not done.kept
    assert nothing(reconciled(run, layout)) and found(run) == {}


@pytest.mark.parametrize("demanded", [False, True])
def test_without_prompts_nothing_is_removed(tmp_path: Path, layout: str, demanded: bool) -> None:
    run = make_stored_run(tmp_path, layout)
    lost = lose(run, "s4")
    prompts = RunDir(run).dataset("B1").prompts
    prompts.rename(prompts.with_name("aside"))
    done = reconciled(run, layout, demanded=demanded)
    assert done.kept and not done.removed and not done.adopted
    assert done.remark is not None and "prompts.jsonl" in done.remark
    prompts.with_name("aside").rename(prompts)
    assert [record.checksum for record in reconciled(run, layout).adopted] == [lost["s4"].checksum]


def test_a_start_does_not_read_for_an_hour(tmp_path: Path, layout: str) -> None:
    run = make_stored_run(tmp_path, layout)
    lost = lose(run, "s1", "s2")
    size = sum(record.bytes + 1_000_000 for record in lost.values())
    with pytest.raises(StoreError, match=r"2 samples .* of which .*says nothing.*verify .* --repair"):
        reconciled(run, layout, at_most=size - 1)
    assert len(reconciled(run, layout, at_most=size).adopted) == 2


def test_what_was_given_up_does_not_come_back(tmp_path: Path, layout: str) -> None:
    """A repair was ended between giving up and removing."""
    run = make_stored_run(tmp_path, layout)
    append(index_path(run), DroppedSample(sample_id="s1", why="checksum", at=time.time()))
    done = reconciled(run, layout)
    assert not done.adopted and any("its sample was given up" in sentence for sentence in done.removed)
    assert nothing(reconciled(run, layout)) and found(run) == {}


def test_what_was_stored_again_and_lost_comes_back(tmp_path: Path, layout: str) -> None:
    """The index knows only that the sample was given up, at the very same place."""
    run = make_stored_run(tmp_path, layout)
    old = records(run)["s4"]
    append(index_path(run), DroppedSample(sample_id="s4", why="checksum", at=time.time() - 9))
    assert not reconciled(run, layout).adopted
    store = make_layout(layout, RunDir(run).store("B1"))
    sample = make_sample(4, form_for(store), pretokenized=True)
    new = record_of(store, with_rows(sample, bits_of(sample) + 1), old.row)
    assert (new.file, new.offset) == (old.file, old.offset) and new.checksum != old.checksum
    assert [record.checksum for record in reconciled(run, layout).adopted] == [new.checksum]
    assert found(run) == {}


def test_a_copy_goes(tmp_path: Path) -> None:
    run = make_stored_run(tmp_path, "modelopt")
    path = file_of(run, records(run)["s1"])
    shutil.copy(path, path.with_name("copy.pt"))
    (said,) = reconciled(run, "modelopt").removed
    assert "copy.pt: the same as sample 's1'" in said and path.exists()


def test_two_samples_of_one_number(tmp_path: Path) -> None:
    run = make_stored_run(tmp_path, "specforge")
    lose(run, "s2")
    replace_record(run, "s1", row=2)
    done = reconciled(run, "specforge")
    assert any("its number is another sample's" in sentence for sentence in done.removed)


@given(
    lost=st.sets(st.integers(0, 11)),
    left=st.lists(st.sampled_from(["part", "torn", "stranger"]), max_size=4),
    name=st.sampled_from(["safetensors", "specforge", "speculators", "modelopt"]),
)
@settings(max_examples=40, deadline=None)
def test_nothing_whole_is_ever_removed(lost: set[int], left: list[str], name: str) -> None:
    """Lines of the index lost at random, and what crashes leave at random: all that was stored is stored."""
    with tempfile.TemporaryDirectory() as folder:
        run = make_stored_run(Path(folder), name, samples=12)
        held = records(run)
        lose(run, *(f"s{number}" for number in lost))
        place = RunDir(run).store("B1")
        store = make_layout(name, place)
        for number, what in enumerate(left):
            if what == "part":
                (place / f".{number}.part").write_bytes(b"x" * number)
            elif what == "stranger":
                record_of(store, make_sample(20 + number, form_for(store)), 20 + number)
            elif name == "safetensors":
                document = bytes_at(place, held["s3"])
                with (place / "shard-0.e3s").open("ab") as shard:
                    shard.write(b"\0" * (-shard.tell() % 64) + document[: len(document) // 2])
        reconciled(run, name)
        again = records(run)
        assert {key: (one.file, one.offset, one.checksum) for key, one in again.items()} == {
            key: (one.file, one.offset, one.checksum) for key, one in held.items()
        }
        assert len({one.row for one in again.values()}) == 12
        assert found(run) == {} and nothing(reconciled(run, name))


def bytes_at(folder: Path, record: StoredSample) -> bytes:
    return (folder / record.file).read_bytes()[record.offset : record.offset + record.bytes]


def test_an_empty_store(tmp_path: Path, layout: str) -> None:
    run = make_stored_run(tmp_path, layout, samples=0, pretokenized=0)
    assert nothing(reconciled(run, layout))
