"""The screen's way to the daemon, and past it where none runs: the same as the commands of the same names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from contracts.commands import Command, Reply, Retry, Set
from contracts.control_client import send, socket_of
from contracts.run_dir import RunDir
from eagle3_tui.commands.recorded import ask_or_record
from eagle3_tui.failure import CommandFailed

TIMEOUT_S: Final = 5.0


def sender_for(path: Path) -> Callable[[Command], Reply]:
    """Return what sends a command to the daemon of a run and returns its reply.

    A `Set` or a `Retry` is recorded for the next start where no daemon runs, as ``eagle3 set`` and ``eagle3 retry`` do.
    What is returned raises `contracts.control_client.ControlError` where there is no reply.
    """
    run = RunDir(path)

    def sender(command: Command) -> Reply:
        if not isinstance(command, (Set, Retry)):
            return send(socket_of(run), command, TIMEOUT_S, run=path)
        try:
            return ask_or_record(run, command, TIMEOUT_S)
        except CommandFailed as refusal:
            return Reply(ok=False, message=str(refusal))

    return sender
