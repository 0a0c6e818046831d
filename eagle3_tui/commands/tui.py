"""`eagle3 tui`: the screen."""

from __future__ import annotations

import argparse

from contracts.exit_codes import ExitCode
from eagle3_tui.arguments import add_run, describe
from eagle3_tui.terminal import THEMES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `tui` takes."""
    add_run(parser)
    parser.add_argument("--read-only", action="store_true", help="no keys that change the run")
    parser.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal, so that it can copy")
    parser.add_argument(
        "--theme",
        choices=THEMES,
        default="auto",
        help="colours for a dark or a light background, auto: as COLORFGBG says; exact: 24-bit colours of our own",
    )
    describe(
        parser,
        "eagle3 tui my_run",
        (ExitCode.OK, ExitCode.FAILED, ExitCode.USAGE, ExitCode.NOT_A_RUN),
        "Watch a run in the terminal; also a folder that other tools write. Leaving it leaves the daemon alone.\n"
        "After a kill -9 of the screen itself, `reset` brings the terminal back.",
    )


def run(arguments: argparse.Namespace) -> int:
    """Show the screen until it is left; 128 + n after signal n."""
    # The one import that costs most of a second.
    from eagle3_tui.app import run_app

    return run_app(arguments.run, read_only=arguments.read_only, mouse=not arguments.no_mouse, theme=arguments.theme)
