"""The app in a pseudo-terminal, with a screen that can be read."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pexpect
import pyte

ROOT = Path(__file__).parents[2]
START = "import sys; from pathlib import Path; from eagle3_tui.app import run_app; sys.exit(run_app(Path(sys.argv[1])))"
SETS = {"alternate screen": "1049", "mouse": "1003", "bracketed paste": "2004"}


def environment(**more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**kept, "TERM": "xterm-256color", "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT), **more}


class Terminal:
    """A terminal with the app in it; everything it was sent is kept."""

    def __init__(self, folder: Path, rows: int = 24, columns: int = 80, **more: str) -> None:
        self.child: pexpect.spawn[bytes] = pexpect.spawn(
            sys.executable, ["-c", START, str(folder)], env=environment(**more), dimensions=(rows, columns), timeout=20
        )
        self.screen = pyte.Screen(columns or 80, rows or 24)
        self._stream = pyte.ByteStream(self.screen)
        self.sent = b""

    def read(self, timeout: float = 0.1) -> None:
        try:
            data = self.child.read_nonblocking(1 << 16, timeout)
        except pexpect.TIMEOUT:
            return
        self.sent += data
        # pyte does not know the keyboard protocol's sequences and would print them.
        self._stream.feed(data.replace(b"\x1b[>25u", b"").replace(b"\x1b[<u", b""))

    def until(self, *texts: str, seconds: float = 20) -> None:
        end = time.monotonic() + seconds
        while not all(text in "\n".join(self.screen.display) for text in texts):
            assert time.monotonic() < end, "\n".join(self.screen.display)
            self.read()

    def settle(self) -> None:
        """Read until nothing more comes for a moment: an Esc must not meet the key after it in one piece."""
        before = -1
        while before != len(self.sent):
            before = len(self.sent)
            self.read()

    def ended(self) -> int:
        """Read to the end and return the exit code."""
        end = time.monotonic() + 20
        try:
            while True:
                self.read(1)
                assert time.monotonic() < end, "it does not end:\n" + "\n".join(self.screen.display)
        except pexpect.EOF:
            pass
        self.child.wait()
        assert self.child.signalstatus is None
        return int(self.child.exitstatus)

    def assert_restored(self) -> None:
        for what, mode in SETS.items():
            on, off = self.sent.rfind(f"\x1b[?{mode}h".encode()), self.sent.rfind(f"\x1b[?{mode}l".encode())
            assert on < off, f"{what} is left on"
        assert self.sent.rfind(b"\x1b[?25l") < self.sent.rfind(b"\x1b[?25h"), "the cursor is left hidden"
