"""A file that is read by position for days, also on network disks that lose the handle (ESTALE)."""

from __future__ import annotations

import errno
import io
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from daemon.prompts.refusals import PromptError

_ATTEMPTS: Final = 3
"""ESTALE this many times in a row is a failure; fewer are a reopened file and a line in the log."""

_log: Final = logging.getLogger(__name__)
_T = TypeVar("_T")


class PromptFileError(PromptError):
    """The prompt file vanished, changed, or keeps failing while it is in use."""


class FileCalls(Protocol):
    """The three calls that are made on the file."""

    def open(self, path: Path) -> int:
        """Open for reading."""

    def fstat(self, handle: int) -> os.stat_result:
        """Facts of the open file."""

    def pread(self, handle: int, length: int, offset: int) -> bytes:
        """Read at a position."""


class OsCalls:
    """The real ones."""

    def open(self, path: Path) -> int:
        """See `FileCalls`."""
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def fstat(self, handle: int) -> os.stat_result:
        """See `FileCalls`."""
        return os.fstat(handle)

    def pread(self, handle: int, length: int, offset: int) -> bytes:
        """See `FileCalls`."""
        return os.pread(handle, length, offset)


class ReopeningFile(io.RawIOBase):
    """A binary file that is opened again when its handle went stale; the content must have stayed the same.

    Raises:
        PromptFileError: When made or read: missing, unreadable, changed, or stale three times in a row.
    """

    def __init__(self, path: Path, calls: FileCalls | None = None) -> None:
        self.path = path
        self._calls: FileCalls = calls or OsCalls()
        self._handle: int | None = None
        self._identity: tuple[int, int] | None = None
        self._position = 0
        self.size: int = self._retrying(lambda handle: self._calls.fstat(handle).st_size)

    def pread(self, length: int, offset: int) -> bytes:
        """Return up to `length` bytes at `offset`; safe from several threads only while the handle stays good."""
        return self._retrying(lambda handle: self._calls.pread(handle, length, offset))

    def readable(self) -> bool:
        """True, for `io.BufferedReader`."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read on from the stream position, for `io.BufferedReader`."""
        data = self.pread(len(buffer), self._position)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def seekable(self) -> bool:
        """True, for `io.BufferedReader`."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the stream position, as `io.IOBase.seek`."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}[whence]
        self._position = base + offset
        return self._position

    def close(self) -> None:
        """Give the handle back; may be called again."""
        self._drop_handle()
        super().close()

    def _retrying(self, call: Callable[[int], _T]) -> _T:
        attempt = 1
        while True:
            try:
                return call(self._open())
            except OSError as error:
                if error.errno != errno.ESTALE or attempt == _ATTEMPTS:
                    times = f", {attempt} times in a row" if attempt > 1 else ""
                    raise PromptFileError(f"{self.path}: cannot be read: {error.strerror}{times}") from error
                _log.warning("%s: stale file handle, opening it again", self.path)
                attempt += 1
                self._drop_handle()

    def _open(self) -> int:
        if self._handle is None:
            self._handle = self._calls.open(self.path)
            stat = self._calls.fstat(self._handle)
            identity = (stat.st_size, stat.st_mtime_ns)
            if self._identity not in (None, identity):
                self._drop_handle()
                raise PromptFileError(
                    f"{self.path}: changed while it was in use: start the daemon again to check it anew"
                )
            self._identity = identity
        return self._handle

    def _drop_handle(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            try:
                os.close(handle)
            except OSError as error:
                if error.errno != errno.ESTALE:
                    raise
