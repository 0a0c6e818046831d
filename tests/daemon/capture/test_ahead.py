from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
import pytest

from daemon.capture.ahead import WORTH_BYTES, RowsAhead
from daemon.capture.dump import Dump
from daemon.capture.fault import CaptureFault
from daemon.store.sample import RowForm
from tests.daemon.capture.dumps import FORM, make_header, make_rid, make_rows, write_dump

Values = npt.NDArray[Any]

RID = make_rid(1)
WIDE = RowForm(FORM.layers, 1 << 14, FORM.dtype, FORM.norm)
"""256 KiB a row: 4 in a block."""
TOKENS = 3 * WORTH_BYTES // WIDE.row_bytes + 1
IDS = list(range(TOKENS))


def running() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "rows-ahead"]


@pytest.fixture(scope="module")
def rows() -> Values:
    return make_rows(IDS, WIDE)


@pytest.fixture
def dump(tmp_path: Path, rows: Values) -> Iterator[Dump]:
    write_dump(tmp_path, RID, IDS, rows, header=make_header(RID, WIDE))
    with Dump.open(tmp_path, RID) as opened:
        yield opened


def test_all_rows_come_in_order(dump: Dump, rows: Values) -> None:
    with RowsAhead(dump, TOKENS) as ahead:
        assert ahead.tokens == TOKENS
        assert b"".join(bytes(block) for block in ahead.blocks()) == rows.tobytes()
    assert not running()


def test_few_rows_need_no_thread(dump: Dump, rows: Values) -> None:
    with RowsAhead(dump, 9) as ahead, mock.patch.object(threading.Thread, "start", side_effect=AssertionError):
        assert b"".join(bytes(block) for block in ahead.blocks()) == rows[:9].tobytes()


def test_without_a_thread_it_is_slower_and_not_worse(dump: Dump, rows: Values) -> None:
    with RowsAhead(dump, TOKENS) as ahead, mock.patch.object(threading.Thread, "start", side_effect=RuntimeError):
        assert b"".join(bytes(block) for block in ahead.blocks()) == rows.tobytes()


def test_memory_is_used_again(dump: Dump) -> None:
    with mock.patch("daemon.store.blocks.np.empty", side_effect=np.empty) as fresh, RowsAhead(dump, TOKENS) as ahead:
        blocks = sum(1 for _ in ahead.blocks())
    assert blocks > 20
    assert fresh.call_count <= 5


@pytest.mark.parametrize("row", [0, 5, TOKENS - 1])
def test_a_fault_is_raised_where_it_is(tmp_path: Path, rows: Values, row: int) -> None:
    broken = rows.copy()
    broken[row, 1, 7] = np.nan
    write_dump(tmp_path, RID, IDS, broken, header=make_header(RID, WIDE))
    seen = 0
    with Dump.open(tmp_path, RID) as dump, RowsAhead(dump, TOKENS) as ahead:
        with pytest.raises(CaptureFault, match=f"position {row}, .*not finite"):
            for block in ahead.blocks():
                seen += len(block)
        assert seen // WIDE.row_bytes == row // 4 * 4
    assert not running()


def test_who_leaves_early_leaves_no_thread_that_reads_a_closed_file(dump: Dump) -> None:
    with suppress(OSError), RowsAhead(dump, TOKENS) as ahead:
        for _ in ahead.blocks():
            raise OSError("No space left on device")
    assert not running()
    with RowsAhead(dump, TOKENS) as ahead:  # held by a name, as a traceback would hold it
        blocks = ahead.blocks()
        next(blocks)
    assert not running()


def test_never_asked_for(dump: Dump) -> None:
    with RowsAhead(dump, TOKENS):
        pass
    assert not running()
