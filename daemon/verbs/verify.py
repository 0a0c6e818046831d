"""Compare the stores of a run with their indexes and its responses; repair them when that is asked for."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Final

from contracts.clock import Clock
from contracts.journal.append import Journal
from contracts.records import Event, Severity, encode_line
from contracts.run_dir import RunDir
from contracts.wording import counted, human_bytes
from daemon.single import LockTrouble, SingleInstance
from daemon.store.findings import StoreReport, VerifyReport
from daemon.store.layout import StoreError
from daemon.store.repair import Repaired, repair_store
from daemon.store.verify import verify_run
from daemon.verbs.answering import answer

REPAIRED: Final = "store.repaired"
_TELL_EVERY_S: Final = 5.0
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
    return verify_run(arguments.run, sample=arguments.sample, progress=Telling())[0]


def _repaired(arguments: argparse.Namespace) -> VerifyReport:
    lock = SingleInstance(RunDir(arguments.run))
    lock.hold()
    try:
        report, stores = verify_run(arguments.run, sample=arguments.sample, holding_lock=True, progress=Telling())
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
    journal = Journal(run.events)
    try:
        journal.append(encode_line(event))
        journal.sync()
    finally:
        journal.close()


class Telling:
    """Tells on standard error how far it is, when it takes long."""

    def __init__(self) -> None:
        self._began = self._told = time.monotonic()
        self._dataset = ""
        self._bytes_before = self._bytes = 0

    def __call__(self, dataset: str, report: StoreReport, wanted: int) -> None:
        """See `daemon.store.verify.Progress`."""
        if dataset != self._dataset:
            self._dataset, self._bytes_before = dataset, self._bytes
        self._bytes = self._bytes_before + report.examined_bytes
        now = time.monotonic()
        if now - self._told < _TELL_EVERY_S:
            return
        self._told = now
        found = sum(report.counts.values())
        print(
            f"progress: {dataset}: {report.examined:,} of {counted(wanted, 'sample')} read, "
            f"{human_bytes(self._bytes)} in all, {human_bytes(self._bytes / (now - self._began))}/s, found {found:,}",
            file=sys.stderr,
            flush=True,
        )


class Recording:
    """Tells on standard error how many samples were read to be recorded again, when it takes long."""

    def __init__(self, dataset: str) -> None:
        self._dataset = dataset
        self._told = time.monotonic()

    def __call__(self, done: int, of: int, size: int) -> None:
        """See `daemon.store.adopting.Progress`."""
        now = time.monotonic()
        if now - self._told < _TELL_EVERY_S:
            return
        self._told = now
        print(
            f"progress: {self._dataset}: {done:,} of {counted(of, 'sample')} without a record read, "
            f"{human_bytes(size)}",
            file=sys.stderr,
            flush=True,
        )
