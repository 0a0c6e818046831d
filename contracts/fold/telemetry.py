"""The newest telemetry of each kind, read from the end of its file, and what was before it, read when asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec

from contracts.fold.series import TelemetrySeries
from contracts.journal.stale import retry_stale
from contracts.records import GpuSample, Heartbeat, HostSample, ServerSample
from contracts.run_dir import RunDir
from contracts.shapes.values import printable

Sample = TypeVar("Sample", bound=msgspec.Struct)

_TAIL_BYTES: Final = 128 * 1024


@dataclass(frozen=True)
class Garbled:
    """The last lines of a telemetry file, when they fit no known shape."""

    path: Path
    count: int
    offset: int
    """Of the last of them, in bytes."""
    why: str


class Newest(Generic[Sample]):
    """The last whole record of one telemetry file. A rotation or a torn line leaves the one before in place.

    `garbled` says when what was written after it cannot be read: then the sample is old, whatever the file grows.
    """

    def __init__(self, path: Path, shape: type[Sample]) -> None:
        self.path = path
        self.sample: Sample | None = None
        self.garbled: Garbled | None = None
        self._decoder = msgspec.json.Decoder(shape)
        self._seen: tuple[int, int] | None = None

    def poll(self) -> bool:
        """Look at the end of the file when it changed; return whether there is a newer sample."""
        try:
            stat = retry_stale("stat", self.path, self.path.stat)
        except FileNotFoundError:
            self.garbled = None
            return False
        if (stat.st_ino, stat.st_size) == self._seen:
            return False
        self._seen = (stat.st_ino, stat.st_size)
        before, self.garbled = self.sample, None
        for offset, line in _last_lines(self.path, stat.st_size):
            if not line.strip():
                continue
            try:
                self.sample = self._decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                newest = self.garbled or Garbled(self.path, 0, offset, printable(str(error)))
                self.garbled = Garbled(self.path, newest.count + 1, newest.offset, newest.why)
                continue
            break
        return self.sample != before


class TelemetryFold:
    """The newest of all four kinds."""

    def __init__(self, run: RunDir) -> None:
        self._run = run
        self._series: TelemetrySeries | None = None
        self._gpu = Newest(run.telemetry_file("gpu"), GpuSample)
        self._host = Newest(run.telemetry_file("host"), HostSample)
        self._server = Newest(run.telemetry_file("server"), ServerSample)
        self._heartbeat = Newest(run.telemetry_file("daemon"), Heartbeat)

    def poll(self) -> bool:
        """Read what is new; return whether there was anything."""
        return sum(newest.poll() for newest in (self._gpu, self._host, self._server, self._heartbeat)) > 0

    def garbled(self) -> list[Garbled]:
        """Return of which files the newest lines fit no known shape."""
        kinds = (self._gpu, self._host, self._server, self._heartbeat)
        return [newest.garbled for newest in kinds if newest.garbled is not None]

    @property
    def series(self) -> TelemetrySeries:
        """Quantities over time. `poll` reads nothing for it: who asks for a stretch of time has its lines read."""
        if self._series is None:
            self._series = TelemetrySeries(self._run)
        return self._series

    @property
    def gpu(self) -> GpuSample | None:
        """GPUs."""
        return self._gpu.sample

    @property
    def host(self) -> HostSample | None:
        """Host."""
        return self._host.sample

    @property
    def server(self) -> ServerSample | None:
        """Servers."""
        return self._server.sample

    @property
    def heartbeat(self) -> Heartbeat | None:
        """The daemon."""
        return self._heartbeat.sample


def _last_lines(path: Path, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, line) of the whole lines at the end of a file, the last one first."""
    start = max(0, size - _TAIL_BYTES)

    def read() -> bytes:
        with path.open("rb") as file:
            file.seek(start)
            return file.read(_TAIL_BYTES)

    try:
        tail = retry_stale("read", path, read)
    except FileNotFoundError:
        return
    end = tail.rfind(b"\n")
    while end >= 0:
        begin = tail.rfind(b"\n", 0, end)
        if begin < 0 and start > 0:
            return  # the rest of a line that begins before the part that was read
        yield start + begin + 1, tail[begin + 1 : end]
        end = begin
