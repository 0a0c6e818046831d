"""A run at work for tests of the screen: an embedded server and a daemon as processes of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.polling import wait_for
from tests.support.runs import make_run, prompt_lines
from tests.support.terminal import ROOT
from tests.whole_run import embedded_server

_WORDS = ("--no-model", "--latency", "0.2", "--latency-spread", "0.3", "--length-median", "30")
"""Answers come one by one, so that there is always something new to be seen."""
_VOCABULARY = 900


class LiveRun:
    """A run directory with its daemon.

    Args:
        path: Of the run.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._daemon: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start a daemon and wait until it sends requests."""
        with (self.path / "stderr.txt").open("ab") as said:
            self._daemon = subprocess.Popen(
                [sys.executable, "-m", "daemon", "run", str(self.path)],
                cwd=ROOT, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            )  # fmt: skip
        before = self.answers()
        wait_for(lambda: self.answers() > before, self.told)

    def kill(self) -> None:
        """Let the daemon vanish as with a power cut."""
        assert self._daemon is not None
        self._daemon.kill()
        self._daemon.wait()

    @property
    def pid(self) -> int:
        """Of the daemon."""
        assert self._daemon is not None
        return self._daemon.pid

    @property
    def alive(self) -> bool:
        """Whether the daemon is there."""
        return self._daemon is not None and self._daemon.poll() is None

    def end(self) -> int:
        """Wait for the daemon's own end and return its exit code."""
        assert self._daemon is not None
        return self._daemon.wait(20)

    def answers(self) -> int:
        """How many answers there are, in all data sets."""
        return sum(file.read_bytes().count(b"\n") for file in (self.path / "prepared").glob("*/raw_responses.jsonl"))

    def told(self) -> str:
        """What the daemon said."""
        return (self.path / "stderr.txt").read_text(errors="replace")[-2000:]


@contextmanager
def live_run(folder: Path, datasets: int = 3, concurrency: int = 10) -> Iterator[LiveRun]:
    """A run that goes on for longer than any test, with its daemon at work."""
    made = {
        f"d{number:02}": prompt_lines(1000, 1000 * number, lambda index: [1, 1 + index % _VOCABULARY])
        for number in range(datasets)
    }
    with embedded_server(*_WORDS) as url:
        calm = {"length_share_pct": 100}
        run = LiveRun(make_run(folder / "watched", [url], made, concurrency=concurrency, alerts=calm))
        run.start()
        try:
            yield run
        finally:
            if run.alive:
                run.kill()
