"""Commands that need no daemon: asked of it when there is one, recorded for the next start when there is none."""

from __future__ import annotations

import subprocess
from typing import Final

import msgspec

from contracts.commands import Reply, Retry, Set, decode_reply
from contracts.control_client import DaemonNotRunning
from contracts.exit_codes import ExitCode
from contracts.records import encode_line
from contracts.run_dir import RunDir
from eagle3_tui.commands.control import ask
from eagle3_tui.failure import CommandFailed
from eagle3_tui.processes import environment, program

CODES: Final = (ExitCode.OK, ExitCode.FAILED, ExitCode.USAGE, ExitCode.NOT_A_RUN)


def ask_or_record(run: RunDir, command: Set | Retry, timeout_s: float) -> Reply:
    """Send a command to the daemon of a run; without one, have the daemon's own code record it.

    Raises:
        CommandFailed: It was refused; in the daemon's words.
        ControlError: A daemon is there and gives no reply.
    """
    try:
        return ask(run, command, timeout_s)
    except DaemonNotRunning:
        return _record(run, command)


def _record(run: RunDir, command: Set | Retry) -> Reply:
    line = encode_line(command).decode().rstrip()
    done = subprocess.run(
        program("daemon", "record", run.path.absolute(), line),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment(),
        check=False,
    )
    try:
        reply = decode_reply(done.stdout)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        words = done.stderr.decode("utf-8", "replace").strip().splitlines()
        said = words[-1] if words else f"nothing was recorded: {error}"
        raise CommandFailed(said, done.returncode or ExitCode.FAILED) from error
    if not reply.ok:
        raise CommandFailed(reply.message)
    return reply
