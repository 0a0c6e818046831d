from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contracts.records import CaptureCheck
from daemon.capture.dump import Dump, header_at
from daemon.capture.fault import CaptureFault
from daemon.sglang_plugin.eagle3_sglang.dump_format import HEADER_BYTES, dump_path
from daemon.store.sample import BLOCK_BYTES, RowForm
from tests.daemon.capture.dumps import (
    CONTEXT,
    make_header,
    make_rid,
    make_rows,
    poke,
    row_offset,
    write_dump,
)

RID = make_rid(1)


def test_a_dump_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_dump(tmp_path, RID, [7, 8, 9], passes=[1, 1, 2])
    with Dump.open(tmp_path, RID) as dump:
        ids, passes = dump.marks(3)
        assert (ids.tolist(), passes.tolist()) == ([7, 8, 9], [1, 1, 2])
        assert (str(ids.dtype), str(passes.dtype)) == ("uint32", "uint32")
        assert (dump.rows_written, dump.header.rid) == (3, RID)
        assert b"".join(dump.blocks(3)) == make_rows([7, 8, 9]).tobytes()
        assert list(dump.blocks(0)) == []


def test_blocks_are_whole_rows_and_each_keeps_its_content(tmp_path: Path) -> None:
    form = RowForm((1, 3, 4), 1 << 14, "float32", "post")  # 256 KiB a row
    ids = list(range(11))
    write_dump(tmp_path, RID, ids, make_rows(ids, form), header=make_header(RID, form))
    with Dump.open(tmp_path, RID) as dump:
        blocks = list(dump.blocks(10))
    assert [len(block) // form.row_bytes for block in blocks] == [4, 4, 2]
    assert all(len(block) <= BLOCK_BYTES for block in blocks)
    assert b"".join(blocks) == make_rows(ids, form)[:10].tobytes()


def test_only_whole_rows_count(tmp_path: Path) -> None:
    path = write_dump(tmp_path, RID, [7, 8, 9])
    with Dump.open(tmp_path, RID) as dump:
        for size, rows in ((row_offset(3) - 1, 2), (row_offset(2), 2), (row_offset(0) - 5, 0), (HEADER_BYTES, 0)):
            os.truncate(path, size)
            assert dump.rows_written == rows


def test_no_more_rows_than_the_context_has(tmp_path: Path) -> None:
    path = write_dump(tmp_path, RID, [7])
    os.truncate(path, row_offset(CONTEXT + 9))
    with Dump.open(tmp_path, RID) as dump:
        assert dump.rows_written == CONTEXT
        with pytest.raises(CaptureFault, match=f"{CONTEXT + 1} rows for a context of {CONTEXT}"):
            dump.marks(CONTEXT + 1)


def test_a_dump_that_grows_is_seen_to(tmp_path: Path) -> None:
    path = write_dump(tmp_path, RID, [7])
    with Dump.open(tmp_path, RID) as dump:
        assert dump.rows_written == 1
        poke(path, row_offset(1), make_rows([8]).tobytes())
        assert dump.rows_written == 2


def test_a_dump_taken_away_while_it_is_read_is_a_fault(tmp_path: Path) -> None:
    path = write_dump(tmp_path, RID, [7, 8, 9])
    with Dump.open(tmp_path, RID) as dump:
        os.truncate(path, 0)
        path.unlink()
        assert dump.rows_written == 0
        with pytest.raises(CaptureFault, match="cut short, or taken away") as raised:
            list(dump.blocks(3))
        assert raised.value.check is CaptureCheck.MISSING
        with pytest.raises(CaptureFault, match="ends at byte 4096 in its marks"):
            dump.marks(3)


def test_no_dump_is_a_fault(tmp_path: Path) -> None:
    for folder, rid in ((tmp_path, RID), (tmp_path / "none", RID), (tmp_path, "../../etc/passwd"), (tmp_path, "e3.")):
        with pytest.raises(CaptureFault, match="no dump") as raised:
            Dump.open(folder, rid)
        assert raised.value.check is CaptureCheck.MISSING


def test_only_plain_files_are_read(tmp_path: Path) -> None:
    secret = tmp_path / "elsewhere"
    write_dump(tmp_path, RID, [7]).rename(secret)
    path = dump_path(tmp_path, RID)
    path.symlink_to(secret)
    with pytest.raises(CaptureFault, match="no dump"):
        Dump.open(tmp_path, RID)
    path.unlink()
    os.mkfifo(path)  # nobody writes into it: opening must not wait
    with pytest.raises(CaptureFault, match="not a regular file"):
        Dump.open(tmp_path, RID)
    assert header_at(path) is None
    path.unlink()
    path.mkdir()
    with pytest.raises(CaptureFault, match="not a regular file"):
        Dump.open(tmp_path, RID)


def test_the_dump_of_another_request_under_this_name_is_a_fault(tmp_path: Path) -> None:
    other = make_rid(2)
    write_dump(tmp_path, RID, [7], header=make_header(other))
    with pytest.raises(CaptureFault, match=other) as raised:
        Dump.open(tmp_path, RID)
    assert raised.value.check is CaptureCheck.IDS


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_size": "8"},
        {"hidden_size": 0},
        {"hidden_size": 1 << 40},
        {"hidden_size": True},
        {"layers": "abc"},
        {"layers": []},
        {"layers": [3, 1]},
        {"layers": [1, 1]},
        {"layers": [-1, 2]},
        {"layers": [1, "2"]},
        {"layers": None},
        {"dtype": "float64"},
        {"dtype": None},
        {"context_length": -5},
        {"context_length": 1 << 60},
        {"model": "\ud800"},
        {"norm": 7},
        {"format": "eagle3-dump/9"},
    ],
)
def test_a_header_that_makes_no_sense_is_a_fault(tmp_path: Path, changes: dict[str, object]) -> None:
    path = write_dump(tmp_path, RID, [7])
    header = json.loads(path.read_bytes()[:HEADER_BYTES])
    poke(path, 0, json.dumps({**header, **changes}).encode().ljust(HEADER_BYTES))
    with pytest.raises(CaptureFault, match="the header"):
        Dump.open(tmp_path, RID)


@pytest.mark.parametrize(
    "page", [b"[" * HEADER_BYTES, b"\0" * HEADER_BYTES, b"1" * HEADER_BYTES, b"{}".ljust(HEADER_BYTES), b"\xff" * 4096]
)
def test_a_page_that_is_no_header_is_a_fault(tmp_path: Path, page: bytes) -> None:
    poke(write_dump(tmp_path, RID, [7]), 0, page)
    with pytest.raises(CaptureFault, match="the header"):
        Dump.open(tmp_path, RID)


def _look_at_everything(folder: Path) -> None:
    with Dump.open(folder, RID) as dump:
        dump.marks(5)
        assert len(b"".join(dump.blocks(5))) == 5 * dump.header.row_bytes


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_is_a_fault_and_never_a_traceback(tmp_path: Path, data: st.DataObject) -> None:
    path = write_dump(tmp_path, RID, [7, 8, 9, 10, 11])
    length = len(make_header(RID).encode().rstrip()) + 2
    places = st.one_of(st.integers(0, length), st.integers(0, path.stat().st_size))
    for offset, content in data.draw(st.lists(st.tuples(places, st.binary(min_size=1, max_size=40)), max_size=4)):
        poke(path, offset, content)
    os.truncate(path, data.draw(st.one_of(st.just(row_offset(5)), st.integers(0, row_offset(7)))))
    try:
        _look_at_everything(tmp_path)
    except CaptureFault as fault:
        assert fault.message


def test_a_file_of_zeros_of_any_size_is_a_fault(tmp_path: Path) -> None:
    path = dump_path(tmp_path, RID)
    for size in (0, 1, HEADER_BYTES - 1, HEADER_BYTES, 1 << 20):
        path.write_bytes(bytes(size))
        with pytest.raises(CaptureFault):
            Dump.open(tmp_path, RID)
