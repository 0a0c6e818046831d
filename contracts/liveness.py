"""Whether a daemon is there: the lock decides, never the mere number of a process."""

from __future__ import annotations

import errno
import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from contracts.clock import boot_id
from contracts.daemon_info import read_daemon_info
from contracts.records import Heartbeat
from contracts.run_dir import RunDir


@dataclass(frozen=True)
class Liveness:
    """What can be said about the daemon of a run right now."""

    alive: bool | None
    pid: int | None = None
    since: float | None = None


UNKNOWN: Final = Liveness(None)


def look(run: RunDir) -> Liveness:
    """Return whether a daemon holds the run's lock, and what daemon.json says of it.

    Unknown in a foreign folder, and where this user may not open the lock.
    """
    if not run.is_run:
        return UNKNOWN
    locked = _is_locked(run.lock)
    if locked is None:
        return UNKNOWN
    if not locked:
        return Liveness(False)
    info = read_daemon_info(run.daemon_info)
    return Liveness(True) if info is None else Liveness(True, info.pid, info.since)


def _is_locked(path: Path) -> bool | None:
    """Whether somebody holds the exclusive lock; tried with a shared one, which is given back at once.

    Returns:
        None where that may not be tried: another user's lock, closed to this one.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        return None if error.errno in (errno.EACCES, errno.EPERM) else False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in (errno.EWOULDBLOCK, errno.EACCES)
    finally:
        os.close(descriptor)
    return False


def judged_by_heartbeat(
    liveness: Liveness, heartbeat: Heartbeat | None, monotonic: float, wall: float, stale_s: float
) -> Liveness:
    """Return the liveness, made certain by a fresh heartbeat where the lock told nothing."""
    if liveness.alive is not None or heartbeat is None or heartbeat_age(heartbeat, monotonic, wall) >= stale_s:
        return liveness
    return Liveness(True, heartbeat.pid)


def current_heartbeat(heartbeat: Heartbeat | None, liveness: Liveness) -> Heartbeat | None:
    """Return the heartbeat when it is the living daemon's own, None when it is one of a daemon before it."""
    if heartbeat is None or not liveness.alive:
        return None
    if liveness.pid is not None and heartbeat.pid != liveness.pid:
        return None
    return None if liveness.since is not None and heartbeat.at < liveness.since else heartbeat


def heartbeat_age(heartbeat: Heartbeat, monotonic: float, wall: float) -> float:
    """Return the age of a heartbeat in seconds, at least 0.

    On the boot it was written in, the monotonic clock tells, however the wall clock was set meanwhile.
    """
    if heartbeat.boot_id and heartbeat.boot_id == boot_id():
        return max(monotonic - heartbeat.mono, 0.0)
    return max(wall - heartbeat.at, 0.0)


def reader_now(heartbeat: Heartbeat | None, monotonic: float, wall: float) -> float:
    """Return the present on the time scale of a living daemon's records, or wall time without its heartbeat."""
    return wall if heartbeat is None else heartbeat.at + heartbeat_age(heartbeat, monotonic, wall)
