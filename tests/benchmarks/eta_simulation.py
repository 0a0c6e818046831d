"""Made-up runs at the speed of tokens: servers that share their speed among what they run, and all that goes wrong.

The scheduler's own rule says which data set gets a free slot, by the same weights as in the daemon; what is finished
goes into the same folds that a real run is read into. A run is a function of its scenario: no clock, seeded chance.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, cast

from contracts.eta import Conditions, Part, Work, remaining_tokens
from contracts.fold.lengths import Lengths
from contracts.fold.pace import Pace
from daemon.generate.scheduler import Scheduler

BEGIN: Final = 1_800_000_000.0
_WIGGLE_S: Final = 60.0
_NEVER: Final = math.inf


@dataclass(frozen=True)
class Incident:
    """Something that happens to a run: ``slow``, ``down`` (a server), ``pause``, ``restart``."""

    kind: str
    at: float
    """As a share of the time that the run takes without any incident."""
    lasts: float
    """As such a share too; `math.inf`: to the end."""
    factor: float = 1.0
    """Speed while it is slow."""
    server: int | None = None
    """None: all of them."""


@dataclass(frozen=True)
class SimSet:
    """A data set: how long its answers will be, and its target."""

    lengths: tuple[int, ...]
    target: int | None


@dataclass(frozen=True)
class SimServer:
    """Makes ``speed / (1 + n / knee)`` tokens a second for each of its n requests."""

    speed: float
    knee: float


@dataclass(frozen=True)
class Scenario:
    """One run."""

    kind: str
    seed: int
    sets: tuple[SimSet, ...]
    servers: tuple[SimServer, ...]
    concurrency: int
    longest: int
    incidents: tuple[Incident, ...] = ()
    in_sequence: bool = False
    """The prompts of a data set are ready only when those before have nothing left to send."""
    failing: float = 0.0
    """Share of attempts that are lost on their way."""
    start_s: float = 20.0
    """Seconds of a start in which nothing is sent."""
    wiggle: float = 0.05
    """Standard deviation of a server's speed from minute to minute."""


@dataclass(eq=False)
class Queue:
    """A data set at work; for the scheduler, one of its queues."""

    fresh: deque[int]
    prompts: int
    target: int | None
    before: Queue | None
    pace: Pace = field(default_factory=Pace)
    lengths: Lengths = field(default_factory=Lengths)
    times: Lengths = field(default_factory=Lengths)
    done: int = 0
    tokens: int = 0
    in_flight: int = 0
    weight: float = 1.0

    @property
    def work(self) -> Work:
        return Work(self.prompts, self.done, self.tokens if self.done else None, self.done, self.target)

    @property
    def finished(self) -> bool:
        return self.done >= self.prompts or (self.target is not None and self.tokens >= self.target)

    @property
    def exhausted(self) -> bool:
        return not self.fresh or self.finished

    def has_ready(self, now: float, suspects: bool) -> bool:
        return not self.exhausted and (self.before is None or self.before.exhausted)

    def refresh(self, typical: float) -> None:
        remaining = remaining_tokens(self.work)
        self.weight = max(remaining if remaining is not None else (self.prompts - self.done) * typical, 1.0)


@dataclass(eq=False)
class Open:
    """An open request."""

    queue: Queue
    tokens: int
    started: float
    lost: bool


class Server:
    """Requests that advance side by side, at a speed that depends on how many they are."""

    def __init__(self, made: SimServer) -> None:
        self._made = made
        self.open: list[tuple[float, int, Open]] = []
        self._factors: dict[Any, float] = {}
        self._factor = 1.0
        self.down = 0
        self._count = 0.0
        self._at = BEGIN

    @property
    def speed(self) -> float:
        """Tokens a second of each request."""
        return self._made.speed / (1 + len(self.open) / self._made.knee) * self._factor

    def set_factor(self, why: Any, factor: float) -> None:
        """Make everything slower or faster."""
        self._factors[why] = factor
        self._factor = math.prod(self._factors.values())

    def factor(self, why: Any) -> float:
        """Return what was set."""
        return self._factors.get(why, 1.0)

    def advance(self, now: float) -> None:
        """Let the time pass; to be called before anything changes."""
        self._count += (now - self._at) * self.speed if self.open else 0.0
        self._at = now

    def next_end(self) -> float:
        """Return when the next request ends if nothing changes."""
        if not self.open:
            return _NEVER
        return self._at + max(self.open[0][0] - self._count, 0.0) / self.speed

    def begin(self, request: Open, number: int, length: float) -> None:
        """Take a request."""
        heapq.heappush(self.open, (self._count + length, number, request))


@dataclass(frozen=True)
class Moment:
    """What could be known at one time."""

    now: float
    active: bool
    """Neither paused nor without a server."""
    parts: tuple[Part, ...]
    conditions: Conditions
    tokens: int
    remaining: float | None


class Simulation:
    """One run from start to end.

    Args:
        scenario: What happens.
        alone_s: How long it takes without incidents; None: this finds it out.
    """

    def __init__(self, scenario: Scenario, alone_s: float | None) -> None:
        self._scenario = scenario
        self._chance = random.Random(scenario.seed)
        self.queues: list[Queue] = []
        for each in scenario.sets:
            before = self.queues[-1] if scenario.in_sequence and self.queues else None
            self.queues.append(Queue(deque(each.lengths), len(each.lengths), each.target, before))
        self._servers = [Server(each) for each in scenario.servers]
        self._moments: list[tuple[float, int, str, Any]] = []
        self._number = 0
        self._blocked = 0
        self._paused = 0
        self._since = self._moving_since = BEGIN
        self.finished: list[tuple[float, int]] = []
        """When, and how many tokens."""
        self.idle: list[tuple[float, float]] = []
        """When nothing could be sent: paused, no daemon, no server."""
        self._idle_since: float | None = None
        self._at(BEGIN, "start", None)
        self._at(BEGIN, "wiggle", None)
        for incident in scenario.incidents if alone_s is not None else ():
            at = BEGIN + incident.at * cast(float, alone_s)
            self._at(at, "begin", incident)
            if incident.lasts < _NEVER:
                self._at(at + incident.lasts * cast(float, alone_s), "end", incident)

    def run(self, looks: list[float] | None = None) -> Iterator[Moment]:
        """Yield what could be known at the times to look at; ends when every data set is finished."""
        pending = deque(looks or ())
        now = BEGIN
        while not all(queue.finished for queue in self.queues):
            ends = [server.next_end() for server in self._servers]
            soonest = min(range(len(ends)), key=ends.__getitem__)
            then = min(ends[soonest], self._moments[0][0] if self._moments else _NEVER)
            while pending and pending[0] <= then:
                yield self._look(pending.popleft())
            if then == _NEVER:
                raise RuntimeError("the simulated run hangs")
            now = then
            if self._moments and self._moments[0][0] <= ends[soonest]:
                _, _, kind, incident = heapq.heappop(self._moments)
                for server in self._servers:
                    server.advance(now)
                self._happen(kind, incident, now)
                self._note_idle(now)
            else:
                self._end(self._servers[soonest], now)
            self._fill(now)

    @property
    def _active(self) -> bool:
        return not self._blocked and not self._paused and not all(server.down for server in self._servers)

    def _note_idle(self, now: float) -> None:
        if self._active and self._idle_since is not None:
            self.idle.append((self._idle_since, now))
            self._idle_since = None
        elif not self._active and self._idle_since is None:
            self._idle_since = now

    def _at(self, at: float, kind: str, incident: Any) -> None:
        self._number += 1
        heapq.heappush(self._moments, (at, self._number, kind, incident))

    def _end(self, server: Server, now: float) -> None:
        server.advance(now)
        _, _, request = heapq.heappop(server.open)
        queue = request.queue
        queue.in_flight -= 1
        if request.lost:
            queue.fresh.append(request.tokens)
            return
        queue.done += 1
        queue.tokens += request.tokens
        queue.lengths.add([request.tokens])
        open_ms = int((now - request.started) * 1000)
        queue.times.add([open_ms // 100])
        queue.pace.add(now, 1, request.tokens, request.tokens, open_ms)
        self.finished.append((now, request.tokens))

    def _fill(self, now: float) -> None:
        if self._blocked or self._paused:
            return
        usable = [server for server in self._servers if not server.down]
        room = self._scenario.concurrency - sum(len(server.open) for server in self._servers)
        if room <= 0 or not usable:
            return
        done = sum(queue.done for queue in self.queues)
        typical = sum(queue.tokens for queue in self.queues) / done if done else float(self._scenario.longest)
        for queue in self.queues if len(self.queues) > 1 else ():
            queue.refresh(typical)
        while room > 0:
            server = min(usable, key=lambda each: len(each.open))
            queue = cast(Any, Scheduler._next_queue)(None, self.queues, now, True)
            if queue is None:
                return
            tokens = queue.fresh.popleft()
            queue.in_flight += 1
            self._number += 1
            lost = self._chance.random() < self._scenario.failing
            server.advance(now)
            length = tokens * self._chance.random() if lost else tokens
            server.begin(Open(queue, tokens, now, lost), self._number, length)
            room -= 1

    def _happen(self, kind: str, incident: Incident | None, now: float) -> None:
        if kind == "start":
            self._since = self._moving_since = now
            self._blocked += 1
            self._at(now + self._scenario.start_s, "started", None)
        elif kind == "started":
            self._blocked -= 1
        elif kind == "wiggle":
            for server in self._servers:
                old = math.log(server.factor("wiggle"))
                server.set_factor("wiggle", math.exp(0.7 * old + self._chance.gauss(0.0, 0.71 * self._scenario.wiggle)))
            self._at(now + _WIGGLE_S, "wiggle", None)
        elif incident is not None:
            self._incident(incident, kind == "begin", now)

    def _incident(self, incident: Incident, begins: bool, now: float) -> None:
        touched = self._servers if incident.server is None else [self._servers[incident.server]]
        if incident.kind == "slow":
            for server in touched:
                server.set_factor(id(incident), incident.factor if begins else 1.0)
        elif incident.kind == "down":
            for server in touched:
                server.down += 1 if begins else -1
                if begins:
                    self._lose(server)
        elif incident.kind == "pause":
            self._paused += 1 if begins else -1
            self._moving_since = self._moving_since if begins else now
        elif incident.kind == "restart" and begins:
            self._blocked += 1
            for server in touched:
                self._lose(server)
        elif incident.kind == "restart":
            self._blocked -= 1
            self._happen("start", None, now)

    def _lose(self, server: Server) -> None:
        """What a server has open is sent again: its tokens are lost."""
        for _, _, request in server.open:
            request.queue.in_flight -= 1
            request.queue.fresh.appendleft(request.tokens)
        server.open.clear()

    def _look(self, now: float) -> Moment:
        oldest = min((request.started for server in self._servers for _, _, request in server.open), default=None)
        works = [queue.work for queue in self.queues]
        left = [remaining_tokens(work) for work in works]
        return Moment(
            now=now,
            active=self._active,
            parts=tuple(
                Part(work, queue.pace, queue.lengths, queue.times, queue.in_flight)
                for work, queue in zip(works, self.queues, strict=True)
            ),
            conditions=Conditions(
                since=self._since,
                moving_since=self._moving_since,
                concurrency=self._scenario.concurrency,
                oldest_s=None if oldest is None else now - oldest,
                longest=self._scenario.longest,
            ),
            tokens=sum(queue.tokens for queue in self.queues),
            remaining=None if None in left else sum(cast(list[float], left)),
        )
