"""Print all that a run knows of one sample."""

from __future__ import annotations

import argparse
from pathlib import Path

from daemon.store.show import NoSuchSampleError, show_sample
from daemon.verbs.answering import answer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what it takes."""
    parser.add_argument("run", type=Path)
    parser.add_argument("sample")
    parser.add_argument("--dataset", metavar="NAME")
    parser.add_argument("--json", action="store_true", help="the only form")


def run(arguments: argparse.Namespace) -> int:
    """Print it; FAILED when there is no such sample or what is stored of it is wrong."""
    return answer(
        arguments.run,
        lambda: show_sample(arguments.run, arguments.sample, arguments.dataset),
        lambda shown: not shown.findings and not shown.trouble,
        refusals=(NoSuchSampleError,),
    )
