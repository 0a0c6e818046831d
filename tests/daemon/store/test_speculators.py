"""Rows of a speculators store: closing the holes that dropped samples leave."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import msgspec
import pytest

from daemon.store.layout import StoreError
from daemon.store.speculators_ import SpeculatorsLayout, closing_moves
from daemon.store.writing import checksum_of
from tests.daemon.store.store_samples import files_in, place_many


def no_links(*_: object) -> None:
    raise OSError(errno.EPERM, "no links here")


@pytest.fixture(params=["links", "no links"], autouse=True)
def links(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "no links":
        monkeypatch.setattr(os, "link", no_links)


def moved(layout: SpeculatorsLayout, record, row: int):
    placed = layout.renumber(record, row)
    return msgspec.structs.replace(record, row=row, **vars(placed))


def test_the_sample_is_at_both_places_until_the_old_one_is_removed(tmp_path: Path) -> None:
    layout = SpeculatorsLayout(tmp_path)
    first, _, last = place_many(layout, 3)
    new = moved(layout, last, 1)
    assert (new.file, new.row, new.checksum) == ("hidden_states/hs_1.safetensors", 1, last.checksum)
    assert layout.load(new).ids.tolist() == layout.load(last).ids.tolist()
    assert checksum_of(tmp_path / new.file, 0, new.bytes) == last.checksum
    assert layout.strays([first, new]) == [tmp_path / last.file]
    (tmp_path / last.file).unlink()
    assert layout.load(new).ids.size
    assert files_in(tmp_path) == ["hidden_states/hs_0.safetensors", "hidden_states/hs_1.safetensors"]


def test_to_its_own_row_and_twice(tmp_path: Path) -> None:
    layout = SpeculatorsLayout(tmp_path)
    (record,) = place_many(layout, 1)
    assert moved(layout, record, 0) == record
    once, again = moved(layout, record, 4), moved(layout, record, 4)
    assert once == again and layout.load(again).ids.size
    assert len(files_in(tmp_path)) == 2


def test_what_a_crash_left_on_the_way(tmp_path: Path) -> None:
    layout = SpeculatorsLayout(tmp_path)
    (record,) = place_many(layout, 1)
    (tmp_path / "hidden_states" / ".hs_4.safetensors.part").write_bytes(b"half")
    assert layout.load(moved(layout, record, 4)).ids.size


def test_a_missing_sample_is_not_moved(tmp_path: Path) -> None:
    layout = SpeculatorsLayout(tmp_path)
    first, second = place_many(layout, 2)
    (tmp_path / second.file).unlink()
    with pytest.raises(StoreError, match="is missing"):
        layout.renumber(second, 0)
    assert layout.load(first).ids.size


def test_the_last_ones_go_into_the_holes(tmp_path: Path) -> None:
    layout = SpeculatorsLayout(tmp_path)
    records = [record for record in place_many(layout, 8) if record.row not in (0, 3, 6)]
    moves = closing_moves(records)
    assert [(record.row, row) for record, row in moves] == [(5, 0), (7, 3)]
    by_row = {record.row: record for record in records}
    for record, row in moves:
        by_row[row] = moved(layout, by_row.pop(record.row), row)
    assert sorted(by_row) == list(range(5))
    assert all(layout.load(record).ids.size for record in by_row.values())
    assert closing_moves(list(by_row.values())) == [] == closing_moves([])


def test_two_records_of_one_number_are_named(tmp_path: Path) -> None:
    first, second = place_many(SpeculatorsLayout(tmp_path), 2)
    with pytest.raises(StoreError, match="'s0' and 's1' have the same number 0"):
        closing_moves([first, msgspec.structs.replace(second, row=0)])
