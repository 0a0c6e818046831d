"""Once a second: a sample from every collector and a heartbeat, each appended to its file. Never stops the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from contracts.clock import Clock
from contracts.records import GpuSample, Heartbeat, HostSample, ServerSample, encode_line
from daemon.telemetry.lane import Lane
from daemon.telemetry.rotation import RotatingAppender

HANGING_S: Final = 15.0
"""How long a call may be open before `Telemetry.problems` names it."""

_Sample = TypeVar("_Sample", bound=msgspec.Struct)
_Made = TypeVar("_Made", bound=msgspec.Struct, covariant=True)


class Collector(Protocol[_Made]):
    """Something that can be sampled, by one thread at a time; it may block, and it may hang."""

    def sample(self, at: float) -> _Made:
        """Return the sample for ``at``, steady Unix seconds."""


class Telemetry:
    """Samples GPUs, host and servers, and writes the daemon's heartbeat. Used on the event loop only.

    Each collector runs in a thread of its own with at most one call open, and so does each file: a driver, a server or
    a disk that hangs costs its own samples, holds up no other, and not the end of the process either.
    """

    def __init__(
        self,
        *,
        gpu: Collector[GpuSample] | None,
        host: Collector[HostSample],
        server: Collector[ServerSample],
        heartbeat: Callable[[], Heartbeat],
        appenders: Mapping[str, RotatingAppender],
        clock: Clock,
        interval_s: float = 1.0,
    ) -> None:
        """Start nothing yet.

        Args:
            gpu: None: this run does not watch GPUs.
            host: The machine.
            server: The SGLang servers.
            heartbeat: Called on the event loop at each tick.
            appenders: The files, by ``gpu``, ``host``, ``server``, ``daemon``.
            clock: Gives the samples their times.
            interval_s: Seconds from tick to tick.
        """
        self._heartbeat = heartbeat
        self._appenders = appenders
        self._clock = clock
        self._interval_s = interval_s
        self._beat: Heartbeat | None = None
        self._gpu = None if gpu is None else _Stream("gpu", gpu, appenders["gpu"])
        self._host = _Stream("host", host, appenders["host"])
        self._server = _Stream("server", server, appenders["server"])
        self._beats = Lane("daemon", self._write_beat)

    async def run(self) -> None:
        """Tick until cancelled; a tick that was missed is left out, not made up for."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            self.tick()
            due = max(due + self._interval_s, loop.time())
            await asyncio.sleep(due - loop.time())

    def tick(self) -> None:
        """Begin one round: make the heartbeat, and start every collector whose last call is done."""
        at = self._clock.now()
        if self._beats.open_since() is None:
            self._beat = self._heartbeat()
            self._beats.start(at)
        for lane in self._sampling():
            lane.start(at)

    def wait(self, timeout_s: float) -> bool:
        """Block until what is being sampled and written is done; False when something still is after ``timeout_s``."""
        deadline = self._clock.mono() + timeout_s
        return all(lane.wait(max(0.0, deadline - self._clock.mono())) for lane in (self._beats, *self._sampling()))

    @property
    def gpu(self) -> GpuSample | None:
        """The last sample; its ``at`` tells its age. None before the first, and when GPUs are not watched."""
        return None if self._gpu is None else self._gpu.latest

    @property
    def host(self) -> HostSample | None:
        """The last sample; its ``at`` tells its age."""
        return self._host.latest

    @property
    def server(self) -> ServerSample | None:
        """The last sample; its ``at`` tells its age."""
        return self._server.latest

    @property
    def dropped(self) -> int:
        """Lines that could not be written, over all files."""
        return sum(appender.dropped for appender in self._appenders.values())

    @property
    def problems(self) -> list[str]:
        """What is wrong now, in sentences: files that can't be written, calls that don't come back."""
        now = self._clock.now()
        found = [appender.problem for appender in self._appenders.values() if appender.problem is not None]
        for lane in (self._beats, *self._sampling()):
            since = lane.open_since()
            if since is not None and now - since >= HANGING_S:
                found.append(f"telemetry of {lane.name} has not come back for {now - since:.0f} s")
        return found

    def _sampling(self) -> list[Lane[None]]:
        streams = (self._host.lane, self._server.lane)
        return list(streams) if self._gpu is None else [self._gpu.lane, *streams]

    def _write_beat(self, at: float) -> None:
        if self._beat is not None:
            self._appenders["daemon"].append(encode_line(self._beat))


class _Stream(Generic[_Sample]):
    """One collector with its file and its thread."""

    def __init__(self, kind: str, collector: Collector[_Sample], appender: RotatingAppender) -> None:
        self._collector = collector
        self._appender = appender
        self.lane = Lane(kind, self._job)
        self.latest: _Sample | None = None

    def _job(self, at: float) -> None:
        sample = self._collector.sample(at)
        self.latest = sample
        self._appender.append(encode_line(sample))
