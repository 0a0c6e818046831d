"""Exit codes of the command, the same everywhere and documented in the README."""

from __future__ import annotations

import enum


class ExitCode(enum.IntEnum):
    """What a script learns without reading a line."""

    OK = 0
    """Fine, or finished."""
    FAILED = 1
    """The command itself could not do what was asked; the message says why."""
    USAGE = 2
    """Wrong arguments or configuration."""
    STOPPED = 3
    """Not running, with work left."""
    CRITICAL = 4
    """A critical alert, or stalled."""
    NOT_A_RUN = 5
    """The folder is not a run and holds nothing that could be watched."""
