"""At a start: strays go, tails go, records without a file are found; no sample is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.run_dir import RunDir
from daemon.store.index import read_index
from daemon.store.layout import StoreError
from daemon.store.layouts import make_layout
from daemon.store.reconcile import Reconciled, reconcile
from daemon.store.repair import repair_store
from daemon.store.verify import verify_run
from tests.daemon.store.faults import file_of, flip_byte, index_path, records
from tests.support.stored_run import form_for, make_sample, make_stored_run, record_of


def reconciled(run: Path, layout: str) -> Reconciled:
    folder = RunDir(run).store("B1")
    return reconcile(make_layout(layout, folder), read_index(index_path(run)), folder)


def test_a_good_store(tmp_path: Path, layout: str) -> None:
    run = make_stored_run(tmp_path, layout)
    flip_byte(file_of(run, records(run)["s1"]), records(run)["s1"].offset + 20)  # for verify to find
    before = index_path(run).read_bytes()
    assert reconciled(run, layout) == Reconciled()
    assert index_path(run).read_bytes() == before


def test_what_a_crash_left(tmp_path: Path, layout: str) -> None:
    """A sample was placed, its record was not written; another was half written."""
    run = make_stored_run(tmp_path, layout)
    folder = RunDir(run).store("B1")
    store = make_layout(layout, folder)
    extra = record_of(store, make_sample(7, form_for(store)), 7)
    half = file_of(run, extra).parent / ".half.part"
    half.write_bytes(b"x")
    done = reconciled(run, layout)
    assert done.missing == []
    assert half in done.strays
    assert not half.exists()
    if extra.offset:
        assert file_of(run, extra).stat().st_size <= extra.offset
        assert any("cut" in sentence for sentence in done.sentences)
    else:
        assert done.strays == sorted([half, file_of(run, extra)])
        assert not file_of(run, extra).exists()
    assert f"removed {half}: no record accounts for it" in done.sentences
    assert reconciled(run, layout) == Reconciled()


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


def test_an_index_that_is_not_there(tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Emptied, by a full disk or by hand: what days have made is not taken for what a crash has left."""
    monkeypatch.setattr("daemon.store.cheap_checks.MOST_UNRECORDED", 0)
    run = make_stored_run(tmp_path, layout)
    files = {file_of(run, record) for record in records(run).values()}
    index_path(run).write_bytes(b"")
    with pytest.raises(StoreError, match="put the index back"):
        reconciled(run, layout)
    index_path(run).unlink()
    with pytest.raises(StoreError, match="is empty or missing"):
        reconciled(run, layout)
    _, stores = verify_run(run, holding_lock=True)
    said, left = repair_store(stores[0])
    assert left and "nothing was changed" in said[0] and "put the index back" in said[0]
    assert all(path.exists() for path in files)


def test_a_crash_before_the_first_record(tmp_path: Path, layout: str) -> None:
    run = make_stored_run(tmp_path, layout)
    files = {file_of(run, record) for record in records(run).values()}
    index_path(run).write_bytes(b"")
    assert set(reconciled(run, layout).strays) == files
    assert not any(path.exists() for path in files)


def test_an_empty_store(tmp_path: Path, layout: str) -> None:
    run = make_stored_run(tmp_path, layout, samples=0, pretokenized=0)
    assert reconciled(run, layout) == Reconciled()
