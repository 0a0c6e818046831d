"""The newest telemetry of each kind, read from the end of its file."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec

from contracts.journal.stale import retry_stale
from contracts.records import GpuSample, Heartbeat, HostSample, ServerSample
from contracts.run_dir import RunDir

Sample = TypeVar("Sample", bound=msgspec.Struct)

_TAIL_BYTES: Final = 128 * 1024


class Newest(Generic[Sample]):
    """The last whole record of one telemetry file. A rotation or a torn line leaves the one before in place."""

    def __init__(self, path: Path, shape: type[Sample]) -> None:
        self.path = path
        self.sample: Sample | None = None
        self._decoder = msgspec.json.Decoder(shape)
        self._seen: tuple[int, int] | None = None

    def poll(self) -> bool:
        """Look at the end of the file when it changed; return whether there is a newer sample."""
        try:
            stat = retry_stale("stat", self.path, self.path.stat)
        except FileNotFoundError:
            return False
        if (stat.st_ino, stat.st_size) == self._seen:
            return False
        self._seen = (stat.st_ino, stat.st_size)
        for line in reversed(_last_lines(self.path, stat.st_size)):
            try:
                self.sample = self._decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            return True
        return False


class TelemetryFold:
    """The newest of all four kinds."""

    def __init__(self, run: RunDir) -> None:
        self._gpu = Newest(run.telemetry_file("gpu"), GpuSample)
        self._host = Newest(run.telemetry_file("host"), HostSample)
        self._server = Newest(run.telemetry_file("server"), ServerSample)
        self._heartbeat = Newest(run.telemetry_file("daemon"), Heartbeat)

    def poll(self) -> bool:
        """Read what is new; return whether there was anything."""
        return sum(newest.poll() for newest in (self._gpu, self._host, self._server, self._heartbeat)) > 0

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


def _last_lines(path: Path, size: int) -> list[bytes]:
    def read() -> bytes:
        with path.open("rb") as file:
            file.seek(max(0, size - _TAIL_BYTES))
            return file.read(_TAIL_BYTES)

    try:
        tail = retry_stale("read", path, read)
    except FileNotFoundError:
        return []
    whole = tail[: tail.rfind(b"\n") + 1]
    return whole.splitlines()
