"""`eagle3 pause`, `resume`, `drain` and `stop`: one message to the daemon, its own answer back."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Final

from contracts.commands import Command, Drain, Pause, Reply, Resume, Status, Stop
from contracts.control_client import ControlError, DaemonNotRunning, send, socket_of
from contracts.exit_codes import ExitCode
from contracts.liveness import look
from contracts.run_dir import RunDir
from eagle3_tui.arguments import add_run, describe, run_dir, seconds
from eagle3_tui.failure import CommandFailed
from eagle3_tui.text import visible

STOP_S: Final = 60.0
"""How long a stop may take before it is told that something is wrong."""
TELL_EVERY_S: Final = 10.0
"""How often a drain says how far it is."""
_LOOK_S: Final = 0.1
_COMMANDS: Final[dict[str, type[Pause | Resume | Drain | Stop]]] = {
    "pause": Pause,
    "resume": Resume,
    "drain": Drain,
    "stop": Stop,
}
_ENDING: Final = ("drain", "stop")
CODES: Final = (ExitCode.OK, ExitCode.FAILED, ExitCode.USAGE, ExitCode.STOPPED, ExitCode.NOT_A_RUN)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command of this parser takes."""
    name = parser.prog.rpartition(" ")[2]
    add_run(parser)
    add_timeout(parser)
    if name == "pause":
        parser.add_argument("--reason", metavar="TEXT", help="shown wherever the run is shown")
    if name in _ENDING:
        parser.add_argument("--no-wait", action="store_true", help="return at once, not when the daemon is gone")
    describe(parser, f"eagle3 {name} my_run", CODES, parser.description or "")


def add_timeout(parser: argparse.ArgumentParser) -> None:
    """Add how long the daemon's answer is waited for."""
    parser.add_argument("--timeout", type=seconds, default=10.0, metavar="S", help="for the daemon's answer (10)")


def run(arguments: argparse.Namespace) -> int:
    """Send the command; for `drain` and `stop`, wait until the daemon is gone."""
    run = run_dir(arguments.run)
    kind = _COMMANDS[arguments.command]
    command = Pause(reason=arguments.reason) if kind is Pause else kind()
    try:
        print(visible(ask(run, command, arguments.timeout).message), flush=True)
    except DaemonNotRunning:
        if arguments.command not in _ENDING or look(run).alive:
            raise
        print(f"no daemon of {visible(run.path)} is running: nothing to {arguments.command}")
        return ExitCode.OK
    if arguments.command in _ENDING and not arguments.no_wait:
        if kind is Stop:
            wait_until_gone(run, STOP_S)
        else:
            wait_until_gone(run, None, lambda: print(_still_open(run), flush=True))
        print(f"the daemon of {visible(run.path)} has ended")
    return ExitCode.OK


def ask(run: RunDir, command: Command, timeout_s: float = 10.0) -> Reply:
    """Send a command to the daemon of a run and return its reply.

    Raises:
        CommandFailed: The daemon refused; its own words.
        ControlError: No daemon, no reply.
    """
    reply = send(socket_of(run), command, timeout_s, run=run.path)
    if not reply.ok:
        raise CommandFailed(reply.message)
    return reply


def _still_open(run: RunDir) -> str:
    """Return how far a drain is, and how it is cut short."""
    name = visible(run.path)
    try:
        totals = send(socket_of(run), Status(), run=run.path).result.get("totals", {})
    except ControlError:
        return f"the daemon of {name} is ending"
    count = totals.get("in_flight")
    return f"{'?' if count is None else count} requests are still open; to end at once: eagle3 stop {name}"


def wait_until_gone(run: RunDir, timeout_s: float | None, tell: Callable[[], None] | None = None) -> None:
    """Wait until nobody holds the run's lock.

    Args:
        run: The run.
        timeout_s: Seconds; None: as long as it takes.
        tell: Called every `TELL_EVERY_S` seconds.

    Raises:
        CommandFailed: It still holds the lock.
    """
    told = time.monotonic()
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while (found := look(run)).alive:
        if deadline is not None and time.monotonic() > deadline:
            who = "the daemon" if found.pid is None else f"the daemon (pid {found.pid})"
            raise CommandFailed(
                f"{run.path}: {who} is still there after {timeout_s:.0f} s, see {run.log}; "
                "killing it with -9 loses at most what is in flight"
            )
        if tell is not None and time.monotonic() - told >= TELL_EVERY_S:
            tell()
            told = time.monotonic()
        time.sleep(_LOOK_S)
