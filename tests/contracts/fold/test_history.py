"""Buckets of time."""

from __future__ import annotations

import random
from typing import Never

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.fold.history import COARSE_S, FINE_S, Bucket, History


def filled(times: list[float]) -> History:
    history = History()
    for at in times:
        bucket = history.bucket(at)
        bucket.responses += 1
        bucket.tokens += 10
    return history


def test_nothing_yet() -> None:
    history = History()
    assert history.is_empty
    assert history.since(0) == Bucket()
    assert list(history.spans()) == []


def test_since_counts_buckets_that_begin_at_the_start_or_later() -> None:
    history = filled([100.0, 100.9, 101.0, 105.5])
    assert not history.is_empty
    assert history.since(100).responses == 4
    assert history.since(100.5).responses == 2
    assert history.since(101).responses == 2
    assert history.since(106).responses == 0


def test_old_buckets_become_coarse_and_nothing_is_lost() -> None:
    chance = random.Random(2)
    times = [1_000_000 + number * 0.9 for number in range(20_000)]
    chance.shuffle(times)
    history = filled(times)
    assert history.since(0).responses == 20_000
    assert history.since(0).tokens == 200_000
    assert len(history.fine) <= 1920
    assert len(history.coarse) <= 20_000 * 0.9 / COARSE_S + 2
    last = max(times)
    for window in (60, 600, 900):
        assert history.since(last - window).responses in range(int(window / 0.9) - 2, int(window / 0.9) + 3)


def test_a_time_far_ahead_makes_others_coarse_but_loses_none() -> None:
    history = filled([1_000.0 + number for number in range(3000)])
    filled_far = history.bucket(9e11)
    filled_far.responses += 1
    for number in range(3000):
        history.bucket(1_000.0 + number).responses += 1
    assert history.since(0).responses == 6001


def test_spans_hold_their_buckets() -> None:
    history = filled([float(number) for number in range(5000)])
    for begin, end, bucket in history.spans():
        assert end - begin in (FINE_S, COARSE_S)
        assert bucket.responses <= end - begin
    assert sum(bucket.responses for _, _, bucket in history.spans()) == 5000


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 40_000), max_size=400), st.floats(0, 40_000))
def test_a_sum_is_that_of_the_spans(times: list[int], start: float) -> None:
    history = filled([float(at) for at in times])
    expected = sum(bucket.responses for begin, _, bucket in history.spans() if begin >= start)
    assert history.since(start).responses == expected


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.lists(st.one_of(st.integers(0, 9_000), st.integers(0, 300), st.just(900_000)), max_size=60), max_size=8
    ),
    st.lists(st.floats(-100, 9_000), min_size=1, max_size=4),
)
def test_sums_that_were_asked_for_take_in_what_comes_later(batches: list[list[int]], starts: list[float]) -> None:
    history = History()
    for batch in batches:
        for at in batch:
            history.bucket(float(at)).tokens += 7
        for start in starts:
            expected = sum(bucket.tokens for begin, _, bucket in history.spans() if begin >= start)
            assert history.since(start).tokens == expected


def test_sums_that_were_asked_for_hold_when_buckets_become_coarse() -> None:
    history = History()
    for number in range(6000):
        history.bucket(float(number)).tokens += 1
        if number % 100 == 0:
            expected = sum(bucket.tokens for begin, _, bucket in history.spans() if begin >= 120)
            assert history.since(120).tokens == expected
    assert history.coarse


def test_sums_are_not_kept_in_a_checkpoint() -> None:
    history = filled([100.0, 200.0])
    before = msgspec.msgpack.encode(history)
    assert history.since(0).responses == 2
    assert msgspec.msgpack.encode(history) == before
    again = msgspec.msgpack.decode(before, type=History)
    again.bucket(150.0).responses += 1
    assert again.since(0).responses == 3


def test_the_newest_thing_is_known_to_the_width_of_its_bucket() -> None:
    history = History()
    assert history.newest is None
    history.bucket(1_800_000_007.9)
    history.bucket(1_800_000_003.0)
    assert history.newest == 1_800_000_007.0
    assert History(coarse={30_000_000: Bucket()}).newest == 1_800_000_000.0


def test_all_counts_are_added_up() -> None:
    names = Bucket.__struct_fields__
    total = Bucket(*range(1, len(names) + 1))
    total.add(Bucket(*(10 for _ in names)))
    assert [getattr(total, name) for name in names] == [number + 11 for number in range(len(names))]
    total.take(Bucket(*(10 for _ in names)))
    assert [getattr(total, name) for name in names] == [number + 1 for number in range(len(names))]


def test_a_moment_later_only_what_lies_between_is_looked_at() -> None:
    history = filled([float(number) for number in range(1900)])
    for start in (1000.0, 1840.0):
        assert history.since(start).responses == 1900 - start
    looked_at: list[int] = []

    class Watched(dict[int, Bucket]):
        def get(self, number: int, default: Bucket | None = None) -> Bucket | None:  # type: ignore[override]
            looked_at.append(number)
            return super().get(number, default)

        def items(self) -> Never:  # type: ignore[override]
            raise AssertionError("all of it is looked at")

    history._sums.fine._buckets = Watched(history.fine)
    for later in (1.0, 2.0):
        for start in (1000.0, 1840.0):
            assert history.since(start + later).responses == 1900 - start - later
    assert looked_at == [1000, 1840, 1001, 1841]
