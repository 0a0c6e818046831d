from __future__ import annotations

import os
from pathlib import Path

import pytest

from daemon.capture.dump import Dump
from daemon.capture.fault import CaptureFault
from daemon.capture.leftovers import Leftover, leftovers, remove_dump, sweep
from daemon.sglang_plugin.eagle3_sglang.dump_format import DumpFormatError, dump_path, error_path
from tests.daemon.capture.dumps import TAG, make_rid, row_offset, write_dump

OTHER_RUN = make_rid(1, tag="ffff0000")


def _fill(folder: Path) -> list[str]:
    """Two dumps, a reason and a probe of this run; of others a dump, a reason and files that are none."""
    rids = [make_rid(1), make_rid(2), make_rid(3), f"e3.{TAG}.probe.5e55.0"]
    for rid in (rids[0], rids[1], rids[3], OTHER_RUN):
        write_dump(folder, rid, [1, 2, 3])
    error_path(folder, rids[2]).write_text("no room")
    error_path(folder, OTHER_RUN).write_text("no room")
    for name in ("about.1-1-0.json", "norm.1-1-0.f32", f"e3.{TAG}.dumpling", f"e3.{TAG}.a.b.0.dump.tmp", "notes.dump"):
        (folder / name).write_text("x")
    return rids


def test_only_what_this_run_left_is_named(tmp_path: Path) -> None:
    rids = _fill(tmp_path)
    found = leftovers(tmp_path, TAG)
    assert [left.rid for left in found] == sorted(rids)
    by_rid = {left.rid: left for left in found}
    assert by_rid[rids[0]].sample_hash == f"{1:016x}"
    assert by_rid[rids[0]].rows_bytes > 0
    assert by_rid[rids[2]] == Leftover(rids[2], f"{3:016x}", 0)
    assert by_rid[rids[3]].sample_hash == "probe"


def test_an_id_of_unknown_form_is_still_ours_to_remove(tmp_path: Path) -> None:
    write_dump(tmp_path, f"e3.{TAG}.odd", [1])
    assert [left.sample_hash for left in leftovers(tmp_path, TAG)] == [None]
    assert sweep(tmp_path, TAG) == [f"e3.{TAG}.odd"]


def test_all_but_the_wanted_are_removed_and_said(tmp_path: Path) -> None:
    rids = _fill(tmp_path)
    before = {path.name for path in tmp_path.iterdir()}
    assert sweep(tmp_path, TAG, {rids[0], OTHER_RUN}.__contains__) == sorted(rids[1:])
    gone = {f"{rids[1]}.dump", f"{rids[2]}.error", f"{rids[3]}.dump"}
    assert {path.name for path in tmp_path.iterdir()} == before - gone
    assert sweep(tmp_path, TAG, {rids[0]}.__contains__) == []


def test_a_missing_folder_has_nothing(tmp_path: Path) -> None:
    assert leftovers(tmp_path / "none", TAG) == []
    assert sweep(tmp_path / "none", TAG) == []


def test_memory_is_freed_though_the_server_holds_the_file_open(tmp_path: Path) -> None:
    rid = make_rid(1)
    path = write_dump(tmp_path, rid, list(range(500)))
    error_path(tmp_path, rid).write_text("x")
    with path.open("r+b") as held, Dump.open(tmp_path, rid) as reader:
        remove_dump(tmp_path, rid)
        assert os.fstat(held.fileno()).st_blocks == 0
        with pytest.raises(CaptureFault, match="cut short, or taken away"):
            list(reader.blocks(1))
    assert list(tmp_path.iterdir()) == []
    remove_dump(tmp_path, rid)


def test_what_a_link_points_to_is_left_alone(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("data")
    path = dump_path(tmp_path, make_rid(1))
    path.symlink_to(precious)
    assert sweep(tmp_path, TAG) == [make_rid(1)]
    assert not path.is_symlink()
    assert precious.read_text() == "data"


def test_only_ids_of_ours_name_files(tmp_path: Path) -> None:
    with pytest.raises(DumpFormatError, match="no request id of ours"):
        remove_dump(tmp_path, "../precious")


def test_a_dump_cut_short_is_a_leftover_too(tmp_path: Path) -> None:
    os.truncate(write_dump(tmp_path, make_rid(1), [1, 2, 3]), row_offset(1))
    dump_path(tmp_path, make_rid(2)).touch()
    assert [left.rows_bytes > 0 for left in leftovers(tmp_path, TAG)] == [True, False]
