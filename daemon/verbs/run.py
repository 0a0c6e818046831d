"""Be the daemon of a run."""

from __future__ import annotations

import argparse
from pathlib import Path

from daemon.lifecycle import run_daemon


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what it takes."""
    parser.add_argument("run", type=Path)


def run(arguments: argparse.Namespace) -> int:
    """Return the daemon's exit code."""
    return run_daemon(arguments.run)
