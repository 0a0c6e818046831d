"""Waits for the rows of one request: they may come after its answer, or not at all."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from contracts.records import CaptureCheck
from daemon.capture.dump import Dump, header_at, read_start
from daemon.capture.fault import CaptureFault
from daemon.sglang_plugin.eagle3_sglang.dump_format import HEADER_BYTES, DumpFormatError, dump_path, error_path

FIRST_WAIT_S: Final = 0.002
LONGEST_WAIT_S: Final = 0.1
_MOST_REASON: Final = 2000
"""Bytes of the plugin's reason that are passed on."""


async def await_rows(
    folder: Path,
    rid: str,
    rows: int,
    timeout_s: float,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Return when a dump reaches to the end of row ``rows - 1``.

    Looks at the file's size again and again, less often as time passes. What a size cannot tell is for
    `daemon.capture.taker` to find.

    Args:
        folder: The dump folder, in memory: a look at it does not hold up the loop.
        rid: The request.
        rows: That it must come to.
        timeout_s: Longest wait.
        monotonic: For tests: the clock.
        sleep: For tests: the wait.

    Raises:
        CaptureFault: The plugin says that it could not write them (``SERVER_ERROR``, or ``NO_ROOM`` when its folder
            was full), or they are not there after the longest wait (``MISSING``).
    """
    try:
        dump = _Awaited(folder, rid)
    except DumpFormatError as error:
        raise CaptureFault(CaptureCheck.MISSING, f"no dump: {error}") from None
    give_up_at = monotonic() + timeout_s
    wait_s = FIRST_WAIT_S
    while not dump.reaches(rows):
        dump.check_error()
        left_s = give_up_at - monotonic()
        if left_s <= 0:
            raise CaptureFault(CaptureCheck.MISSING, f"{dump.found(rows)} after {timeout_s:g} s")
        await sleep(min(wait_s, left_s))
        wait_s = min(wait_s * 1.5, LONGEST_WAIT_S)


class _Awaited:
    """What has come of one request."""

    def __init__(self, folder: Path, rid: str) -> None:
        self._folder = folder
        self._rid = rid
        self._dump = dump_path(folder, rid)
        self._error = error_path(folder, rid)
        self._needed_bytes: int | None = None
        """Where the last awaited row ends; None until the header is there."""
        self._empty_reason_seen = False

    def reaches(self, rows: int) -> bool:
        """Tell whether the file holds so many rows."""
        size = self._size()
        if size is None or size < HEADER_BYTES:
            return False
        if self._needed_bytes is None:
            header = header_at(self._dump)
            if header is None:
                return False
            self._needed_bytes = header.rows_offset + rows * header.row_bytes
        return size >= self._needed_bytes

    def check_error(self) -> None:
        """Raise what the plugin says, if it says something."""
        try:
            reason = read_start(self._error, _MOST_REASON).decode("utf-8", "replace").strip()
        except FileNotFoundError:
            return
        except OSError as error:
            reason = f"{self._error}: {error.strerror or error}"
        if not reason and not self._empty_reason_seen:
            self._empty_reason_seen = True  # it may be just about to be written
            return
        full = not reason or os.strerror(errno.ENOSPC) in reason
        check = CaptureCheck.NO_ROOM if full else CaptureCheck.SERVER_ERROR
        said = reason or "(nothing: there was no room for the reason)"
        raise CaptureFault(check, f"the server could not write the rows: {said}")

    def found(self, rows: int) -> str:
        """Say what is there instead."""
        try:
            self._dump.stat()
            with Dump.open(self._folder, self._rid) as dump:
                return f"{self._dump}: {dump.rows_written} rows for {rows} tokens"
        except FileNotFoundError:
            return (
                f"no {self._dump.name} in {self._folder} (is the server on this machine, started with the plugin and "
                f"EAGLE3_DUMP_DIR={self._folder}? See `eagle3 server-args RUN`)"
            )
        except PermissionError as error:
            return f"{self._dump}: {error.strerror} (server and daemon must run as the same user)"
        except (OSError, CaptureFault) as error:
            return str(error)

    def _size(self) -> int | None:
        try:
            return self._dump.stat().st_size
        except OSError:
            return None
