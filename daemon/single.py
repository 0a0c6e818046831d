"""One daemon for each run directory: a lock that dies with its holder, and ``daemon.json`` that says who holds it.

Only the lock decides. What ``daemon.json`` says may be old, empty or garbage, and its pid may belong to another program
by now: it is read for the message, replaced, and no process is ever signalled because of it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from contracts.clock import boot_id
from contracts.daemon_info import DaemonInfo, is_alive, process_start, read_daemon_info
from contracts.journal.durable import replace_file
from contracts.journal.stale import StaleFileError, retry_stale
from contracts.run_dir import RunDir
from contracts.run_place import RunPlace
from contracts.version import version

_TRIES: Final = 6
_PAUSE_S: Final = 0.05
"""A reader that asks whether a daemon is there holds the lock for an instant; that must not turn a start away."""


class AlreadyRunning(Exception):
    """Another daemon holds this run's lock.

    Attributes:
        pid: Its process, when ``daemon.json`` names the living holder.
        since: When it took the lock, Unix seconds.
    """

    def __init__(self, path: Path, pid: int | None, since: float | None) -> None:
        self.pid = pid
        self.since = since
        who = "a daemon" if pid is None else f"a daemon (pid {pid})"
        when = "" if since is None else time.strftime(" since %Y-%m-%d %H:%M:%S", time.localtime(since))
        super().__init__(f"{path}: {who} runs here already{when}; see it with: eagle3 status {path}")


class LockTrouble(Exception):
    """The lock file cannot be used; the message names it, what failed and what to do."""


class SingleInstance:
    """The right to be the daemon of one run, from `acquire` until `release` or death.

    Args:
        run_dir: The run.
        open_file: Replaced in tests that make handles stale.
        stat: As ``open_file``.
    """

    def __init__(
        self,
        run_dir: RunDir,
        *,
        open_file: Callable[[Path, int, int], int] = os.open,
        stat: Callable[[Path], os.stat_result] = os.stat,
    ) -> None:
        self._run_dir = run_dir
        self._open_file = open_file
        self._stat = stat
        self._descriptor: int | None = None
        self._info: DaemonInfo | None = None
        self._place: RunPlace | None = None

    def acquire(self) -> list[str]:
        """Take the lock and write ``daemon.json``.

        Returns:
            Sentences for the log: what an earlier daemon left, what could not be written.

        Raises:
            AlreadyRunning: Another daemon holds it.
            LockTrouble: The lock file cannot be opened or locked.
        """
        self.hold()
        notes = self._notes_on_last()
        self._info = DaemonInfo(
            pid=os.getpid(),
            start_time=process_start(os.getpid()),
            boot_id=boot_id(),
            since=time.time(),
            socket=os.fsencode(self._run_dir.socket).decode("utf-8", "replace"),
            version=version(),
        )
        return notes + self._write_info(self._info)

    def hold(self) -> None:
        """Take the lock alone, for a moment's work: ``daemon.json`` goes on telling of the last daemon.

        Raises:
            AlreadyRunning: As for `acquire`.
            LockTrouble: As for `acquire`.
        """
        path = self._run_dir.lock
        try:
            self._place = RunPlace(self._run_dir.path)
            self._descriptor = self._locked(path)
        except StaleFileError as error:
            raise LockTrouble(f"{path}: {error.strerror}; start again when that host is done") from error
        except OSError as error:
            raise LockTrouble(f"{path}: cannot be locked: {error.strerror}{_advice(error.errno)}") from error

    def release(self) -> list[str]:
        """Note a daemon's end in ``daemon.json``, give the lock back (its file stays); return sentences for the log."""
        if self._descriptor is None:
            return []
        notes = []
        if self._info is not None and self._place is not None:
            # The folder may have been moved: another run's daemon.json may be at its path, and ours is where it is.
            inside = RunDir(self._place.inside)
            if inside.lock.exists():
                info = msgspec.structs.replace(self._info, ended_at=time.time())
                notes = self._write_info(info, inside.daemon_info)
        os.close(self._descriptor)
        self._descriptor = None
        return notes

    def _locked(self, path: Path) -> int:
        """Return a descriptor that holds the lock of the file that is at ``path`` now."""
        for attempt in range(1, _TRIES + 1):
            descriptor = retry_stale("open", path, lambda: self._open_file(path, os.O_RDWR | os.O_CREAT, 0o644))
            try:
                if _try_lock(descriptor) and self._is_at(path, descriptor):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
            if attempt < _TRIES:
                time.sleep(_PAUSE_S)
        raise AlreadyRunning(self._run_dir.path, *self._holder())

    def _is_at(self, path: Path, descriptor: int) -> bool:
        """Whether the locked file is still the one at ``path``: a lock on a removed file would exclude nobody."""
        own = os.fstat(descriptor)
        try:
            there = retry_stale("stat", path, lambda: self._stat(path))
        except FileNotFoundError:
            return False
        return (own.st_dev, own.st_ino) == (there.st_dev, there.st_ino)

    def _holder(self) -> tuple[int | None, float | None]:
        info = self._last_info()
        if info is None or info.ended_at is not None or not is_alive(info):
            return None, None
        return info.pid, info.since

    def _last_info(self) -> DaemonInfo | None:
        with suppress(OSError):
            return read_daemon_info(self._run_dir.daemon_info)
        return None

    def _notes_on_last(self) -> list[str]:
        path = self._run_dir.daemon_info
        info = self._last_info()
        if info is None:
            return [f"{path}: unreadable or empty; took over and wrote it anew"] if path.exists() else []
        if info.ended_at is not None:
            return []
        if is_alive(info):
            # It gave up the lock and still lives: on its way out, or its lock file was removed under it.
            return [f"took over from the daemon with pid {info.pid}, which let go of the lock and has not ended yet"]
        if info.boot_id == boot_id() and process_start(info.pid) is not None:
            return [f"took over: pid {info.pid} in {path} belongs to another program now, which is left alone"]
        return [f"took over: the daemon with pid {info.pid} in {path} is gone and had not ended cleanly"]

    def _write_info(self, info: DaemonInfo, there: Path | None = None) -> list[str]:
        path = self._run_dir.daemon_info
        try:
            replace_file(there or path, msgspec.json.encode(info) + b"\n")
        except OSError as error:
            # A full disk must not keep the daemon down: the lock holds without this file.
            return [f"{path}: cannot be written: {error.strerror}; clients do not see the pid"]
        return []


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _advice(code: int | None) -> str:
    if code in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
        return "; this file system has no locks: put the run directory on another one"
    if code in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "; the run directory must be writable for this user"
    if code == errno.ENOSPC:
        return "; make room on the disk"
    return ""
