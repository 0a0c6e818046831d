"""Compare the stores of a run with their indexes and its responses; repair them when that is asked for."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Final

from contracts.run_dir import RunDir
from daemon.single import SingleInstance
from daemon.store.findings import StoreReport, VerifyReport
from daemon.store.repair import repair_store
from daemon.store.verify import verify_run
from daemon.verbs.answering import answer

_TELL_EVERY_S: Final = 5.0


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
            said, left = repair_store(store)
            report.repaired += said
            report.left += left
        return report
    finally:
        lock.release()


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
        rate = self._bytes / (now - self._began) / 1e9
        found = sum(report.counts.values())
        print(
            f"progress: {dataset}: {report.examined:,} of {wanted:,} samples read, {self._bytes / 1e9:,.1f} GB in all, "
            f"{rate:.2f} GB/s, found {found:,}",
            file=sys.stderr,
            flush=True,
        )
