"""Write a run's stores in another layout."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Final

from contracts.exit_codes import ExitCode
from contracts.run_config import LAYOUTS, ConfigError
from daemon.store.dataset_files import MissingPackageError
from daemon.store.export import Exported, ExportError, export_run
from daemon.store.layout import StoreError

_TELL_EVERY_S: Final = 5.0
_TOLD: Final = 10
"""Samples of a data set that could not be exported and are named; all are counted."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what it takes."""
    parser.add_argument("run", type=Path)
    parser.add_argument("layout", choices=LAYOUTS)
    parser.add_argument("target", type=Path)
    parser.add_argument("--dataset", action="append", metavar="NAME")


def run(arguments: argparse.Namespace) -> int:
    """Export, telling how far it is; FAILED when a sample was left out."""
    telling = _Telling()
    try:
        done = export_run(
            arguments.run, arguments.layout, arguments.target, datasets=arguments.dataset, progress=telling
        )
    except ConfigError as error:
        print(error, file=sys.stderr)
        return ExitCode.USAGE
    except (ExportError, StoreError, MissingPackageError) as error:
        print(error, file=sys.stderr)
        return ExitCode.FAILED
    except OSError as error:
        where = error.filename or arguments.target
        print(f"{where}: {error.strerror or error}; the same command goes on where it ended", file=sys.stderr)
        return ExitCode.FAILED
    except KeyboardInterrupt:
        print("ended; the same command goes on where it ended", file=sys.stderr)
        return ExitCode.FAILED
    failed = sum(len(one.failed) for one in done)
    for one in done:
        _tell(one)
    if failed:
        print(
            f"{failed:,} samples were not exported: their files are not what was stored. "
            f"eagle3 verify {arguments.run} says more; after a repair the same command exports them",
            file=sys.stderr,
        )
        return ExitCode.FAILED
    return ExitCode.OK


def _tell(done: Exported) -> None:
    for note in done.notes:
        print(note)
    for sentence in done.failed[:_TOLD]:
        print(f"{done.dataset}: not exported: {sentence}")
    if len(done.failed) > _TOLD:
        print(f"{done.dataset}: not exported: {len(done.failed) - _TOLD:,} more")
    before = f", {done.already:,} were there already" if done.already else ""
    gone = f", {done.removed:,} that the run has no longer were removed" if done.removed else ""
    print(
        f"{done.dataset}: exported {done.samples:,} samples, {done.tokens:,} tokens, {done.bytes / 1e9:,.3f} GB to "
        f"{done.folder}{before}{gone}",
        flush=True,
    )


class _Telling:
    """Tells how far it is, when it takes long."""

    def __init__(self) -> None:
        self._began = self._told = time.monotonic()
        self._bytes_before = self._bytes = 0
        self._dataset = ""

    def __call__(self, done: Exported) -> None:
        """See `daemon.store.export.Progress`."""
        if done.dataset != self._dataset:
            self._dataset, self._bytes_before = done.dataset, self._bytes
        self._bytes = self._bytes_before + done.bytes
        now = time.monotonic()
        if now - self._told < _TELL_EVERY_S:
            return
        self._told = now
        rate = self._bytes / (now - self._began) / 1e6
        print(
            f"progress: {done.dataset}: {done.already + done.samples:,} of {done.wanted:,} samples, "
            f"{done.bytes / 1e9:,.1f} of {done.todo_bytes / 1e9:,.1f} GB, {rate:,.0f} MB/s",
            flush=True,
        )
