"""`eagle3 set`: change the run; the change outlives a restart, and every edit of run.toml until it is taken back."""

from __future__ import annotations

import argparse
from typing import Literal

from contracts.commands import DEFAULT, Set
from contracts.exit_codes import ExitCode
from eagle3_tui.arguments import add_run, describe, natural, run_dir
from eagle3_tui.commands.control import add_timeout
from eagle3_tui.commands.recorded import CODES, ask_or_record
from eagle3_tui.failure import UsageError
from eagle3_tui.text import visible

_MOST_CONCURRENCY = 65_536


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `set` takes."""
    add_run(parser)
    parser.add_argument(
        "--concurrency", type=_natural_or_default, metavar="N", help=f"requests in flight, 1 to {_MOST_CONCURRENCY}"
    )
    parser.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="DATASET=TOKENS",
        help="completion tokens that a data set shall reach; may be given several times",
    )
    add_timeout(parser)
    describe(
        parser,
        "eagle3 set my_run --concurrency 512 --target B1_questions=20_000_000",
        CODES,
        f"Change the run, now and over restarts, whatever run.toml says; {DEFAULT!r} as the value: as run.toml says.\n"
        "Without a daemon it is recorded, and takes effect at the next start.",
    )


def run(arguments: argparse.Namespace) -> int:
    """Send the change, or record it where no daemon runs."""
    if arguments.concurrency is None and not arguments.target:
        raise UsageError("nothing to set: give --concurrency or --target")
    concurrency: int | Literal["default"] | None = arguments.concurrency
    if isinstance(concurrency, int) and not 1 <= concurrency <= _MOST_CONCURRENCY:
        raise UsageError(f"--concurrency must be 1 to {_MOST_CONCURRENCY}, not {concurrency}")
    targets = dict(_target(text) for text in arguments.target)
    command = Set(concurrency=concurrency, targets=targets)
    print(visible(ask_or_record(run_dir(arguments.run), command, arguments.timeout).message))
    return ExitCode.OK


def _target(text: str) -> tuple[str, int | Literal["default"]]:
    name, equals, tokens = text.rpartition("=")
    try:
        if not equals or not name:
            raise ValueError(text)
        return name, _natural_or_default(tokens)
    except ValueError:
        raise UsageError(f"--target must be DATASET=TOKENS, like B1_questions=1_000_000, not {text!r}") from None


def _natural_or_default(text: str) -> int | Literal["default"]:
    return DEFAULT if text == DEFAULT else natural(text)
