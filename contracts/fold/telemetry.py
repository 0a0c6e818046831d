"""The newest telemetry of each kind, read from the end of its file, and what was before it, read when asked for."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec

from contracts.fold.series import TelemetrySeries
from contracts.journal.extent import Extent, whole
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

    def __init__(self, path: Path, shape: type[Sample], extent: Extent = whole) -> None:
        self.path = path
        self._extent = extent
        self.sample: Sample | None = None
        self.garbled: Garbled | None = None
        self._decoder = msgspec.json.Decoder(shape)
        self._seen: tuple[int, int] | None = None

    def poll(self) -> bool:
        """Look at the end of the file when it changed; return whether there is a newer sample."""
        found = self._newest_file()
        if found is None:
            self.garbled = None
            return False
        path, inode, size = found
        if (inode, size) == self._seen:
            return False
        self._seen = (inode, size)
        before, self.garbled = self.sample, None
        for offset, line in _last_lines(path, size):
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

    def _newest_file(self) -> tuple[Path, int, int] | None:
        """Return the file to look at with its inode and how much of it counts; None: there is none.

        Of the past what was rotated since may be the newest that counts.
        """
        for number in itertools.count():
            path = self.path.with_name(f"{self.path.name}.{number}") if number else self.path
            try:
                stat = retry_stale("stat", path, path.stat)
            except FileNotFoundError:
                if number or self._extent is whole:
                    return None
                continue  # it was rotated just now
            size = self._extent(path, stat.st_size)
            if size or self._extent is whole:
                return path, stat.st_ino, size
        return None


class TelemetryFold:
    """The newest of all four kinds.

    Args:
        run: Where the files are.
        extent: How much of each counts.
    """

    def __init__(self, run: RunDir, extent: Extent = whole) -> None:
        self._run = run
        self._extent = extent
        self._series: TelemetrySeries | None = None
        self._gpu = Newest(run.telemetry_file("gpu"), GpuSample, extent)
        self._host = Newest(run.telemetry_file("host"), HostSample, extent)
        self._server = Newest(run.telemetry_file("server"), ServerSample, extent)
        self._heartbeat = Newest(run.telemetry_file("daemon"), Heartbeat, extent)

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
            self._series = TelemetrySeries(self._run, self._extent)
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
            return file.read(min(_TAIL_BYTES, size - start))

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
