"""Appending batches of lines to a journal so that a reader never meets half of one, except after a crash.

One writer for each file (the daemon, which holds the run's lock). One ``write`` for each batch; what a full disk cut
short is taken back, so that a later append does not continue a broken line; a torn tail left by a crash is cut off
when the file is opened, its bytes kept beside it.
"""

from __future__ import annotations

import errno
import itertools
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from contracts.journal.durable import sync_folder
from contracts.journal.stale import StaleFileError, retry_stale
from contracts.journal.tail import is_whole_record
from contracts.run_place import RunPlace

_STEP: Final = 1 << 16
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class Repair:
    """What was done to a torn tail."""

    path: Path
    removed_bytes: int
    """0: the last record was whole and only lacked its newline, which was added."""
    side_file: Path | None

    def __str__(self) -> str:
        if self.side_file is None:
            return f"{self.path}: the last record lacked its newline; added"
        return f"{self.path}: cut off a torn last line of {self.removed_bytes} bytes, kept in {self.side_file.name}"


def append_durably(path: Path, lines: bytes) -> None:
    """Append whole lines to a journal that nobody else has open; when this returns, they are on the disk.

    Raises:
        OSError: They cannot be written.
    """
    journal = Journal(path)
    try:
        journal.append(lines)
        journal.sync()
    finally:
        journal.close()


class NoRoomError(OSError):
    """The disk is full (ENOSPC or EDQUOT). Nothing of the batch is in the file; append it again when there is room."""


class Journal:
    """One file, opened for appending.

    Args:
        path: The file; made, with its folder, when missing.
        write: Replaced in tests that fill the disk.
        place: The run folder that the file is of: nothing is made at its path while it is not there.

    Raises:
        RunAwayError: The run folder is not there any more.
        OSError: It cannot be opened or repaired.
    """

    def __init__(
        self, path: Path, write: Callable[[int, bytes], int] = os.write, *, place: RunPlace | None = None
    ) -> None:
        self.path = path
        self._write = write
        self._place = place
        self._swapping = threading.Lock()
        """Held while the descriptor is taken or replaced: another thread may be syncing meanwhile."""
        self._unclean = False
        """The rest of a failed batch could not be taken back: that comes before anything else is appended."""
        self._make_folder()
        self.repair = repair_torn_tail(path)
        self._open()

    def _make_folder(self) -> None:
        if self._place is not None:
            self._place.check()
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def _open(self) -> None:
        self._descriptor, is_new = retry_stale("open", self.path, lambda: _open_for_append(self.path))
        if is_new:
            sync_folder(self.path.parent)
        stat = os.fstat(self._descriptor)
        self._identity, self._size = (stat.st_dev, stat.st_ino), stat.st_size

    def append(self, batch: bytes) -> None:
        """Append whole lines with one write.

        Raises:
            NoRoomError: The disk is full; the file is as it was.
            RunAwayError: The run folder is not there any more; the file is as it was.
            OSError: Any other failure; the file is as it was.
        """
        retry_stale("write", self.path, lambda: self._append(batch))

    def _append(self, batch: bytes) -> None:
        self._settle()
        written = 0
        try:
            while written < len(batch):
                # One call as a rule; a second one after a short write either goes on or tells why it was short.
                written += self._write(self._descriptor, batch[written:] if written else batch)
        except OSError as error:
            self._take_back()
            if error.errno in _NO_ROOM:
                raise NoRoomError(error.errno, "no room for a batch of records", str(self.path)) from error
            raise
        self._size += len(batch)

    def sync(self) -> None:
        """Wait until everything appended is on the disk.

        Raises:
            NoRoomError: The file system found no room only now (network disks); the file is as it was reported.
            OSError: The disk failed.
        """
        # A copy: the writing thread may follow a replaced file meanwhile, and must not wait for a slow disk.
        with self._swapping:
            descriptor = os.dup(self._descriptor)
        try:
            os.fdatasync(descriptor)
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise NoRoomError(error.errno, "no room to sync", str(self.path)) from error
            raise
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _take_back(self) -> None:
        """Cut the file to where the batch began: we alone write to it."""
        try:
            os.ftruncate(self._descriptor, self._size)
        except OSError as error:
            self._unclean = True
            _LOG.warning("%s: half a batch cannot be taken back yet: %s", self.path, error)

    def _settle(self) -> None:
        """Make sure that the batch goes behind whole lines of the file that readers see.

        Somebody may have moved, deleted or cut it, or another host may have replaced it (ESTALE).
        """
        in_place = self._is_in_place()
        goes_along = not in_place and self._goes_along()
        if not in_place and not goes_along:
            self._follow()
        if self._unclean:
            os.ftruncate(self._descriptor, self._size)
            self._unclean = False
        size = os.fstat(self._descriptor).st_size
        if size != self._size and not goes_along:
            self._note_repair(repair_torn_tail(self.path))
            self._size = os.fstat(self._descriptor).st_size

    def _is_in_place(self) -> bool:
        try:
            own = os.fstat(self._descriptor)
            there = retry_stale("stat", self.path, self.path.stat)
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno != errno.ESTALE or isinstance(error, StaleFileError):
                raise
            return False
        return (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino)

    def _goes_along(self) -> bool:
        """Whether the last lines go to where the file was moved together with its run folder."""
        place = self._place
        if place is None or not place.ending or place.trouble() is None:
            return False
        return os.fstat(self._descriptor).st_nlink > 0

    def _follow(self) -> None:
        """Open the path again: data belongs where readers look."""
        before, size, old = self._identity, self._size, self._descriptor
        self._make_folder()
        repair = repair_torn_tail(self.path)
        self._open()
        with self._swapping:
            os.close(old)  # not before: a new file could get the old one's inode
        if self._identity == before:
            self._size = size  # the same file under a stale handle: what it may hold too much is still to be cut
        else:
            self._unclean = False
            _LOG.warning("%s: was moved, deleted or replaced; appending to the file that is there now", self.path)
        self._note_repair(repair)

    def _note_repair(self, repair: Repair | None) -> None:
        if repair is not None:
            self.repair = repair
            _LOG.warning("%s", repair)


def _open_for_append(path: Path) -> tuple[int, bool]:
    """Return a descriptor, and whether the file was made."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
    try:
        return os.open(path, flags), False
    except FileNotFoundError:
        return os.open(path, flags | os.O_CREAT, 0o644), True


def repair_torn_tail(path: Path) -> Repair | None:
    """Make the file end with a newline; keep what had to be cut off in ``<name>.torn-<offset>``.

    Returns:
        What was done, or None when the file is missing, empty or whole.

    Raises:
        OSError: It cannot be read, or the side file cannot be written; the file is as it was.
    """
    try:
        return retry_stale("read", path, lambda: _repair(path))
    except FileNotFoundError:
        return None


def _repair(path: Path) -> Repair | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        size = os.fstat(descriptor).st_size
        start = _start_of_last_line(descriptor, size)
        if start == size:
            return None
        tail = os.pread(descriptor, size - start, start)
        if is_whole_record(tail):
            os.pwrite(descriptor, b"\n", size)
            os.fsync(descriptor)
            return Repair(path, 0, None)
        side_file = _keep(path, start, tail)
        os.ftruncate(descriptor, start)
        os.fsync(descriptor)
        return Repair(path, len(tail), side_file)
    finally:
        os.close(descriptor)


def _keep(path: Path, start: int, tail: bytes) -> Path:
    """Write torn bytes to a side file of their own: the same place may have been torn before."""
    for number in itertools.count():
        side_file = path.with_name(f"{path.name}.torn-{start}" + (f".{number}" if number else ""))
        try:
            with side_file.open("xb") as file:
                file.write(tail)
                file.flush()
                os.fsync(file.fileno())
            return side_file
        except FileExistsError:
            continue
    raise AssertionError("unreachable")


def _start_of_last_line(descriptor: int, size: int) -> int:
    """Return the offset just behind the last newline, searched backwards."""
    end = size
    while end > 0:
        start = max(0, end - _STEP)
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0
