"""`eagle3 events`: the last events from the run's files, or all that come from its daemon."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator

from contracts.control_client import DaemonNotRunning, follow, socket_of
from contracts.exit_codes import ExitCode
from contracts.monitor import Monitor
from contracts.records import Event, encode_line
from contracts.status import RunState
from contracts.wording import with_dataset
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
        "The last events of a run. --follow needs a daemon: without one it prints them all the same, and says why no\n"
        "more come; that is no failure of a run that is finished.",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print events."""
    for event in _events(arguments):
        text = encode_line(event).decode().rstrip("\n") if arguments.json else event_line(event)
        print(text, flush=True)
    return ExitCode.OK


def event_line(event: Event) -> str:
    """Return an event as a line for people."""
    day = time.strftime("%m-%d", time.localtime(event.at))
    return f"{day} {human_time(event.at)}  {event.severity:<8}  {visible(with_dataset(event.dataset, event.message))}"


def _events(arguments: argparse.Namespace) -> Iterator[Event]:
    if not arguments.follow:
        yield from _last(arguments)[0]
        return
    run = run_dir(arguments.run)
    try:
        yield from follow(socket_of(run), arguments.last, run=run.path)
    except DaemonNotRunning:
        events, state = _last(arguments)
        yield from events
        if state is not RunState.FINISHED:
            raise
        print(f"{visible(run.path)} is finished: no daemon is running, and nothing more comes", file=sys.stderr)


def _last(arguments: argparse.Namespace) -> tuple[list[Event], RunState]:
    """Return what the files say: the last events, and how the run is."""
    monitor = Monitor(arguments.run)
    state = monitor.refresh().state
    return monitor.last_events(arguments.last), state
