"""`eagle3 status`: how a run is doing, for people and for scripts; works without a daemon and on foreign folders."""

from __future__ import annotations

import argparse
import os
import sys
import time

import msgspec

from contracts.exit_codes import ExitCode
from contracts.monitor import Monitor
from contracts.status import RunStatus, exit_code
from eagle3_tui.arguments import add_run, describe, seconds
from eagle3_tui.status_table import status_lines, summary_line
from eagle3_tui.terminal import detect
from eagle3_tui.text import encodable

_HOME, _CLEAR_LINE, _CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
_WIDTH = 80
"""Where nobody tells, and for a terminal that says it has 0 columns."""
_MOST_WIDTH = 120


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `status` takes."""
    add_run(parser)
    parser.add_argument("--json", action="store_true", help="one object on standard output, an error object included")
    parser.add_argument("--watch", type=seconds, metavar="S", help="again every S seconds, until Ctrl-C")
    describe(
        parser,
        "eagle3 status my_run --json | jq .totals.completion_tokens",
        (ExitCode.OK, ExitCode.FAILED, ExitCode.USAGE, ExitCode.STOPPED, ExitCode.CRITICAL, ExitCode.NOT_A_RUN),
        "How a run is doing. Works without a daemon, and on folders that other tools wrote.\nWhat is not known is - "
        "(null in JSON), never 0.",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the status once, or again and again."""
    monitor = Monitor(arguments.run)
    in_place = bool(arguments.watch) and not arguments.json and sys.stdout.isatty()
    while True:
        status = monitor.refresh()
        if arguments.json:
            print(status_json(status).decode())
        elif in_place:
            _repaint(status)
        elif arguments.watch:
            print(summary_line(status))
        else:
            print_table(status)
        sys.stdout.flush()
        if not arguments.watch:
            return int(exit_code(status))
        time.sleep(arguments.watch)


def status_json(status: RunStatus) -> bytes:
    """Return the status as one JSON object in valid UTF-8, whatever the names of folders hold."""
    try:
        return msgspec.json.encode(status)
    except UnicodeEncodeError:
        return msgspec.json.encode(_without_surrogates(msgspec.to_builtins(status)))


def _without_surrogates(value: object) -> object:
    """A name that is not UTF-8 comes from the system with halves of surrogate pairs in it; JSON can't hold them."""
    match value:
        case str():
            return encodable(value)
        case dict():
            return {encodable(key): _without_surrogates(one) for key, one in value.items()}
        case list():
            return [_without_surrogates(one) for one in value]
    return value


def print_table(status: RunStatus) -> None:
    """Print the status for people."""
    width = min(_columns(), _MOST_WIDTH) if sys.stdout.isatty() else _WIDTH
    for line in status_lines(status, width=width, signs=detect(encoding="utf-8").signs):
        print(line)


def _repaint(status: RunStatus) -> None:
    width, height = _columns(), _rows()
    lines = status_lines(status, width=width, signs=detect(encoding="utf-8").signs)[: height - 1]
    sys.stdout.write(_HOME + "".join(f"{line}{_CLEAR_LINE}\n" for line in lines) + _CLEAR_BELOW)


def _columns() -> int:
    return _terminal_size().columns or _WIDTH


def _rows() -> int:
    return _terminal_size().lines or 24


def _terminal_size() -> os.terminal_size:
    return os.get_terminal_size(sys.stdout.fileno())
