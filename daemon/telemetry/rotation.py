"""Telemetry files: lines appended, rotated by size, never in the way of the run.

A telemetry line may be lost; a run may not stop for one. So there is no fsync, and no error leaves `append`: a line
that can't be written (disk full, folder gone, stale handle) is dropped and counted.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


class RotatingAppender:
    """Appends to ``path``; when it would exceed ``max_bytes`` it becomes ``path.1``, that ``path.2``, and so on.

    The file is opened for each line: at one line a second that costs nothing, and a file that somebody moved or
    deleted is simply made again. For one thread at a time.
    """

    def __init__(
        self,
        path: Path,
        max_bytes: int,
        keep: int = 2,
        *,
        may_make: Callable[[], bool] = lambda: True,
        named: Path | None = None,
    ) -> None:
        """Touch nothing yet.

        Args:
            path: The file; its folder is made when missing, that folder's parent is not.
            max_bytes: Size beyond which the file is rotated before the next line.
            keep: Number of old files kept beside the current one, at least 1.
            may_make: Whether the folder may be made just now.
            named: What `problem` calls the file; None: ``path``.

        Raises:
            ValueError: ``keep`` is less than 1.
        """
        if keep < 1:
            raise ValueError(f"keep={keep}: at least one old file has to be kept")
        self.path = path
        self._max_bytes = max_bytes
        self._keep = keep
        self._may_make = may_make
        self._named = named or path
        self.dropped = 0
        """Lines lost so far."""
        self.problem: str | None = None
        """Why the last line was lost; None when it was written."""

    def append(self, line: bytes) -> bool:
        """Write one line, newline included, in one write. False: it was dropped, see `problem`."""
        try:
            self._append(line)
        except OSError as error:
            self.dropped += 1
            self.problem = f"{self._named}: telemetry line dropped ({self.dropped} so far): {error.strerror or error}"
            return False
        self.problem = None
        return True

    def _append(self, line: bytes) -> None:
        if self._may_make():
            self.path.parent.mkdir(exist_ok=True)
        self._rotate_before(len(line))
        fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            size = os.fstat(fd).st_size
            if size and os.pread(fd, 1, size - 1) != b"\n":
                line = b"\n" + line  # a torn line of an earlier process must not swallow this one
            written = os.write(fd, line)
            if written < len(line):
                os.ftruncate(fd, size)
                raise OSError(f"only {written} of {len(line)} bytes could be written: is the disk full?")
        finally:
            os.close(fd)

    def _rotate_before(self, adding: int) -> None:
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            return
        if not size or size + adding <= self._max_bytes:
            return
        for number in range(self._keep, 0, -1):
            source = self._old(number - 1)
            if source.exists():
                source.replace(self._old(number))

    def _old(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}") if number else self.path
