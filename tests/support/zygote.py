"""Starts daemons by fork: as real as ``python -m daemon run``, without half a second of imports each time.

``python -m tests.support.zygote`` reads a run directory a line and answers each with the pid of a daemon for it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from daemon.__main__ import main


def serve() -> None:
    import daemon.lifecycle  # noqa: F401 - what a child would import

    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            os.setsid()
            devnull = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1):
                os.dup2(devnull, descriptor)
            code = main(["run", line.rstrip("\n")])
            os._exit(code)
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


class Zygote:
    """The other end: starts one daemon at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )

    def start(self, run: Path) -> int:
        """Start a daemon; return its pid."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{run}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def wait(self) -> int:
        """Wait for the daemon's end; return its exit code, negative for a signal."""
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    def __enter__(self) -> Zygote:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


if __name__ == "__main__":
    serve()
