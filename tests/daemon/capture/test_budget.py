from __future__ import annotations

import os
import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.fold.lengths import Lengths
from contracts.records import CaptureCheck
from daemon.capture.budget import DumpBudget, LengthEstimate, dump_bytes, free_budget, measure
from daemon.capture.dump import Dump
from daemon.capture.fault import CaptureFault
from daemon.store.sample import RowForm
from tests.daemon.capture.dumps import FORM, TAG, make_header, make_rid, make_rows, row_offset, write_dump

MB = 1_000_000


def test_reservations_stay_within_the_limit() -> None:
    budget = DumpBudget(10 * MB)
    assert budget.try_reserve("a", 6 * MB)
    assert not budget.try_reserve("b", 5 * MB)
    assert budget.try_reserve("b", 4 * MB)
    assert budget.used == 10 * MB
    budget.release("a")
    budget.release("a")
    budget.release("never")
    assert budget.used == 4 * MB
    with pytest.raises(ValueError, match="has a reservation already"):
        budget.try_reserve("b", 1)


def test_a_sample_larger_than_the_whole_limit_is_refused_with_its_numbers() -> None:
    budget = DumpBudget(51 * MB)
    with pytest.raises(CaptureFault, match=r"its rows take 235\.0 MB of the dump folder, whose budget is 51\.0 MB"):
        budget.try_reserve("a", 235 * MB)
    with pytest.raises(CaptureFault) as raised:
        budget.try_reserve("a", 300 * MB, at_least=52 * MB)
    assert raised.value.check is CaptureCheck.TOO_LARGE
    assert budget.used == 0


def test_a_guess_beyond_the_limit_waits_for_all_of_it() -> None:
    """A small folder works, slower: one answer of unknown length at a time."""
    budget = DumpBudget(51 * MB)
    assert budget.try_reserve("a", 268 * MB, at_least=1 * MB)
    assert budget.used == 51 * MB
    assert not budget.try_reserve("b", 268 * MB, at_least=1 * MB)
    budget.settle("a", 2 * MB)
    assert budget.used == 2 * MB
    assert not budget.try_reserve("b", 268 * MB, at_least=1 * MB)
    budget.release("a")
    assert budget.try_reserve("b", 268 * MB, at_least=1 * MB)


def test_the_youngest_that_are_being_generated_are_given_up() -> None:
    budget = DumpBudget(100)
    for rid in ("old", "young", "fresh"):
        assert budget.try_reserve(rid, 20, at_least=1)
    assert budget.try_reserve("prefill", 20)
    assert budget.try_reserve("answered", 20, at_least=1)
    budget.settle("answered", 20)
    within = {"old": 30, "young": 30, "fresh": 0, "prefill": 20, "answered": 20}
    assert budget.over(within) == []
    assert budget.used == 120  # two have outgrown what was reserved for them
    assert budget.over({**within, "young": 31}) == ["young"]
    assert budget.over({**within, "young": 31, "stray": 40}) == ["young", "old"]


def test_nothing_can_be_given_up_twice() -> None:
    budget = DumpBudget(10)
    assert budget.try_reserve("a", 10, at_least=1)
    assert budget.over({"a": 15}) == ["a"]
    budget.release("a")
    assert budget.over({"a": 15}) == []


@given(
    limit=st.integers(1, 100),
    steps=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 60), st.booleans(), st.booleans()), max_size=60),
)
def test_what_is_reserved_is_the_sum_and_within_the_limit(limit: int, steps: list[tuple[int, int, bool, bool]]) -> None:
    budget, held = DumpBudget(limit), dict[str, int]()
    for number, size, reserve, guess in steps:
        rid = str(number)
        if not reserve or rid in held:
            budget.release(rid)
            held.pop(rid, None)
            continue
        try:
            if budget.try_reserve(rid, size, at_least=1 if guess else None):
                held[rid] = min(size, limit)
        except CaptureFault:
            assert size > limit
        assert budget.used == sum(held.values()) <= limit


def test_before_any_answer_the_longest_is_expected() -> None:
    lengths = LengthEstimate(4096)
    assert lengths.tokens == 4096
    lengths.add(100)
    assert lengths.tokens == 100
    lengths.add(300)
    assert lengths.tokens == 200 + 2 * 100
    assert (lengths.count, lengths.mean) == (2, 200.0)


@given(st.lists(st.lists(st.integers(0, 100_000), max_size=30), max_size=3), st.lists(st.integers(0, 100_000)))
def test_what_earlier_sessions_saw_counts(before: list[list[int]], now: list[int]) -> None:
    """After a start, too, room is reserved for answers as they are, and not for the longest that there can be."""
    folds = [Lengths() for _ in before]
    for fold, seen in zip(folds, before, strict=True):
        fold.add(seen)
    lengths, alike = LengthEstimate(50_000, folds), LengthEstimate(50_000)
    for tokens in now:
        lengths.add(tokens)
    for tokens in [each for seen in before for each in seen] + now:
        alike.add(tokens)
    assert lengths.count == alike.count
    assert lengths.tokens == pytest.approx(alike.tokens, rel=1 / 8, abs=1.001)


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=50))
def test_expected_is_the_mean_and_two_deviations(seen: list[int]) -> None:
    lengths = LengthEstimate(50_000)
    for tokens in seen:
        lengths.add(tokens)
    expected = statistics.fmean(seen) + 2 * statistics.pstdev(seen)
    assert min(expected, 50_000) - 1e-3 <= lengths.tokens <= expected + 1.001


@pytest.mark.parametrize(("rows", "hidden_size"), [(1, 8), (7, 8), (600, 8), (37, 1 << 12)])
def test_what_a_dump_takes_is_known_beforehand(tmp_path: Path, rows: int, hidden_size: int) -> None:
    form = RowForm(FORM.layers, hidden_size, FORM.dtype, FORM.norm)
    ids = list(range(rows))
    write_dump(tmp_path, make_rid(1), ids, make_rows(ids, form), header=make_header(make_rid(1), form))
    with Dump.open(tmp_path, make_rid(1)) as dump:
        assert dump.disk_bytes <= dump_bytes(rows, form.row_bytes)
        assert dump.disk_bytes >= rows * form.row_bytes


def test_only_dumps_of_the_run_are_measured(tmp_path: Path) -> None:
    own = make_rid(1)
    path = write_dump(tmp_path, own, [1, 2])
    os.truncate(path, row_offset(500))  # a hole takes nothing
    write_dump(tmp_path, make_rid(1, tag="ffff0000"), [1])
    (tmp_path / f"{own}.error").write_text("x")
    (tmp_path / "about.1-1-0.json").write_text("{}")
    taken = measure(tmp_path, TAG)
    assert list(taken) == [own]
    assert 2 * FORM.row_bytes < taken[own] <= dump_bytes(2, FORM.row_bytes)


def test_the_limit_is_a_share_of_what_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs(tmp_path)
    fields = list(real)
    fields[1], fields[4] = 4096, 100_000  # f_frsize, f_bavail
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(fields))
    free = 409_600_000
    assert free_budget(tmp_path, None) == int(0.8 * free)
    assert free_budget(tmp_path, None, own_bytes=1_000) == int(0.8 * (free + 1_000))
    assert free_budget(tmp_path, 0.064) == 64 * MB
    assert free_budget(tmp_path, 5000.0) == free
