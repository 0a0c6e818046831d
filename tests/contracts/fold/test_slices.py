"""A fold in slices is what msgspec makes of it at once, byte for byte, as it was when it was taken."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import contracts.fold.slices as slices_module
from contracts.fold.dataset import DatasetState
from contracts.fold.failures import SampleFailure
from contracts.fold.slices import encoded, pieces
from contracts.records import FailureClass, NextStep
from tests.support.stored import stored


def together(value: object) -> bytes:
    return b"".join(part for piece in pieces(value) for part in encoded(piece))


def state(samples: int, apart_s: float = 60.0) -> DatasetState:
    made = DatasetState()
    made.responses.done = {b"s%d" % number for number in range(samples)}
    made.prompts.masked = [(number, number) for number in range(samples)]
    for number in range(samples):
        made.hidden.apply(stored(f"s{number}", number, at=apart_s * number), number, number)
        made.failures.samples[b"s%d" % number] = SampleFailure(
            FailureClass.TRANSIENT, NextStep.RETRY, number, 0, "m", 1.0
        )
    return made


@pytest.mark.parametrize("samples", [0, 1, 15, 16, 17, 31, 32, 33, 300])
def test_it_is_what_would_be_written_at_once(samples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices_module, "LARGE", 16)
    assert together(state(samples)) == msgspec.msgpack.encode(state(samples))


@given(st.sampled_from([0, 15, 16, (1 << 16) - 1, 1 << 16]), st.booleans())
def test_heads_of_every_length(count: int, is_map: bool) -> None:
    value: object = dict.fromkeys(range(count), 0) if is_map else [0] * count
    assert together(value) == msgspec.msgpack.encode(value)


def test_what_comes_later_is_not_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices_module, "LARGE", 16)
    made = state(40)
    expected, taken = msgspec.msgpack.encode(made), pieces(made)
    for number in range(40, 80):
        made.hidden.apply(stored(f"s{number}", number, at=60.0), number, number)
        made.failures.samples[b"s%d" % (number - 40)] = SampleFailure(
            FailureClass.POISON, NextStep.RETRY, 9, 9, "later", 2.0
        )
        made.responses.done.discard(b"s%d" % number)
    assert b"".join(part for piece in taken for part in encoded(piece)) == expected, "buckets are changed in place"


def test_no_slice_is_long() -> None:
    made = state(3 * slices_module.LARGE, apart_s=0.0)
    sizes = [len(part) for piece in pieces(made.hidden) for part in encoded(piece)]
    assert len(sizes) > 9 and max(sizes) < len(together(made.hidden)) / 4
