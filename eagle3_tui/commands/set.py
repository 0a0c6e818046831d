"""`eagle3 set`: change the run while it runs; the change outlives a restart."""

from __future__ import annotations

import argparse

from contracts.commands import Set
from contracts.exit_codes import ExitCode
from eagle3_tui.arguments import add_run, describe, natural, run_dir
from eagle3_tui.commands.control import CODES, add_timeout, ask
from eagle3_tui.failure import UsageError
from eagle3_tui.text import visible

_MOST_CONCURRENCY = 65_536


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `set` takes."""
    add_run(parser)
    parser.add_argument(
        "--concurrency", type=natural, metavar="N", help=f"requests in flight, 1 to {_MOST_CONCURRENCY}"
    )
    parser.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="DATASET=TOKENS",
        help="completion tokens that a data set shall reach; may be given several times",
    )
    add_timeout(parser)
    describe(parser, "eagle3 set my_run --concurrency 512 --target B1_questions=20_000_000", CODES)


def run(arguments: argparse.Namespace) -> int:
    """Send the change."""
    if arguments.concurrency is None and not arguments.target:
        raise UsageError("nothing to set: give --concurrency or --target")
    if arguments.concurrency is not None and not 1 <= arguments.concurrency <= _MOST_CONCURRENCY:
        raise UsageError(f"--concurrency must be 1 to {_MOST_CONCURRENCY}, not {arguments.concurrency}")
    targets = dict(_target(text) for text in arguments.target)
    command = Set(concurrency=arguments.concurrency, targets=targets)
    print(visible(ask(run_dir(arguments.run), command, arguments.timeout).message))
    return ExitCode.OK


def _target(text: str) -> tuple[str, int]:
    name, equals, tokens = text.rpartition("=")
    try:
        if not equals or not name:
            raise ValueError(text)
        return name, natural(tokens)
    except ValueError:
        raise UsageError(f"--target must be DATASET=TOKENS, like B1_questions=1_000_000, not {text!r}") from None
