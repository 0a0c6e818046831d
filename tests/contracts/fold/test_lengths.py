"""Lengths by bucket, and the pace: what is counted does not depend on how it is read."""

from __future__ import annotations

import random

import msgspec
import pytest

from contracts.fold.lengths import Lengths, bucket_bounds, bucket_of
from contracts.fold.pace import LONG_S, STRETCH_S, Pace
from contracts.fold.responses import ResponseFold
from contracts.records import Response, encode_line
from tests.support.records import NOW, response


@pytest.mark.parametrize("tokens", [0, 1, 15, 16, 17, 1000, 65_535, 65_536, 200_000, 2**31 - 1])
def test_a_length_lies_in_its_bucket(tokens: int) -> None:
    low, high = bucket_bounds(bucket_of(tokens))
    assert low <= tokens < high
    assert high - low <= max(1, low / 8)


def test_buckets_follow_on_each_other() -> None:
    ends = [bucket_bounds(number) for number in range(220)]
    assert [low for low, _ in ends[1:]] == [high for _, high in ends[:-1]]


def test_what_is_looked_up_is_what_is_computed() -> None:
    lengths = Lengths()
    chance = random.Random(1)
    tokens = [chance.randrange(1, 100_000) for _ in range(2000)]
    lengths.add(tokens)
    assert lengths.total == 2000
    expected: dict[int, int] = {}
    for each in tokens:
        expected[bucket_of(each)] = expected.get(bucket_of(each), 0) + 1
    assert lengths.counts == expected
    assert list(lengths.buckets()) == [(*bucket_bounds(number), expected[number]) for number in sorted(expected)]


class TestPace:
    def test_sums_by_stretch(self) -> None:
        pace = Pace()
        pace.add(NOW, 1, 5, 5, 100)
        pace.add(NOW + 9.9, 1, 6, 6, 200)
        pace.add(NOW + 10, 1, 7, 0, 0)
        spans = sorted(pace.spans(NOW), key=lambda span: span[0])
        assert [(start, width, each.responses, each.tokens) for start, width, each in spans] == [
            (NOW, STRETCH_S, 2, 11),
            (NOW + 10, STRETCH_S, 1, 7),
        ]
        assert (spans[0][2].timed_tokens, spans[0][2].open_ms) == (11, 300)
        assert len(list(pace.spans(NOW + 1))) == 1  # of the first stretch a part is from before

    def test_what_is_long_ago_is_kept_in_long_stretches(self) -> None:
        pace = Pace()
        for number in range(2000):
            pace.add(NOW + 10 * number, 1, 3, 3, 10)
        assert len(pace.short) <= 360
        assert {width for _, width, _ in pace.spans(0)} == {STRETCH_S, LONG_S}
        assert sum(each.tokens for _, _, each in pace.spans(0)) == 6000


def fed(lines: list[Response], exact: bool, cut: int) -> ResponseFold:
    fold = ResponseFold(exact=exact)
    for place in range(0, len(lines), cut):
        block = bytearray(b"".join(map(encode_line, lines[place : place + cut])))
        fold.feed(block, len(block), 0, not exact)
    return fold


@pytest.mark.parametrize("cut", [1, 7, 1000])
def test_quick_and_exact_reading_agree(cut: int) -> None:
    """Also where the times are odd: none, backwards, of another century."""
    chance = random.Random(3)
    lines = []
    for number in range(400):
        at = NOW + number * chance.choice((0.1, 1, 40))
        tokens = chance.randrange(1, 300)
        began = chance.choice((at - 7.3, at - 0.004, at, at + 5, at - 10**7, 0.0, -1.0))
        lines.append(response(f"s{number}", tokens, finished_at=at, started_at=began))
    one, other = fed(lines, False, cut), fed(lines, True, 1)
    assert (one.lengths, one.times, one.pace) == (other.lengths, other.times, other.pace)
    assert one.lengths.total == 400
    assert 0 < one.times.total < 400
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(one), type=ResponseFold) == one
