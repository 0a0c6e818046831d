"""`eagle3 events`: the last events from the run's files, or all that come from its daemon."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable

from contracts.control_client import follow, socket_of
from contracts.exit_codes import ExitCode
from contracts.monitor import Monitor
from contracts.records import Event, encode_line
from eagle3_tui.arguments import add_run, describe, natural, run_dir
from eagle3_tui.text import human_time, visible


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `events` takes."""
    add_run(parser)
    parser.add_argument("--last", type=natural, default=20, metavar="N", help="how many earlier ones (20)")
    parser.add_argument("--follow", action="store_true", help="go on as they come, until the daemon ends")
    parser.add_argument("--json", action="store_true", help="one record a line")
    describe(
        parser,
        "eagle3 events my_run --follow",
        (ExitCode.OK, ExitCode.FAILED, ExitCode.USAGE, ExitCode.STOPPED, ExitCode.NOT_A_RUN),
        "The last events of a run. Without --follow no daemon is needed.",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print events."""
    for event in _events(arguments):
        text = encode_line(event).decode().rstrip("\n") if arguments.json else event_line(event)
        print(text, flush=True)
    return ExitCode.OK


def event_line(event: Event) -> str:
    """Return an event as a line for people."""
    place = f"{visible(event.dataset)}: " if event.dataset and event.dataset not in event.message else ""
    day = time.strftime("%m-%d", time.localtime(event.at))
    return f"{day} {human_time(event.at)}  {event.severity:<8}  {place}{visible(event.message)}"


def _events(arguments: argparse.Namespace) -> Iterable[Event]:
    if arguments.follow:
        run = run_dir(arguments.run)
        return follow(socket_of(run), arguments.last, run=run.path)
    monitor = Monitor(arguments.run)
    monitor.refresh()
    return monitor.last_events(arguments.last)
