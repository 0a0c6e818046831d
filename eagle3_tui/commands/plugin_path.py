"""`eagle3 plugin-path`: the folder that makes SGLang find the plugin, for its PYTHONPATH."""

from __future__ import annotations

import argparse
import subprocess
import sys

from contracts.exit_codes import ExitCode
from eagle3_tui.arguments import describe
from eagle3_tui.failure import CommandFailed
from eagle3_tui.processes import environment, program


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
    command = program("daemon", "plugin-path")
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env=environment(), check=False)
    if done.returncode != ExitCode.OK:
        raise CommandFailed(done.stderr.decode("utf-8", "replace").strip() or "no folder was printed", done.returncode)
    sys.stdout.write(done.stdout.decode())
    return ExitCode.OK
