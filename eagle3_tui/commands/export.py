"""`eagle3 export`: a run's hidden states in the layout of another trainer; the daemon's own code writes them."""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

from contracts.exit_codes import ExitCode
from contracts.run_config import LAYOUTS
from eagle3_tui.arguments import add_run, describe, run_dir
from eagle3_tui.failure import CommandFailed, UsageError
from eagle3_tui.processes import environment, program
from eagle3_tui.text import visible


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `export` takes."""
    add_run(parser)
    parser.add_argument(
        "--to",
        nargs=2,
        required=True,
        metavar=("LAYOUT", "DIR"),
        help=f"{', '.join(LAYOUTS)}; and a folder, in which each data set gets its own",
    )
    parser.add_argument(
        "--dataset", action="append", metavar="NAME", help="only this data set; may be given several times"
    )
    describe(
        parser,
        "eagle3 export my_run --to speculators exported",
        (ExitCode.OK, ExitCode.FAILED, ExitCode.USAGE, ExitCode.NOT_A_RUN),
        "Write what a run has stored in another layout, with the files that its trainer reads beside the tensors.\n"
        "Each sample's checksum is compared first. Ended early, the same command goes on; called again later, it adds\n"
        "what has come since. The run is left as it is, and may be running.",
    )


def run(arguments: argparse.Namespace) -> int:
    """Export, and print what the daemon's code says."""
    layout, target = arguments.to
    if layout not in LAYOUTS:
        raise UsageError(f"--to: unknown layout {layout!r}; known: {', '.join(LAYOUTS)}")
    run = run_dir(arguments.run)
    chosen = [part for name in arguments.dataset or [] for part in ("--dataset", name)]
    command = program("daemon", "export", run.path.absolute(), layout, Path(target).absolute(), *chosen)
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, env=environment()
        )
        with process as running:
            assert running.stdout is not None
            for line in running.stdout:
                print(visible(line.decode("utf-8", "replace").rstrip("\n")), flush=True)
        if process.returncode == ExitCode.OK:
            return ExitCode.OK
        said.seek(0)
        words = said.read().decode("utf-8", "replace").strip().splitlines()
    raise CommandFailed(
        words[-1] if words else f"the export ended with code {process.returncode} and said nothing",
        process.returncode if process.returncode > 0 else ExitCode.FAILED,
    )
