"""A few made-up runs through the simulator: the time left is about right, and nearer than simple ways get."""

from __future__ import annotations

import statistics

import pytest

from contracts.eta import Work
from tests.benchmarks import eta, eta_scenarios
from tests.benchmarks.eta_simulation import BEGIN, Incident, Scenario, SimServer, SimSet, Simulation


def errors(looks: list[eta.Look], told: str) -> float:
    return statistics.median(
        abs(value - look.left_s) / look.left_s for look in looks if (value := getattr(look, told)) is not None
    )


@pytest.mark.parametrize("kind", [eta_scenarios.target, eta_scenarios.mixed, eta_scenarios.restart])
def test_close_to_the_truth_and_closer_than_simple_ways(kind: eta.Kind) -> None:
    looks = [look for seed in (3, 4) for look in eta.looks_at(kind(seed), 12)]
    assert errors(looks, "point") < 0.12
    assert errors(looks, "point") < errors(looks, "tqdm")
    told = [(look.low, look.left_s, look.high) for look in looks if look.low is not None and look.high is not None]
    assert len(told) > 0.8 * len(looks)
    assert sum(low <= left_s <= high for low, left_s, high in told) > 0.5 * len(told)


def test_the_same_seed_gives_the_same_run() -> None:
    assert eta.looks_at(eta_scenarios.outage(1), 3) == eta.looks_at(eta_scenarios.outage(1), 3)


def small(**over: object) -> Scenario:
    values = {"sets": (SimSet((100,) * 40, None),), "servers": (SimServer(20.0, 4.0),), "wiggle": 0.0, "start_s": 0.0}
    return Scenario("small", 1, concurrency=4, longest=200, **(values | over))  # type: ignore[arg-type]


def end(scenario: Scenario, alone_s: float | None = None) -> float:
    simulation = Simulation(scenario, alone_s)
    list(simulation.run())
    assert [queue.work for queue in simulation.queues] == [Work(40, 40, 4000, 40, None)]
    return simulation.finished[-1][0] - BEGIN


class TestSimulator:
    def test_four_slots_at_half_speed_each(self) -> None:
        assert end(small()) == pytest.approx(4000 / (4 * 10))

    def test_slower_for_half_of_the_time(self) -> None:
        slow = small(incidents=(Incident("slow", 0.5, 0.5, 0.5),))
        assert end(slow, 100.0) == pytest.approx(125.0)

    def test_an_outage_costs_what_was_open(self) -> None:
        down = small(incidents=(Incident("down", 0.55, 0.1),))
        assert end(down, 100.0) == pytest.approx(100 + 10 + 5)

    def test_a_pause_lets_the_open_ones_end(self) -> None:
        paused = small(incidents=(Incident("pause", 0.55, 0.5),))
        assert 100 + 40 < end(paused, 100.0) < 100 + 50

    def test_a_restart_loses_them_and_begins_a_session(self) -> None:
        restarted = small(incidents=(Incident("restart", 0.55, 0.2),))
        assert end(restarted, 100.0) == pytest.approx(100 + 20 + 5)
