"""`eagle3 plugin-path`: the folder that makes SGLang find the plugin, for its PYTHONPATH."""

from __future__ import annotations

import argparse
import sys

from contracts.exit_codes import ExitCode
from eagle3_tui.arguments import describe
from eagle3_tui.commands.daemon_verb import text_of
from eagle3_tui.processes import program


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing: it takes none."""
    describe(
        parser,
        "eagle3 plugin-path",
        (ExitCode.OK, ExitCode.FAILED),
        "Print the folder to put on SGLang's PYTHONPATH: it holds the plugin's module and its *.dist-info, so that\n"
        "nothing need be installed there. `eagle3 server-args` prints the whole launch command.",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    sys.stdout.write(text_of(program("daemon", "plugin-path"), "no folder was printed"))
    return ExitCode.OK
