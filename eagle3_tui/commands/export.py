"""`eagle3 export`: a run's hidden states in the layout of another trainer; the daemon's own code writes them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from contracts.exit_codes import ExitCode
from contracts.run_config import LAYOUTS
from eagle3_tui.arguments import add_run, describe, natural, run_dir
from eagle3_tui.commands.daemon_verb import call
from eagle3_tui.failure import UsageError
from eagle3_tui.processes import program
from eagle3_tui.text import counted, human_bytes, human_exact, visible


class Exported(msgspec.Struct):
    """What was done for one data set."""

    dataset: str
    folder: str
    already: int
    samples: int
    tokens: int
    bytes: int
    removed: int
    failed: int
    first_failed: list[str]
    notes: list[str]
    missing: list[str]


class Report(msgspec.Struct):
    """What ``python -m daemon export`` prints."""

    layout: str
    datasets: list[Exported]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `export` takes."""
    add_run(parser)
    parser.add_argument(
        "--to",
        nargs=2,
        required=True,
        metavar=("LAYOUT", "DIR"),
        help=f"{', '.join(LAYOUTS)}; and a folder, in which each data set gets its own",
    )
    parser.add_argument(
        "--dataset", action="append", metavar="NAME", help="only this data set; may be given several times"
    )
    parser.add_argument(
        "--vocab-size",
        type=natural,
        metavar="N",
        help="size of the model's vocabulary, for the maps of the draft vocabulary, where the run does not know it",
    )
    parser.add_argument("--json", action="store_true", help="what was done as one object")
    describe(
        parser,
        "eagle3 export my_run --to speculators exported",
        (ExitCode.OK, ExitCode.FAILED, ExitCode.USAGE, ExitCode.NOT_A_RUN),
        "Write what a run has stored in another layout, with the files that its trainer reads beside the tensors.\n"
        "Each sample's checksum is compared first. Ended early, the same command goes on; called again later, it adds\n"
        "what has come since. The run is left as it is, and may be running.",
    )


def run(arguments: argparse.Namespace) -> int:
    """Export, and print what was done."""
    layout, target = arguments.to
    if layout not in LAYOUTS:
        raise UsageError(f"--to: unknown layout {layout!r}; known: {', '.join(LAYOUTS)}")
    run = run_dir(arguments.run)
    chosen = [part for name in arguments.dataset or [] for part in ("--dataset", name)]
    if arguments.vocab_size is not None:
        chosen += ["--vocab-size", str(arguments.vocab_size)]
    report, printed = call(
        program("daemon", "export", run.path.absolute(), layout, Path(target).absolute(), *chosen), Report
    )
    for done in report.datasets:
        for sentence in done.missing:
            print(visible(f"{done.dataset}: not written: {sentence}"), file=sys.stderr)
    if arguments.json:
        sys.stdout.write(printed.out.decode())
        return printed.code
    for done in report.datasets:
        for line in lines_of(done):
            print(visible(line))
    if any(done.failed for done in report.datasets):
        print(f"after eagle3 verify {visible(run.path)} --repair the same command exports what was left out")
    return printed.code


def lines_of(done: Exported) -> Iterator[str]:
    """Yield what was done for one data set, for people."""
    yield from done.notes
    for sentence in done.first_failed:
        yield f"{done.dataset}: not exported: {sentence}"
    if more := done.failed - len(done.first_failed):
        yield f"{done.dataset}: not exported: {human_exact(more)} more"
    before = f", {counted(done.already, 'was', 'were')} there already" if done.already else ""
    gone = f", {counted(done.removed, 'was', 'were')} removed that the run has no longer" if done.removed else ""
    left = f", {human_exact(done.failed)} left out" if done.failed else ""
    lacking = f"; {counted(len(done.missing), 'thing')} beside them not written, see above" if done.missing else ""
    yield (
        f"{done.dataset}: exported {counted(done.samples, 'sample')}, {counted(done.tokens, 'token')}, "
        f"{human_bytes(done.bytes)} to {done.folder}{before}{gone}{left}{lacking}"
    )
