"""``daemon.json``: the last daemon of a run. Informs people and clients; decides nothing (the lock does)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Final

import msgspec

from contracts.clock import boot_id
from contracts.journal.stale import retry_stale

_LARGEST_PID: Final = 2**22
_ENDED: Final = (b"Z", b"X")
_START_FIELD: Final = 19
"""Field 22 of /proc/<pid>/stat, counted from the one after the name in brackets (which may hold anything)."""


class DaemonInfo(msgspec.Struct, kw_only=True):
    """The content of ``daemon.json``."""

    pid: Annotated[int, msgspec.Meta(ge=1, le=_LARGEST_PID)]
    start_time: float | None = None
    """Start of the process in seconds after boot: pids are used again, the three of pid, start and boot are not.

    Not Unix seconds, as psutil gives it: those move when the wall clock is set.
    """
    boot_id: str = ""
    """Which boot of the machine the pid belongs to; empty where the system does not tell."""
    since: float | None = None
    """When the daemon took the lock, Unix seconds."""
    socket: str = ""
    """Path of the control socket."""
    version: str = ""
    ended_at: float | None = None
    """When it gave the lock back, Unix seconds; None while it lives, and after it was killed."""


def read_daemon_info(path: Path) -> DaemonInfo | None:
    """Return what ``daemon.json`` says; None when it is missing, empty or not what a daemon wrote.

    Raises:
        OSError: It exists and cannot be read.
    """
    try:
        content = retry_stale("read", path, path.read_bytes)
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(content, type=DaemonInfo)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def process_start(pid: int) -> float | None:
    """Return when a process started, in seconds after boot; None when it is gone or the system does not tell.

    One that has ended and whose parent has not asked for its exit status yet (a zombie) is gone.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        if fields[0] in _ENDED:
            return None
        return int(fields[_START_FIELD]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return None


def is_alive(info: DaemonInfo) -> bool:
    """Whether the very process that wrote ``daemon.json`` lives, not another one with its pid."""
    return info.start_time is not None and info.boot_id == boot_id() and process_start(info.pid) == info.start_time
