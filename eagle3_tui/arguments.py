"""Arguments and help that several commands share."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NoReturn

from contracts.exit_codes import ExitCode
from contracts.run_dir import RunDir
from eagle3_tui.failure import CommandFailed, UsageError

_MEANING: Final = {
    ExitCode.OK: "done, or all is well",
    ExitCode.FAILED: "it could not be done; the message says why",
    ExitCode.USAGE: "wrong arguments or run.toml",
    ExitCode.STOPPED: "no daemon is running, with work left",
    ExitCode.CRITICAL: "a critical alert, or stalled",
    ExitCode.NOT_A_RUN: "the folder is not a run",
}


class Parser(argparse.ArgumentParser):
    """Raises instead of exiting, so that wrong arguments are told like everything else."""

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError`."""
        raise UsageError(f"{message} (see: {self.prog} --help)")


def describe(parser: argparse.ArgumentParser, example: str, codes: Iterable[ExitCode], text: str = "") -> None:
    """Give a command's help its text, its example and the exit codes it uses."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    if text:
        parser.description = text
    lines = [f"  {int(code)}  {_MEANING[code]}" for code in codes]
    parser.epilog = "\n".join(["example:", f"  {example}", "", "exit codes:", *lines])


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add RUN, the run directory."""
    parser.add_argument(
        "run", nargs="?", type=Path, default=Path(), metavar="RUN", help="the run directory (default: this folder)"
    )


def run_dir(path: Path) -> RunDir:
    """Return the run at a path.

    Raises:
        CommandFailed: There is no run.toml; exit code 5.
    """
    run = RunDir(path)
    if not run.is_run:
        why = run.no_folder or f"{path}: holds no run.toml; make a run with: eagle3 init {run.quoted}"
        raise CommandFailed(why, ExitCode.NOT_A_RUN, "not_a_run")
    return run


def seconds(text: str) -> float:
    """Return a positive number of seconds."""
    value = float(text)
    if not 0 < value < math.inf:
        raise ValueError(text)
    return value


def natural(text: str) -> int:
    """Return a whole number from 0 on; groups (``10_000_000``) are allowed."""
    value = int(text)
    if value < 0:
        raise ValueError(text)
    return value
