"""The telemetry of one run: which collectors, which files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from contracts.clock import Clock
from contracts.disks import DUMPS, RUN, SHM, STORE
from contracts.records import Heartbeat
from contracts.run_config import RunConfig
from contracts.run_dir import RunDir
from contracts.run_place import RunPlace
from daemon.servers.pool import ServerPool
from daemon.telemetry.gpu import GpuCollector
from daemon.telemetry.host import HostCollector
from daemon.telemetry.loop import Telemetry
from daemon.telemetry.rotation import RotatingAppender
from daemon.telemetry.server import ServerCollector


def make_telemetry(
    run: RunDir,
    config: RunConfig,
    pool: ServerPool,
    heartbeat: Callable[[], Heartbeat],
    clock: Clock,
    place: RunPlace,
) -> Telemetry:
    """Return a run's telemetry, not started.

    Args:
        run: Where its files go.
        config: ``[telemetry]`` says how often, and whether GPUs are watched.
        pool: The servers to ask.
        heartbeat: Makes the daemon's own line.
        clock: Gives the times.
        place: The run folder. Telemetry goes along where it is moved to: the heartbeat says there what is wrong.
    """
    settings = config.telemetry
    inside = RunDir(place.inside)
    appenders = {
        kind: RotatingAppender(
            inside.telemetry_file(kind),
            settings.rotate_mb * 1_000_000,
            may_make=lambda: inside.is_run,
            named=run.telemetry_file(kind),
        )
        for kind in ("gpu", "host", "server", "daemon")
    }
    return Telemetry(
        gpu=GpuCollector() if settings.gpus else None,
        host=HostCollector(_folders(run, config)),
        server=ServerCollector([slot.control for slot in pool.slots], pool.standing),
        heartbeat=heartbeat,
        appenders=appenders,
        clock=clock,
        interval_s=settings.interval_s,
    )


def _folders(run: RunDir, config: RunConfig) -> dict[str, Path]:
    """Return what of a run may fill which disk."""
    if not config.extracts:
        return {RUN: run.path, SHM: Path("/dev/shm")}
    return {RUN: run.path, STORE: run.stores, DUMPS: Path(config.extract.dump_dir)}
