"""The kinds of made-up runs that the remaining time is judged by, each drawn from a seed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tests.benchmarks.eta_simulation import Incident, Scenario, SimServer, SimSet

Draw = Callable[[random.Random], int]


def _lognormal(chance: random.Random, longest: int) -> Draw:
    median, sigma = chance.uniform(150, 1500), chance.uniform(0.5, 1.1)

    def draw(source: random.Random) -> int:
        return max(1, min(int(source.lognormvariate(math.log(median), sigma)), longest))

    return draw


def _bimodal(chance: random.Random, longest: int) -> Draw:
    """Short answers, and long ones with a thinking part."""
    short, long = _lognormal(chance, longest), chance.uniform(2000, 5000)
    share, sigma = chance.uniform(0.15, 0.6), chance.uniform(0.2, 0.5)

    def draw(source: random.Random) -> int:
        if source.random() >= share:
            return short(source)
        return max(1, min(int(source.lognormvariate(math.log(long), sigma)), longest))

    return draw


def _sets(chance: random.Random, count: int, concurrency: int, targets: Callable[[int], bool]) -> tuple[SimSet, ...]:
    answers = min(max(int(concurrency * chance.uniform(10, 50)), 500), 5000)
    shares = [chance.uniform(0.3, 1.0) for _ in range(count)]
    made = []
    for index, share in enumerate(shares):
        draw = chance.choice((_lognormal, _bimodal))(chance, 8192)
        number = max(int(answers * share / sum(shares)), 20)
        lengths = tuple(draw(chance) for _ in range(number))
        target = None
        if targets(index):
            target = int(sum(lengths))
            lengths += tuple(draw(chance) for _ in range(number // 2 + 2 * concurrency))
        made.append(SimSet(lengths, target))
    return tuple(made)


def _plain(kind: str, seed: int, least_sets: int, most_sets: int, targets: Callable[[int], bool]) -> Scenario:
    chance = random.Random(f"{kind}/{seed}")
    concurrency = chance.choice((16, 32, 64, 128, 256))
    server = SimServer(chance.uniform(40, 120), chance.uniform(0.15, 0.6) * concurrency)
    servers = (server,) * chance.choice((1, 1, 2))
    sets = _sets(chance, chance.randint(least_sets, most_sets), concurrency, targets)
    return Scenario(kind, seed, sets, servers, concurrency, longest=8192)


def _all(index: int) -> bool:
    return True


def _none(index: int) -> bool:
    return False


def _even(index: int) -> bool:
    return index % 2 == 0


def target(seed: int) -> Scenario:
    """One data set with a target."""
    return _plain("target", seed, 1, 1, _all)


def prompts(seed: int) -> Scenario:
    """One data set, every prompt of it: a long tail at the end."""
    return _plain("all prompts", seed, 1, 1, _none)


def mixed_targets(seed: int) -> Scenario:
    """Several data sets side by side, each with its target."""
    return _plain("mixed, targets", seed, 2, 10, _all)


def mixed(seed: int) -> Scenario:
    """Several side by side, some with a target, some to the last prompt."""
    return _plain("mixed, both", seed, 2, 10, _even)


def sequence(seed: int) -> Scenario:
    """Several, one after another."""
    return replace(_plain("in sequence", seed, 2, 6, _even if seed % 2 else _all), in_sequence=True)


def uneven(seed: int) -> Scenario:
    """Servers of different speed."""
    made = _plain("uneven servers", seed, 1, 4, _even if seed % 2 else _none)
    chance = random.Random(f"uneven/{seed}")
    fast = made.servers[0]
    return replace(made, servers=(fast, SimServer(fast.speed * chance.uniform(0.35, 0.7), fast.knee / 2)))


def _any(kind: str, seed: int) -> tuple[Scenario, random.Random]:
    targets = (_all, _none, _even)[seed % 3]
    return _plain(kind, seed, 1, 4, targets), random.Random(f"{kind}/what/{seed}")


def slowdown(seed: int) -> Scenario:
    """Slower for a while (half of the runs), or from some time on."""
    made, chance = _any("slow-downs", seed)
    factor = chance.uniform(0.4, 0.75)
    if seed % 2:
        return replace(made, incidents=(Incident("slow", chance.uniform(0.05, 0.7), math.inf, factor),))
    incidents = tuple(
        Incident("slow", chance.uniform(0.0, 0.9), chance.uniform(0.03, 0.2), factor)
        for _ in range(chance.randint(1, 3))
    )
    return replace(made, incidents=incidents)


def outage(seed: int) -> Scenario:
    """A server dies and comes back: one of two, or the only one."""
    made, chance = _any("outages", seed)
    if seed % 2:
        made = replace(made, servers=made.servers[:1] * 2)
    incidents = tuple(
        Incident("down", chance.uniform(0.05, 0.8), chance.uniform(0.02, 0.15), server=0 if seed % 2 else None)
        for _ in range(chance.randint(1, 2))
    )
    return replace(made, incidents=incidents)


def pause(seed: int) -> Scenario:
    """Paused by a person, for a little or for as long as the run takes."""
    made, chance = _any("pauses", seed)
    incidents = tuple(
        Incident("pause", chance.uniform(0.05, 0.8), chance.uniform(0.02, 1.0)) for _ in range(chance.randint(1, 3))
    )
    return replace(made, incidents=incidents)


def restart(seed: int) -> Scenario:
    """The daemon is killed and started again, at times after as long as the run takes."""
    made, chance = _any("restarts", seed)
    incidents = tuple(
        Incident("restart", chance.uniform(0.05, 0.8), chance.choice((0.01, 0.05, 1.0)))
        for _ in range(chance.randint(1, 3))
    )
    return replace(made, incidents=incidents)


def failing(seed: int) -> Scenario:
    """Some attempts are lost and made again."""
    made, chance = _any("lost attempts", seed)
    return replace(made, failing=chance.uniform(0.02, 0.15))


KINDS: Final[tuple[Callable[[int], Scenario], ...]] = (
    target,
    prompts,
    mixed_targets,
    mixed,
    sequence,
    uneven,
    slowdown,
    outage,
    pause,
    restart,
    failing,
)
