"""`eagle3 tui`: the screen."""

from __future__ import annotations

import argparse

from contracts.exit_codes import ExitCode
from eagle3_tui.arguments import add_run, describe
from eagle3_tui.failure import UsageError
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
    parser.add_argument("--replay", action="store_true", help="show the run as it was, from its journals alone")
    parser.add_argument(
        "--speed", type=_speed, metavar="N", help="with --replay: so many seconds of the run in one, default 60"
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
    if arguments.speed is not None and not arguments.replay:
        raise UsageError("--speed is for --replay")
    # The one import that costs most of a second.
    from eagle3_tui.app import run_app
    from eagle3_tui.replaying import SPEED

    return run_app(
        arguments.run,
        read_only=arguments.read_only,
        mouse=not arguments.no_mouse,
        theme=arguments.theme,
        replay_speed=(arguments.speed or SPEED) if arguments.replay else None,
    )


def _speed(text: str) -> float:
    """A factor above 0, as of argparse: ``60`` or ``60x``."""
    try:
        value = float(text.removesuffix("x"))
    except ValueError:
        value = 0.0
    if not (0 < value < float("inf")):
        raise argparse.ArgumentTypeError(f"{text!r} is no speed: a number above 0, like 60")
    return value
