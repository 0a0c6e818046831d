"""The remaining time of a run as a pure function: when it is known, what moves it, what must not."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field, replace

import pytest

from contracts.eta import DONE, Conditions, Eta, Part, Work, forecast, later, storing_eta, unknown
from contracts.fold.lengths import Lengths
from contracts.fold.pace import Pace
from tests.support.records import NOW


@dataclass
class Made:
    """A data set whose slots have been filled from ``began`` on, each with one answer after the other."""

    prompts: int | None = 4000
    target: int | None = None
    mean: int = 500
    slots: int = 16
    speed: float = 20.0
    done: int = 0
    tokens: int = 0
    pace: Pace = field(default_factory=Pace)
    lengths: Lengths = field(default_factory=Lengths)
    times: Lengths = field(default_factory=Lengths)

    def run(self, begin: float, end: float, seed: int = 1, most: int = 10**9) -> Made:
        chance = random.Random(seed)
        for _ in range(self.slots):
            at = begin
            while True:
                tokens = max(1, int(self.mean * chance.uniform(0.2, 1.8)))
                took = tokens / self.speed
                if at + took > end or self.done >= most:
                    break
                at += took
                self.add(at, tokens, took)
        return self

    def add(self, at: float, tokens: int, took: float) -> None:
        self.done += 1
        self.tokens += tokens
        self.lengths.add([tokens])
        self.times.add([int(took * 10)])
        self.pace.add(at, 1, tokens, tokens, int(took * 1000))

    def part(self, in_flight: int | None = None) -> Part:
        work = Work(self.prompts, self.done, self.tokens if self.done else None, self.done, self.target)
        return Part(work, self.pace, self.lengths, self.times, self.slots if in_flight is None else in_flight)


def conditions(since: float, concurrency: int = 16, **over: float | None) -> Conditions:
    values = {"since": since, "moving_since": since, "oldest_s": None, "longest": 8192} | over
    return Conditions(concurrency=concurrency, **values)  # type: ignore[arg-type]


def known(eta: Eta) -> tuple[float, float, float]:
    assert eta.point is not None
    assert eta.low is not None
    assert eta.high is not None
    assert 0 <= eta.low <= eta.point <= eta.high
    return eta.point, eta.low, eta.high


def total(made: Made, since: float, now: float, **over: float | None) -> Eta:
    return forecast([made.part()], conditions(since, made.slots, **over), now).total


class TestKnown:
    def test_prompts_left_at_the_speed_of_all_slots(self) -> None:
        made = Made().run(NOW, NOW + 3600)
        point, low, high = known(total(made, NOW, NOW + 3600))
        expected = (4000 - made.done) * 500 / (16 * 20)
        assert point == pytest.approx(expected, rel=0.08)
        assert low < expected < high

    def test_a_target_before_the_prompts_run_out(self) -> None:
        made = Made(target=1_500_000).run(NOW, NOW + 2000)
        point, low, high = known(total(made, NOW, NOW + 2000))
        expected = (1_500_000 - made.tokens) / (16 * 20)
        assert point == pytest.approx(expected, rel=0.05)
        assert low < expected < high

    def test_prompts_that_run_out_before_the_target(self) -> None:
        made = Made(prompts=1000).run(NOW, NOW + 600)
        by_prompts = total(made, NOW, NOW + 600)
        made.target = 10**9
        assert total(made, NOW, NOW + 600) == by_prompts

    def test_short_answers_come_first_and_do_not_fool_it(self) -> None:
        """Half of the answers have 100 tokens, half 4,000: of those hardly one is finished after 250 s."""
        made = Made(prompts=2000, slots=200, speed=20.0)
        chance = random.Random(5)
        open_now = 0
        for _ in range(200):
            at = NOW
            while True:
                tokens = 100 if chance.random() < 0.5 else 4000
                if at + tokens / 20 > NOW + 190:
                    open_now += 1
                    break
                at += tokens / 20
                made.add(at, tokens, tokens / 20)
        assert made.tokens / made.done < 200
        point, _, _ = known(total(made, NOW, NOW + 190))
        left = 2000 - made.done - open_now
        expected = left * 2050 / (200 * 20) + 200  # the open ones are all long
        assert point == pytest.approx(expected, rel=0.3)
        naive = (2000 - made.done) * made.tokens / made.done / (made.tokens / 190)
        assert abs(naive - expected) > 2 * abs(point - expected)

    def test_no_times_in_the_answers_is_enough(self) -> None:
        made = Made().run(NOW, NOW + 3600)
        for stretch in (*made.pace.short.values(), *made.pace.long.values()):
            stretch.timed_tokens = stretch.open_ms = 0
        made.times = Lengths()
        point, _, _ = known(total(made, NOW, NOW + 3600))
        assert point == pytest.approx((4000 - made.done) * 500 / 320, rel=0.1)

    def test_finished_is_zero(self) -> None:
        made = Made(prompts=3, done=3, tokens=30)
        assert forecast([made.part(0)], conditions(NOW), NOW + 1).total == DONE
        assert forecast([], conditions(NOW), NOW).total == DONE

    def test_more_left_takes_longer_and_more_speed_shorter(self) -> None:
        made = [Made(prompts=prompts).run(NOW, NOW + 600) for prompts in (900, 1200, 2400, 9000)]
        points = [known(total(each, NOW, NOW + 600))[0] for each in made]
        assert points == sorted(points)
        slow, fast = (
            known(total(Made(None, 10**7, speed=each).run(NOW, NOW + 900), NOW, NOW + 900)) for each in (10, 40)
        )
        assert slow[0] > 3 * fast[0]


class TestUnknown:
    def test_too_few_answers(self) -> None:
        made = Made()
        for number in range(5):
            eta = total(made, NOW, NOW + 100)
            assert (eta.point, eta.low, eta.high, eta.stalled) == (None, None, None, False)
            assert eta.why == "too few answers since the start"
            made.add(NOW + 20 + number, 500, 10.0)
        known(total(made, NOW, NOW + 100))

    def test_the_first_seconds(self) -> None:
        made = Made(mean=5).run(NOW, NOW + 9)
        assert made.done > 5
        assert total(made, NOW, NOW + 9).why == "it has only begun"

    def test_what_was_done_before_this_session_is_no_speed(self) -> None:
        made = Made().run(NOW - 3600, NOW)
        assert total(made, NOW, NOW + 30).why == "too few answers since the start"

    def test_a_start_amid_a_stretch_is_no_lack_of_answers(self) -> None:
        """The ten seconds in which a session starts are not measured, but a person sees what came in them."""
        made = Made()
        for number in range(39):
            made.add(NOW + 6 + number / 10, 50, 1.0)
        assert total(made, NOW + 5, NOW + 10).why == "it has only begun"
        made.add(NOW + 17, 50, 1.0)
        assert total(made, NOW + 5, NOW + 19).why == "it has only begun"

    def test_neither_prompts_nor_target(self) -> None:
        made = Made(prompts=None).run(NOW, NOW + 600)
        assert total(made, NOW, NOW + 600).why == "how much is left is not known"

    def test_one_of_which_nothing_is_known_makes_the_run_unknown(self) -> None:
        parts = [Made().run(NOW, NOW + 600).part(), Made(prompts=None).part(0)]
        found = forecast(parts, conditions(NOW), NOW + 600)
        assert found.total.point is None

    def test_a_finished_one_stays_finished(self) -> None:
        parts = [Made().part(), Made(prompts=2, done=2, tokens=9).part(0)]
        found = forecast(parts, conditions(NOW), NOW + 600)
        assert [each.point for each in found.parts] == [None, 0.0]


class TestStalled:
    def test_when_nothing_has_come_for_long(self) -> None:
        made = Made().run(NOW, NOW + 600)
        known(total(made, NOW, NOW + 660))
        eta = total(made, NOW, NOW + 1200)
        assert (eta.point, eta.stalled) == (None, True)
        assert eta.why is not None
        assert eta.why.startswith("no answer for 6")

    def test_a_pause_that_is_over_is_no_stall(self) -> None:
        made = Made().run(NOW, NOW + 600)
        known(total(made, NOW, NOW + 4030, moving_since=NOW + 4000))


class TestInterruptions:
    def steady(self) -> float:
        made = Made().run(NOW, NOW + 2400)
        return known(total(made, NOW, NOW + 2400))[0] / (4000 - made.done)

    def test_a_pause_is_no_slowness(self) -> None:
        made = Made().run(NOW, NOW + 1200).run(NOW + 9000, NOW + 10_200, seed=2)
        point, _, _ = known(total(made, NOW, NOW + 10_200, moving_since=NOW + 9000))
        assert point / (4000 - made.done) == pytest.approx(self.steady(), rel=0.06)

    def test_an_outage_that_no_event_tells_is_none_either(self) -> None:
        made = Made().run(NOW, NOW + 1200).run(NOW + 3000, NOW + 4200, seed=2)
        point, _, _ = known(total(made, NOW, NOW + 4200))
        assert point / (4000 - made.done) == pytest.approx(self.steady(), rel=0.06)

    def test_a_late_start_of_the_servers_is_none_either(self) -> None:
        made = Made().run(NOW + 900, NOW + 3300)
        point, _, _ = known(total(made, NOW, NOW + 3300))
        assert point / (4000 - made.done) == pytest.approx(self.steady(), rel=0.06)

    def test_a_slower_speed_counts_more_the_longer_it_lasts(self) -> None:
        made = Made(prompts=None, target=8_000_000).run(NOW, NOW + 3600)
        before = known(total(made, NOW, NOW + 3600))[0]
        made.speed = 10.0
        ratios = []
        for hours in (1, 2, 4):
            begin = NOW + 3600 * (1 if hours == 1 else 1 + hours // 2)
            made.run(begin, NOW + 3600 * (1 + hours), seed=hours)
            point = known(total(made, NOW, NOW + 3600 * (1 + hours)))[0]
            ratios.append(point * 16 / (8_000_000 - made.tokens))
        assert before * 16 / 8_000_000 < 1 / 18
        assert ratios == sorted(ratios)
        assert ratios[-1] == pytest.approx(1 / 10, rel=0.08)

    def test_a_speed_that_varies_makes_the_interval_wider(self) -> None:
        steady, rough = Made(prompts=None, target=10**7), Made(prompts=None, target=10**7)
        for number in range(12):
            steady.run(NOW + 600 * number, NOW + 600 * (number + 1), seed=number)
            rough.speed = 12.0 if number % 2 else 28.0
            rough.run(NOW + 600 * number, NOW + 600 * (number + 1), seed=number)
        spreads = []
        for made in (steady, rough):
            point, low, high = known(total(made, NOW, NOW + 7200))
            spreads.append((high - low) / point)
        assert spreads[1] > 1.5 * spreads[0]


class TestTail:
    def ending(self, in_flight: int, oldest_s: float | None = None) -> Eta:
        made = Made(slots=64).run(NOW, NOW + 1200)
        made.prompts = made.done + in_flight
        return forecast([made.part(in_flight)], conditions(NOW, 64, oldest_s=oldest_s), NOW + 1200).total

    def test_it_takes_as_long_as_the_longest_answer_not_as_the_sum(self) -> None:
        made = Made(slots=64).run(NOW, NOW + 1200)
        point, _, high = known(self.ending(60))
        assert 60 * 250 / (64 * 20) < point < 900 / 20
        assert high < 1.3 * 900 / 20
        assert made.done > 500

    def test_fewer_open_ones_end_sooner(self) -> None:
        points = [known(self.ending(count))[0] for count in (1, 4, 16, 60)]
        assert points == sorted(points)

    def test_the_age_of_the_oldest_is_known_work(self) -> None:
        young, old = (known(self.ending(1, oldest_s))[0] for oldest_s in (1.0, 40.0))
        assert old < young

    def test_beyond_everything_seen_it_still_says_something(self) -> None:
        known(self.ending(1, 500.0))


class TestSeveral:
    def test_side_by_side_they_end_together(self) -> None:
        a = Made(prompts=None, target=3_000_000, slots=24)
        b = Made(prompts=None, target=1_000_000, slots=8, mean=100)
        parts = [each.run(NOW, NOW + 1200, seed=each.slots).part() for each in (a, b)]
        found = forecast(parts, conditions(NOW, 32), NOW + 1200)
        points = [known(each)[0] for each in (*found.parts, found.total)]
        assert points == [pytest.approx((4_000_000 - a.tokens - b.tokens) / 640, rel=0.06)] * 3

    def test_who_waits_for_its_turn_ends_after_the_others(self) -> None:
        first, second = Made(target=1_000_000).run(NOW, NOW + 1200), Made(target=500_000)
        found = forecast([first.part(), second.part(0)], conditions(NOW), NOW + 1200)
        one, other, whole = (known(each)[0] for each in (*found.parts, found.total))
        assert other == whole
        assert other - one == pytest.approx(500_000 / 320, rel=0.1)
        spread = [known(each)[2] / known(each)[0] for each in found.parts]
        assert spread[1] > 1.0

    @pytest.mark.parametrize("seed", range(12))
    def test_any_mixture_has_an_interval_around_its_point(self, seed: int) -> None:
        chance = random.Random(seed)
        parts = []
        for _ in range(chance.randint(1, 6)):
            made = Made(
                prompts=chance.choice((None, 50, 700, 5000)),
                target=chance.choice((None, 0, 5000, 10**6)),
                mean=chance.choice((1, 30, 3000)),
                slots=chance.choice((1, 3, 40)),
                speed=chance.choice((0.5, 25.0, 3000.0)),
            )
            if chance.random() < 0.8:
                made.run(NOW, NOW + 200, seed=seed, most=60)
            if made.prompts is None and made.target is None:
                made.target = 10**5
            parts.append(made.part(chance.choice((None, 0, 1))))
        for now in (NOW + 201, NOW + 230):
            found = forecast(
                parts, conditions(NOW, chance.choice((1, 16, 300)), oldest_s=chance.choice((None, 3.0))), now
            )
            for eta in (found.total, *found.parts):
                if eta.point is None:
                    assert eta.why
                    assert (eta.low, eta.high) == (None, None)
                else:
                    known(eta)


def test_both_halves() -> None:
    one, other = Eta(10.0, 5.0, 20.0), Eta(12.0, 4.0, 15.0)
    assert later(one, other) == Eta(12.0, 5.0, 20.0)
    assert later(one, unknown("x")).why == later(unknown("x"), one).why == "x"
    assert later(DONE, one) == one


def test_storing() -> None:
    assert storing_eta(0.0, None, 0) == DONE
    assert storing_eta(None, 4.0, 9).why == "how much is to be stored is not known"
    assert storing_eta(10.0, 0.0, 9).why == storing_eta(10.0, None, 9).why == "nothing was stored of late"
    point, low, high = known(storing_eta(100.0, 4.0, 10_000))
    assert (point, low, high) == (25.0, pytest.approx(21.4, rel=0.02), pytest.approx(29.2, rel=0.02))
    assert known(storing_eta(100.0, 4.0, 3))[2] > 40


def test_it_changes_nothing() -> None:
    made = Made(target=10**6).run(NOW, NOW + 600)
    before = (replace(made.part()), dict(made.lengths.counts))
    one = total(made, NOW, NOW + 600)
    assert total(made, NOW, NOW + 600) == one
    assert (made.part(), made.lengths.counts) == before


def any_world(chance: random.Random) -> tuple[list[Part], Conditions, float]:
    """Data sets whose figures need not fit together: torn journals, answers of no token, clocks that jumped."""
    lasted = chance.choice([11.0, 60.0, 1000.0, 50_000.0])
    began, concurrency = NOW - lasted, chance.choice([1, 8, 256])
    parts = []
    for _ in range(chance.choice([1, 2, 3])):
        made = Made(mean=chance.choice([3, 500, 5000]), slots=chance.choice([0, 0, 1, concurrency]))
        of_nothing = chance.random() < 0.1
        for at in sorted(chance.random() * lasted for _ in range(chance.choice([0, 3, 6, 20, 200]))):
            tokens = 0 if of_nothing else 1 + int(chance.expovariate(1 / made.mean))
            made.add(began + at, tokens, chance.choice([0.0, 0.001 * tokens, 50 * chance.random() * tokens]))
        made.prompts = chance.choice([None, made.done, made.done + 3, 10 * made.done + 5, 100_000])
        made.target = chance.choice([None, None, 1, made.tokens + 1, 2 * made.tokens + 10, 10**9])
        parts.append(made.part())
    over = {
        "moving_since": began + chance.choice([0.0, chance.random() * lasted]),
        "oldest_s": chance.choice([None, 0.0, chance.random() * lasted, 1e6]),
        "longest": chance.choice([None, 1, 8192]),
    }
    return parts, conditions(began, concurrency, **over), NOW


@pytest.mark.parametrize("seed", range(8))
def test_whatever_the_figures_a_forecast_is_in_order_and_the_run_ends_with_its_last_part(seed: int) -> None:
    chance = random.Random(seed)
    told = 0
    for _ in range(60):
        found = forecast(*any_world(chance))
        for eta in (found.total, *found.parts):
            if eta.point is None:
                assert eta.why
                continue
            told += 1
            point, low, high = known(eta)
            assert math.isfinite(high)
            if found.total.point is not None:
                assert (found.total.point, found.total.low, found.total.high) >= (point, 0.0, 0.0)
                assert found.total.low is not None and found.total.low >= low
                assert found.total.high is not None and found.total.high >= high
    assert told > 20


@pytest.mark.parametrize(("slots", "mean", "left"), [(256, 80, 500), (256, 80, 2000), (64, 80, 1500), (32, 300, 1000)])
def test_a_few_long_answers_that_wait_for_another_try_do_not_end_the_run_before_the_rest(
    slots: int, mean: int, left: int
) -> None:
    """They have no slot just now, and slots full of them are not what the run ends with."""
    short = Made(mean=mean, slots=slots, speed=40.0).run(NOW, NOW + 1800)
    short.prompts = short.done + left + slots
    long = Made(mean=3000, slots=8, speed=40.0).run(NOW, NOW + 1800, seed=2)
    long.prompts = long.done + 3
    parts = [short.part(), long.part(in_flight=0)]
    point, _, high = known(forecast(parts, conditions(NOW, slots, oldest_s=3.0), NOW + 1800).total)
    of_the_short = (left + slots / 2) * mean / (slots * 40.0)
    assert point >= of_the_short * 0.9
    assert high < 20 * (of_the_short + 75.0), "no interval without an end"
