"""Our own programs as processes: how they are called, what they get from the environment, how they are ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Final

_TERM_S: Final = 10.0
_LOOK_S: Final = 0.02


def program(module: str, *arguments: str | os.PathLike[str]) -> list[str]:
    """Return the command line that runs one of our modules with this very Python.

    ``-P``: what lies in the current folder must not be taken for one of our modules.
    """
    return [sys.executable, "-P", "-m", module, *(os.fspath(one) for one in arguments)]


def environment() -> dict[str, str]:
    """Return the environment of our processes: as ours, in UTF-8 mode whatever the locale."""
    return {**os.environ, "PYTHONUTF8": "1"}


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether a process that we started has ended; unlike ``poll`` its number stays taken."""
    if process.returncode is not None:
        return True
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def wait_for_end(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    """Wait until a process that we started has ended, at most some seconds; return whether it has."""
    deadline = time.monotonic() + timeout_s
    while not has_ended(process):
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_S)
    return True


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process that we started as leader of its own group, and what is left of its group.

    TERM to the process, KILL to the group when it has ended or 10 s have passed. Does nothing once it was waited for:
    its number, and its group's, may belong to others by then.
    """
    if process.returncode is not None:
        return
    os.kill(process.pid, signal.SIGTERM)
    wait_for_end(process, _TERM_S)
    # Not reaped yet, so the number is still its own.
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
