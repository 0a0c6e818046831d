"""Compare the stores of a run with their indexes and its responses; repair them when that is asked for."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from contracts.clock import Clock
from contracts.journal.append import append_durably
from contracts.records import Event, Severity, encode_line
from contracts.run_dir import RunDir
from contracts.wording import counted, human_bytes
from daemon.single import LockTrouble, SingleInstance
from daemon.store.findings import StoreReport, VerifyReport
from daemon.store.layout import StoreError
from daemon.store.repair import Repaired, repair_store
from daemon.store.verify import verify_run
from daemon.verbs.answering import answer
from daemon.verbs.telling import Telling

REPAIRED: Final = "store.repaired"
_NOTED: Final = 50
"""So many sentences stand in the event; all of them are printed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what it takes."""
    parser.add_argument("run", type=Path)
    parser.add_argument("--repair", action="store_true")
    parser.add_argument("--sample", type=int, metavar="N")
    parser.add_argument("--json", action="store_true", help="the only form")


def run(arguments: argparse.Namespace) -> int:
    """Print the report; FAILED when something is wrong and was not repaired."""
    return answer(
        arguments.run,
        lambda: _repaired(arguments) if arguments.repair else _looked_at(arguments),
        lambda report: not report.left,
        busy=f". A repair needs the run for itself: eagle3 drain {arguments.run}",
        refusals=(LockTrouble, StoreError),
    )


def _looked_at(arguments: argparse.Namespace) -> VerifyReport:
    return verify_run(arguments.run, sample=arguments.sample, progress=Reading())[0]


def _repaired(arguments: argparse.Namespace) -> VerifyReport:
    lock = SingleInstance(RunDir(arguments.run))
    lock.hold()
    try:
        report, stores = verify_run(arguments.run, sample=arguments.sample, holding_lock=True, progress=Reading())
        report.repaired, report.left = [], 0
        for store in stores:
            done = repair_store(store, Recording(store.name))
            report.repaired += done.said
            report.left += done.left
            if done.said:
                _note(RunDir(arguments.run), done)
        return report
    finally:
        lock.release()


def _note(run: RunDir, done: Repaired) -> None:
    """Append what was done to the run's events: no daemon does while we hold its lock."""
    said = [sentence.encode("utf-8", "backslashreplace").decode() for sentence in done.said]
    event = Event(
        at=Clock().now(),
        severity=Severity.WARNING,
        kind=REPAIRED,
        message=done.summary,
        dataset=done.dataset,
        data={"said": said[:_NOTED], "more": max(len(said) - _NOTED, 0)},
    )
    append_durably(run.events, encode_line(event))


class Reading(Telling):
    """Tells how much was read."""

    def __call__(self, dataset: str, report: StoreReport, wanted: int) -> None:
        """See `daemon.store.verify.Progress`."""
        self.count(dataset, report.examined_bytes)
        if self.is_due():
            found = sum(report.counts.values())
            self.tell(
                f"{dataset}: {report.examined:,} of {counted(wanted, 'sample')} read, {human_bytes(self.bytes)} in "
                f"all, {human_bytes(self.bytes_per_s)}/s, found {found:,}"
            )


class Recording(Telling):
    """Tells how many samples were read to be recorded again."""

    def __init__(self, dataset: str) -> None:
        super().__init__()
        self._of = dataset

    def __call__(self, done: int, of: int, size: int) -> None:
        """See `daemon.store.adopting.Progress`."""
        if self.is_due():
            self.tell(f"{self._of}: {done:,} of {counted(of, 'sample')} without a record read, {human_bytes(size)}")
