"""`eagle3 start`: the daemon of a run, in the background; returns once it answers, or with its error."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Final

from contracts.commands import Ping
from contracts.control_client import ControlError, send
from contracts.exit_codes import ExitCode
from contracts.run_dir import RunDir
from contracts.status import RunState
from eagle3_tui.arguments import add_run, describe, run_dir
from eagle3_tui.failure import CommandFailed
from eagle3_tui.processes import environment, program
from eagle3_tui.text import visible

START_S: Final = 60.0
"""Longest wait for the daemon's first answer."""
_ASK_S: Final = 0.05
_STARTING: Final = "starting"
_SETTLE_S: Final = 10.0
"""How long a daemon that answers is given to read its prompts: only then is known whether it has anything to do."""
_STDERR: Final = "daemon.stderr"
"""What a daemon says before it has a log, and what Python or C says when it crashes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `start` takes."""
    add_run(parser)
    parser.add_argument(
        "--foreground", action="store_true", help="stay, log to this terminal (for systemd, containers)"
    )
    describe(
        parser,
        "eagle3 start my_run && eagle3 tui my_run",
        (ExitCode.OK, ExitCode.FAILED, ExitCode.USAGE, ExitCode.NOT_A_RUN),
        "Start the daemon of a run. It goes on when this terminal closes; what was done before is not done again.",
    )


def run(arguments: argparse.Namespace) -> int:
    """Start the daemon, and wait until it answers."""
    run = run_dir(arguments.run)
    command = program("daemon", "run", run.path.absolute())
    if arguments.foreground:
        sys.stdout.flush()
        os.execve(command[0], command, environment())
    started = start_detached(run)
    name = visible(run.path)
    if started.state == RunState.FINISHED:
        print(f"the daemon of {name} has nothing left to do and is ending; see: eagle3 status {name}")
        return ExitCode.OK
    at = " and still at its prompts" if started.state == _STARTING else ""
    print(f"the daemon of {name} is running{at} (pid {started.pid}); watch it with: eagle3 tui {name}")
    return ExitCode.OK


@dataclass(frozen=True)
class Started:
    """A daemon that was started."""

    pid: int
    state: str
    """As it names it; ``finished`` also when it has ended by now, its work done."""


def start_detached(run: RunDir, timeout_s: float = START_S) -> Started:
    """Start the daemon so that it outlives us; return once it answers and knows what it has to do.

    Raises:
        CommandFailed: As for `wait_until_answers`.
    """
    process, said_from = launch(run)
    try:
        return Started(process.pid, wait_until_answers(run, process, said_from, timeout_s))
    finally:
        # It is meant to be left alone: nobody will ask how it ended.
        process.returncode = process.returncode or 0


def launch(run: RunDir) -> tuple[subprocess.Popen[bytes], int]:
    """Start the daemon in a session of its own; return it, and where in its file of errors its own begin."""
    with (run.path / _STDERR).open("ab") as stderr:
        said_from = stderr.tell()
        process = subprocess.Popen(
            program("daemon", "run", run.path.absolute()),
            stdin=subprocess.DEVNULL,
            stdout=stderr,
            stderr=stderr,
            env=environment(),
            start_new_session=True,
        )
    return process, said_from


def wait_until_answers(
    run: RunDir, process: subprocess.Popen[bytes], said_from: int, timeout_s: float = START_S
) -> str:
    """Wait until a daemon just launched answers, and for a while until it knows what it has to do.

    Returns:
        Its state, as it names it; ``finished`` also when it has ended by now, its work done.

    Raises:
        CommandFailed: It ended, with its own words and exit code, or does not answer in time and goes on.
    """
    deadline = time.monotonic() + timeout_s
    settle = None
    while (state := _answers(run, process.pid)) is None or state == _STARTING:
        if state is not None:
            settle = time.monotonic() + _SETTLE_S if settle is None else settle
            if time.monotonic() > settle:
                break
        if process.poll() == 0:
            return RunState.FINISHED
        if process.returncode is not None:
            raise _ended(run, process.returncode, said_from)
        if time.monotonic() > deadline:
            raise CommandFailed(
                f"{run.path}: the daemon (pid {process.pid}) has not answered within {timeout_s:.0f} s and goes on "
                f"in the background; see {run.log}, and later: eagle3 status {run.path}"
            )
        time.sleep(_ASK_S)
    return state


def _answers(run: RunDir, pid: int) -> str | None:
    """Return the state that this very daemon names, or None: an older one's answer is no success."""
    try:
        reply = send(run.socket, Ping(), 1.0)
    except ControlError:
        return None
    return str(reply.result.get("state")) if reply.ok and reply.result.get("pid") == pid else None


def _ended(run: RunDir, code: int, said_from: int) -> CommandFailed:
    if code < 0:
        return CommandFailed(f"{run.path}: the daemon was ended by signal {-code} at its start; see {run.log}")
    with (run.path / _STDERR).open("rb") as said:
        said.seek(said_from)
        lines = [line for line in said.read().decode("utf-8", "replace").splitlines() if line.strip()]
    if not lines:
        return CommandFailed(f"{run.path}: the daemon ended with code {code} and said nothing; see {run.log}", code)
    if code == ExitCode.STOPPED:  # it did start, and ended: none of its data sets can be used
        more = f" (and {len(lines) - 1} more like this; see: eagle3 events {run.path})" if len(lines) > 1 else ""
        return CommandFailed(f"the daemon ended, for nothing can be sent: {lines[0]}{more}")
    return CommandFailed(lines[-1].removeprefix("eagle3: "), code)
