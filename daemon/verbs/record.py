"""Record a `set` or `retry` of a run that has no daemon."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import msgspec

from contracts.commands import Retry, Set, decode_command
from contracts.exit_codes import ExitCode
from daemon.recording import record_command
from daemon.verbs.answering import answer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what it takes."""
    parser.add_argument("run", type=Path)
    parser.add_argument("command", help="a set or retry, as on the control socket")


def run(arguments: argparse.Namespace) -> int:
    """Record it and print the reply."""
    try:
        command = decode_command(os.fsencode(arguments.command))
    except msgspec.DecodeError as error:
        print(error, file=sys.stderr)
        return ExitCode.USAGE
    if not isinstance(command, Set | Retry):
        print("only set and retry can be recorded", file=sys.stderr)
        return ExitCode.USAGE
    return answer(
        arguments.run,
        lambda: record_command(arguments.run, command),
        lambda reply: reply.ok,
        busy="; it does not answer yet or is ending: try again",
    )
