"""The SGLang servers: one `ServerSample` a call, from /v1/loads, and from /metrics where that does not tell.

/health is not asked: it runs a forward pass, says 503 in a long prefill, and 200 on a server that generates nothing.
A server is ``ok`` when any endpoint tells something; whether it gets anywhere shows in the answers to our
requests, whose times the daemon adds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from contracts.records import ServerReading, ServerSample
from contracts.sglang import Loads
from daemon.servers.info import ServerControl, ServerUnreachable
from daemon.servers.standing import Standing
from daemon.telemetry.lane import Lane

PATIENCE_S: Final = 0.8
"""How long one sample waits for the slowest server: the others still come once a second."""
GIVE_UP_S: Final = 10.0
"""How long a server that has not answered yet keeps the state it had."""
ASK_AGAIN_S: Final = 60.0
"""How long an endpoint that a server does not have is left alone: each try is a line in that server's log."""
IDENTITY_S: Final = 30.0
"""How long a server's model and version are taken for known."""

_LOADS: Final = "/v1/loads"
_METRICS: Final = "/metrics"

_Value = TypeVar("_Value")


class ServerCollector:
    """Samples every server, each in a thread of its own so that a hanging one does not hold up the others."""

    def __init__(
        self,
        controls: Sequence[ServerControl],
        standing: Callable[[str], Standing],
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Ask nothing yet.

        Args:
            controls: One for each server, in the order in which they are to be shown.
            standing: Server URL -> what this daemon knows of it itself; called from the sampling thread.
            patience_s: How long a sample waits for the slowest server.
        """
        self._controls = controls
        self._standing = standing
        self.patience_s = patience_s
        self._lanes = [Lane(control.url, _Probe(control).read) for control in controls]
        self._states = ["unknown"] * len(controls)

    def sample(self, at: float) -> ServerSample:
        """Return the readings at ``at`` (steady Unix seconds); what a server has not told yet is None."""
        for lane in self._lanes:
            lane.start(at)
        deadline = time.monotonic() + self.patience_s
        servers = []
        for number, (control, lane) in enumerate(zip(self._controls, self._lanes, strict=True)):
            lane.wait(max(0.0, deadline - time.monotonic()))
            reading = lane.take() or self._waiting(number, at)
            self._states[number] = reading.state
            _tell(reading, self._standing(control.url))
            servers.append(reading)
        return ServerSample(at=at, servers=servers)

    def _waiting(self, number: int, at: float) -> ServerReading:
        since = self._lanes[number].open_since()
        waited_s = 0.0 if since is None else at - since
        return ServerReading(
            url=self._controls[number].url,
            state=self._states[number] if waited_s < GIVE_UP_S else "unknown",
            reason=f"no answer yet, asked {waited_s:.0f} s ago",
        )


class _Probe:
    """Reads one server; keeps what does not change while it is up."""

    def __init__(self, control: ServerControl) -> None:
        self._control = control
        self._absent_until: dict[str, float] = {}
        self._model: str | None = None
        self._version: str | None = None
        self._identity_until = 0.0

    def read(self, at: float) -> ServerReading:
        reading = ServerReading(url=self._control.url, state="unknown")
        silent: ServerUnreachable | None = None
        for part in (self._from_loads, self._from_metrics, self._identity):
            try:
                part(reading, at)
            except ServerUnreachable as error:
                if not error.timed_out:
                    self._forget()
                    return ServerReading(url=self._control.url, state="down", reason=error.why)
                silent = error  # a long prefill looks like this too, and another endpoint may still answer
        reading.model, reading.version = self._model, self._version
        problems = self._control.problems
        if silent is not None:
            reading.reason = f"took the connection, then {silent.why}: busy or hanging"
        elif problems:
            reading.reason = problems[0]
        elif reading.state != "ok":
            reading.reason = "none of SGLang's endpoints is there: is this an SGLang server?"
        return reading

    def _forget(self) -> None:
        """What comes back after a server was down may be another version with another model."""
        self._model = self._version = None
        self._absent_until.clear()

    def _from_loads(self, reading: ServerReading, at: float) -> None:
        if not self._is_due(_LOADS, at):
            return
        loads = self._control.loads()
        if loads is None:
            self._leave_alone_if_missing(_LOADS, at)
            return
        reading.state = "ok"
        self._version = loads.version or self._version
        _fill(reading, loads)

    def _from_metrics(self, reading: ServerReading, at: float) -> None:
        counts = (reading.running, reading.queued, reading.retracted)
        rates = (reading.tokens_per_s, reading.kv_usage_pct, reading.cache_hit_pct)
        if None not in (*counts, *rates) or not self._is_due(_METRICS, at):
            return
        metrics = self._control.metrics()
        if metrics is None:
            self._leave_alone_if_missing(_METRICS, at)
            return
        reading.state = "ok"
        reading.running = _kept(reading.running, _whole(metrics.get("running")))
        reading.queued = _kept(reading.queued, _whole(metrics.get("queued")))
        reading.retracted = _kept(reading.retracted, _whole(metrics.get("retracted")))
        reading.tokens_per_s = _kept(reading.tokens_per_s, metrics.get("tokens_per_s"))
        reading.kv_usage_pct = _kept(reading.kv_usage_pct, _percent(metrics.get("kv_usage")))
        reading.cache_hit_pct = _kept(reading.cache_hit_pct, _percent(metrics.get("cache_hit")))

    def _identity(self, reading: ServerReading, at: float) -> None:
        """Ask who it is, now and then: another one may have come between two readings; and where nothing else tells
        that it is there."""
        known = self._model is not None and reading.state == "ok"
        if known and at < self._identity_until:
            return
        model = self._control.model_info()
        if model is None:
            return
        reading.state, self._identity_until = "ok", at + IDENTITY_S
        self._model = model.served_model_name or model.model_path
        if self._version is None or known:
            info = self._control.server_info()
            self._version = self._version if info is None or info.version is None else info.version

    def _is_due(self, path: str, at: float) -> bool:
        return at >= self._absent_until.get(path, at)

    def _leave_alone_if_missing(self, path: str, at: float) -> None:
        if path in self._control.missing:
            self._absent_until[path] = at + ASK_AGAIN_S


def _tell(reading: ServerReading, standing: Standing) -> None:
    """Add what the daemon knows; whatever the server says of itself, one that gets no work is not ok."""
    reading.outstanding = standing.outstanding
    reading.last_answer_s, reading.silent_s = _rounded(standing.last_answer_s), _rounded(standing.silent_s)
    if standing.held is not None and reading.state != "down":
        reading.state, reading.reason = standing.held


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def _fill(reading: ServerReading, loads: Loads) -> None:
    """Take counts and rates as sums over DP ranks, shares as their mean; None where one rank does not tell."""
    ranks = loads.loads
    reading.running = _whole(_sum(rank.num_running_reqs for rank in ranks))
    reading.queued = _whole(_sum(rank.num_waiting_reqs for rank in ranks))
    reading.retracted = _whole(_sum(None if rank.queues is None else rank.queues.retracted for rank in ranks))
    reading.tokens_per_s = _sum(rank.gen_throughput for rank in ranks)
    reading.kv_usage_pct = _percent(_mean([rank.token_usage for rank in ranks]))
    reading.cache_hit_pct = _percent(_mean([rank.cache_hit_rate for rank in ranks]))


def _sum(values: Iterable[float | None]) -> float | None:
    known = list(values)
    if not known:
        return None
    total = 0.0
    for value in known:
        if value is None:
            return None
        total += value
    return total


def _mean(values: Sequence[float | None]) -> float | None:
    total = _sum(values)
    return None if total is None else total / len(values)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _percent(share: float | None) -> float | None:
    return None if share is None else 100.0 * share


def _kept(first: _Value | None, second: _Value | None) -> _Value | None:
    return second if first is None else first
