"""Appending batches of lines to a journal so that a reader never meets half of one, except after a crash.

One writer for each file (the daemon, which holds the run's lock). One ``write`` for each batch; what a full disk cut
short is taken back, so that a later append does not continue a broken line; a torn tail left by a crash is cut off
when the file is opened, its bytes kept beside it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from contracts.journal.stale import retry_stale
from contracts.journal.tail import is_whole_object

_STEP: Final = 1 << 16


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


class NoRoomError(OSError):
    """The disk is full (ENOSPC or EDQUOT). Nothing of the batch is in the file; append it again when there is room."""


class Journal:
    """One file, opened for appending.

    Args:
        path: The file; made, with its folder, when missing.
        write: Replaced in tests that fill the disk.
    """

    def __init__(self, path: Path, write: Callable[[int, bytes], int] = os.write) -> None:
        self.path = path
        self._write = write
        path.parent.mkdir(parents=True, exist_ok=True)
        self.repair = repair_torn_tail(path)
        self._descriptor = self._open()
        self._size = os.fstat(self._descriptor).st_size

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        return retry_stale("open", self.path, lambda: os.open(self.path, flags, 0o644))

    def append(self, batch: bytes) -> None:
        """Append whole lines with one write.

        Raises:
            NoRoomError: The disk is full; the file is as it was.
            OSError: Any other failure; the file is as it was.
        """
        self._reopen_if_replaced()
        written = 0
        try:
            while written < len(batch):
                # One call as a rule; a second one after a short write either goes on or tells why it was short.
                written += self._write(self._descriptor, batch[written:] if written else batch)
        except OSError as error:
            self._take_back()
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise NoRoomError(error.errno, "no room for a batch of records", str(self.path)) from error
            raise
        self._size += len(batch)

    def sync(self) -> None:
        """Wait until everything appended is on the disk.

        Raises:
            NoRoomError: The file system found no room only now (network disks); the file is as it was reported.
            OSError: The disk failed.
        """
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise NoRoomError(error.errno, "no room to sync", str(self.path)) from error
            raise

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _take_back(self) -> None:
        """Cut the file to where the batch began: we alone write to it."""
        os.ftruncate(self._descriptor, self._size)

    def _reopen_if_replaced(self) -> None:
        """Follow the path when somebody moved or deleted the file: data belongs where readers look."""
        own = os.fstat(self._descriptor)
        try:
            there = self.path.stat()
        except FileNotFoundError:
            there = None
        if there is not None and (there.st_ino, there.st_dev) == (own.st_ino, own.st_dev):
            self._size = own.st_size
            return
        os.close(self._descriptor)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.repair = repair_torn_tail(self.path) or self.repair
        self._descriptor = self._open()
        self._size = os.fstat(self._descriptor).st_size


def repair_torn_tail(path: Path) -> Repair | None:
    """Make the file end with a newline; keep what had to be cut off in ``<name>.torn-<offset>``.

    Returns:
        What was done, or None when the file is missing, empty or whole.
    """
    try:
        descriptor = retry_stale("open", path, lambda: os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except FileNotFoundError:
        return None
    try:
        size = os.fstat(descriptor).st_size
        start = _start_of_last_line(descriptor, size)
        if start == size:
            return None
        tail = os.pread(descriptor, size - start, start)
        if is_whole_object(tail):
            os.pwrite(descriptor, b"\n", size)
            os.fsync(descriptor)
            return Repair(path, 0, None)
        side_file = path.with_name(f"{path.name}.torn-{start}")
        side_file.write_bytes(tail)
        os.ftruncate(descriptor, start)
        os.fsync(descriptor)
        return Repair(path, len(tail), side_file)
    finally:
        os.close(descriptor)


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
