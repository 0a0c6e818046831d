"""A program in a terminal of 120x36, watched: every byte with its time, its CPU time and its memory."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Sequence

import pexpect
import psutil
import pyte

from tests.support.terminal import environment

COLUMNS, ROWS = 120, 36
_DONE = re.compile(r"done +([\d,]+)")


class Watched:
    """A program in a pseudo-terminal.

    Args:
        command: Program and arguments.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.began = time.monotonic()
        self._child: pexpect.spawn[bytes] = pexpect.spawn(
            command[0], list(command[1:]), env=environment(), dimensions=(ROWS, COLUMNS)
        )
        self.process = psutil.Process(self._child.pid)
        self.chunks: list[tuple[float, bytes]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._child.child_fd, 1 << 16)
            except OSError:  # the other end is closed
                return
            if not data:
                return
            self.chunks.append((time.monotonic(), data))

    @property
    def cpu_s(self) -> float:
        """Seconds of CPU so far, of all threads."""
        times = self.process.cpu_times()
        return float(times.user + times.system)

    @property
    def memory_mb(self) -> float:
        """Resident memory."""
        return float(self.process.memory_info().rss / 1e6)

    @property
    def sent(self) -> int:
        """Bytes so far."""
        return sum(len(data) for _, data in list(self.chunks))

    def type(self, text: str) -> None:
        """Press keys."""
        self._child.send(text)

    def until(self, wanted: Callable[[str], bool], seconds: float = 60.0) -> float:
        """Wait until the screen's text is as wanted; return when the bytes came that made it so."""
        screens = Screens()
        seen, end = 0, time.monotonic() + seconds
        while time.monotonic() < end:
            chunks = list(self.chunks)
            for at, data in chunks[seen:]:
                if wanted(screens.feed(data)):
                    return at
            seen = len(chunks)
            time.sleep(0.01)
        raise AssertionError("it never showed what was wanted:\n" + screens.text())

    def shown(self) -> list[tuple[float, int]]:
        """Every count of answers that was on the screen, and since when."""
        screens, found = Screens(), []
        for at, data in list(self.chunks):
            count = done_in(screens.feed(data))
            if count is not None and (not found or found[-1][1] != count):
                found.append((at, count))
        return found

    def quit(self) -> float:
        """Press q; return the seconds until the process is gone."""
        began = time.monotonic()
        self._child.send("q")
        while self._child.isalive():
            assert time.monotonic() < began + 20, "it does not end"
            time.sleep(0.002)
        took = time.monotonic() - began
        self._reader.join(5)
        self._child.close()
        return took


class Screens:
    """What bytes make of a screen."""

    def __init__(self) -> None:
        self._screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self._screen)

    def feed(self, data: bytes) -> str:
        """Take bytes; return the screen's text."""
        # pyte does not know the keyboard protocol's sequences and would print them.
        self._stream.feed(re.sub(rb"\x1b\[[<>]\d*u", b"", data))
        return self.text()

    def text(self) -> str:
        """The screen's text."""
        return "\n".join(self._screen.display)


def done_in(text: str) -> int | None:
    """How many answers a screen counts."""
    found = _DONE.search(text)
    return int(found[1].replace(",", "")) if found else None
