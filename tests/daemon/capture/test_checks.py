from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from contracts.records import CaptureCheck
from daemon.capture.checks import CheckedRows, check_header, check_marks, check_rows_written
from daemon.capture.dump import Dump
from daemon.capture.fault import CaptureFault
from daemon.store.sample import RowForm
from tests.daemon.capture.dumps import FORM, MODEL, make_header, make_rid, make_rows, write_dump

RID = make_rid(1)


@pytest.mark.parametrize(
    ("changes", "check", "words"),
    [
        ({"layers": (1, 3)}, CaptureCheck.LAYERS, "expected 32 values a row, got 24: outputs of layers 1, 3"),
        ({"hidden_size": 6}, CaptureCheck.HIDDEN_SIZE, "expected 32 values a row, got 24: hidden size 6 instead of 8"),
        (
            {"layers": (2, 3, 4), "server_layers": (3, 4, 5)},
            CaptureCheck.LAYERS,
            r"layers 2, 3, 4 \(the server was given --return-aux-hidden-state-layer-ids 3 4 5\) instead of 1, 3, 4",
        ),
        ({"model": "models/other"}, CaptureCheck.LAYERS, "layers of the model 'models/other', the run's is"),
        ({"norm": "over_weight"}, CaptureCheck.NORM, "'over_weight', the store takes 'post'"),
        ({"dtype": "bfloat16"}, CaptureCheck.DTYPE, "rows of bfloat16, the store holds float32"),
    ],
)
def test_another_form_fails_every_sample(changes: dict[str, Any], check: CaptureCheck, words: str) -> None:
    with pytest.raises(CaptureFault, match=words) as raised:
        check_header(replace(make_header(RID), **changes), FORM, MODEL)
    assert raised.value.check is check
    assert raised.value.systematic


def test_the_form_asked_for_passes() -> None:
    check_header(make_header(RID), FORM, MODEL)
    check_header(make_header(RID, model="whatever"), FORM, None)


def test_case_18_fewer_rows_than_tokens(tmp_path: Path) -> None:
    """5 prompt and 4 completion tokens: 8 rows are due, the last token is never fed; 7 came."""
    write_dump(tmp_path, RID, [1, 2, 3, 4, 5, 11, 12])
    with Dump.open(tmp_path, RID) as dump, pytest.raises(CaptureFault, match="7 rows for 8 tokens") as raised:
        check_rows_written(dump, 8)
    assert raised.value.check is CaptureCheck.ROWS
    assert not raised.value.systematic


def _arrays(ids: list[int], passes: list[int]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    return np.array(ids, np.uint32), np.array(passes, np.uint32)


def test_a_position_never_written_is_named() -> None:
    with pytest.raises(CaptureFault, match=r"position 1 was never written \(2 of 4") as raised:
        check_marks(*_arrays([5, 0, 7, 0], [1, 0, 2, 0]), np.array([5, 6, 7, 8]))
    assert raised.value.check is CaptureCheck.POSITIONS


def test_rows_of_other_ids_are_named() -> None:
    with pytest.raises(CaptureFault, match=r"position 2 was computed from token id 9, .* received was 7 \(1 of 4"):
        check_marks(*_arrays([5, 6, 9, 8], [1, 1, 2, 3]), np.array([5, 6, 7, 8]))


def test_rows_that_came_again_after_a_retraction_pass() -> None:
    check_marks(*_arrays([5, 6, 7], [4, 4, 5]), np.array([5, 6, 7]))


def test_the_largest_id_that_a_mark_holds() -> None:
    largest = (1 << 32) - 1
    check_marks(*_arrays([largest], [largest]), np.array([largest]))


@pytest.mark.parametrize(
    ("slot", "value", "check", "words"),
    [
        (0, np.nan, CaptureCheck.NON_FINITE, "position 5, the output of layer 1: not finite"),
        (2, -np.inf, CaptureCheck.NON_FINITE, "position 5, the output of layer 4: not finite"),
        (3, np.inf, CaptureCheck.NON_FINITE, "position 5, the last hidden state: not finite"),
        (1, 0.0, CaptureCheck.ZERO_ROW, "position 5, the output of layer 3: nothing but zeros"),
    ],
)
@pytest.mark.parametrize("hidden_size", [8, 1 << 15])  # all rows in one block; two rows a block
def test_a_row_that_cannot_be_real_is_named(
    tmp_path: Path, slot: int, value: float, check: CaptureCheck, words: str, hidden_size: int
) -> None:
    form = RowForm(FORM.layers, hidden_size, "float32", FORM.norm)
    rows = make_rows(list(range(8)), form)
    if value == 0.0:
        rows[5, slot] = 0.0
    else:
        rows[5, slot, 3] = value
    write_dump(tmp_path, RID, list(range(8)), rows, header=make_header(RID, form))
    with Dump.open(tmp_path, RID) as dump:
        checked = CheckedRows(dump, 8)
        assert checked.tokens == 8
        with pytest.raises(CaptureFault, match=words) as raised:
            list(checked.blocks())
        assert raised.value.check is check
        assert b"".join(CheckedRows(dump, 5).blocks()) == rows[:5].tobytes()


def test_a_single_zero_in_a_row_is_fine(tmp_path: Path) -> None:
    rows = make_rows([1, 2])
    rows[:, :, 0] = 0.0
    write_dump(tmp_path, RID, [1, 2], rows)
    with Dump.open(tmp_path, RID) as dump:
        assert b"".join(CheckedRows(dump, 2).blocks()) == rows.tobytes()
