"""`eagle3 retry`: put failed or quarantined samples back into the queue."""

from __future__ import annotations

import argparse

from contracts.commands import Retry
from contracts.exit_codes import ExitCode
from contracts.records import FailureClass
from eagle3_tui.arguments import add_run, describe, run_dir
from eagle3_tui.commands.control import add_timeout
from eagle3_tui.commands.recorded import CODES, ask_or_record
from eagle3_tui.text import visible


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `retry` takes."""
    add_run(parser)
    parser.add_argument("--dataset", metavar="NAME", help="only of this data set")
    parser.add_argument("--error", choices=[str(one) for one in FailureClass], metavar="CLASS", help=_classes())
    parser.add_argument("--sample", metavar="ID", help="only this sample")
    add_timeout(parser)
    describe(
        parser,
        "eagle3 retry my_run --dataset B1_questions --error transient",
        CODES,
        "Put failed or quarantined samples back into the queue: all but invalid input, or what is named.\n"
        "Without a daemon it is recorded, and takes effect at the next start.",
    )


def run(arguments: argparse.Namespace) -> int:
    """Send the request, or record it where no daemon runs; the answer says how many samples are put back."""
    command = Retry(
        dataset=arguments.dataset,
        error=FailureClass(arguments.error) if arguments.error else None,
        sample_id=arguments.sample,
    )
    print(visible(ask_or_record(run_dir(arguments.run), command, arguments.timeout).message))
    return ExitCode.OK


def _classes() -> str:
    return f"only failures of this class: {', '.join(FailureClass)}"
