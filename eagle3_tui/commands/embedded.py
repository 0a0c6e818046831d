"""`eagle3 embedded`: the embedded server alone, with its own arguments."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from eagle3_tui.arguments import describe
from eagle3_tui.processes import environment, program


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing: the server has its own parser."""
    describe(parser, "eagle3 embedded --port 30000 --error-500 0.05", ())


def run(arguments: Sequence[str]) -> int:
    """Become the server."""
    sys.stdout.flush()
    command = program("daemon.embedded", *arguments)
    os.execve(command[0], command, environment())
