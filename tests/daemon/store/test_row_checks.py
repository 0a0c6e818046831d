"""Rows that cannot be real: found whatever the type, the place, the sign."""

from __future__ import annotations

import numpy as np
import pytest

from contracts.records import CaptureCheck
from daemon.store.row_checks import check_rows, lacks_a_page

SLOTS, WIDTH, ROWS = 4, 16, 9
FORMS = {
    "bfloat16": ("<u2", 0x7F80, 0x8000),
    "float16": ("<u2", 0x7C00, 0x8000),
    "float32": ("<u4", 0x7F800000, 1 << 31),
}


def good(dtype: str) -> np.ndarray:
    """Rows of ones and other plain numbers, as bits; one value of each slot is zero."""
    bits, infinity, sign = FORMS[dtype]
    values = np.random.default_rng(1).integers(1, infinity, (ROWS, SLOTS, WIDTH)).astype(bits)
    values[::2] |= np.array(sign, bits)
    values[:, :, 0] = 0
    return values


def check(values: np.ndarray, dtype: str) -> object:
    return check_rows(memoryview(values.tobytes()), dtype, SLOTS * WIDTH, SLOTS)


@pytest.mark.parametrize("dtype", FORMS)
def test_good_rows(dtype: str) -> None:
    values = good(dtype)
    assert check(values, dtype) is None
    values[3, 2, 5] = FORMS[dtype][1] - 1  # the largest finite number
    assert check(values, dtype) is None
    assert check_rows(memoryview(b""), dtype, SLOTS * WIDTH, SLOTS) is None


@pytest.mark.parametrize("dtype", FORMS)
@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize("payload", [0, 1, 0x3F])
@pytest.mark.parametrize("place", [(0, 0, 0), (4, 1, 7), (ROWS - 1, SLOTS - 1, WIDTH - 1)])
def test_infinity_and_nan(dtype: str, negative: bool, payload: int, place: tuple[int, int, int]) -> None:
    _, infinity, sign = FORMS[dtype]
    values = good(dtype)
    values[place] = infinity + payload + (sign if negative else 0)
    fault = check_rows(memoryview(values.tobytes()), dtype, SLOTS * WIDTH, SLOTS)
    assert fault is not None
    assert (fault.row, fault.slot, fault.kind) == (*place[:2], CaptureCheck.NON_FINITE)


@pytest.mark.parametrize("dtype", FORMS)
@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize("slot", [0, SLOTS - 1])
def test_a_slot_of_zeros(dtype: str, negative: bool, slot: int) -> None:
    values = good(dtype)
    values[5, slot] = FORMS[dtype][2] if negative else 0
    fault = check_rows(memoryview(values.tobytes()), dtype, SLOTS * WIDTH, SLOTS)
    assert fault is not None
    assert (fault.row, fault.slot, fault.kind) == (5, slot, CaptureCheck.ZERO_ROW)


@pytest.mark.parametrize("dtype", FORMS)
def test_the_first_of_several(dtype: str) -> None:
    values = good(dtype)
    values[6, 1, 3] = FORMS[dtype][1]
    values[2] = 0
    fault = check_rows(memoryview(values.tobytes()), dtype, SLOTS * WIDTH, SLOTS)
    assert fault is not None
    assert (fault.row, fault.slot, fault.kind) == (2, 0, CaptureCheck.ZERO_ROW)
    assert str(fault) == "row 2, slot 0: nothing but zeros"


def test_half_a_row_is_refused() -> None:
    with pytest.raises(ValueError, match="no rows"):
        check_rows(memoryview(good("bfloat16").tobytes()[:-2]), "bfloat16", SLOTS * WIDTH, SLOTS)


def test_a_view_at_an_odd_place() -> None:
    """Rows of a file need not begin where the processor likes them to."""
    values = good("float32")
    values[7, 0, 1] = FORMS["float32"][1]
    fault = check_rows(memoryview(b"\0" + values.tobytes())[1:], "float32", SLOTS * WIDTH, SLOTS)
    assert fault is not None
    assert (fault.row, fault.slot) == (7, 0)


@pytest.mark.parametrize("at", [0, 2, 510, 1022, 4096, 65_536 - 4096])
def test_a_page_that_was_never_written(at: int) -> None:
    content = bytearray(b"\1" * 65_536)
    assert not lacks_a_page(memoryview(content))
    content[at : at + 4096] = bytes(4096)
    assert lacks_a_page(memoryview(content))
    for cut in range(at, at + 4097, 256):  # the page lies in two blocks
        blocks = (memoryview(content)[:cut], memoryview(content)[cut:])
        assert any(map(lacks_a_page, blocks))
    content[at : at + 4096 : 500] = b"\1" * 9
    assert not lacks_a_page(memoryview(content))
