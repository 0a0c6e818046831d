"""Write a run's stores in another layout."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from contracts.exit_codes import ExitCode
from contracts.run_config import LAYOUTS, ConfigError
from contracts.wording import counted, human_bytes
from daemon.store.dataset_files import MissingPackageError
from daemon.store.export import Exported, ExportError, export_run
from daemon.store.layout import StoreError
from daemon.verbs.telling import Telling


class ExportReport(msgspec.Struct):
    """What ``python -m daemon export`` prints."""

    layout: str
    datasets: list[Exported]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what it takes."""
    parser.add_argument("run", type=Path)
    parser.add_argument("layout", choices=LAYOUTS)
    parser.add_argument("target", type=Path)
    parser.add_argument("--dataset", action="append", metavar="NAME")
    parser.add_argument("--vocab-size", type=int, metavar="N")


def run(arguments: argparse.Namespace) -> int:
    """Export and print what was done; FAILED when a sample was left out."""
    try:
        done = export_run(
            arguments.run,
            arguments.layout,
            arguments.target,
            datasets=arguments.dataset,
            vocab_size=arguments.vocab_size,
            progress=_Exporting(),
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
    sys.stdout.buffer.write(msgspec.json.encode(ExportReport(arguments.layout, done)) + b"\n")
    return ExitCode.FAILED if any(one.failed for one in done) else ExitCode.OK


class _Exporting(Telling):
    """Tells how much was exported."""

    def __call__(self, done: Exported) -> None:
        """See `daemon.store.export.Progress`."""
        self.count(done.dataset, done.bytes)
        if self.is_due():
            self.tell(
                f"{done.dataset}: {done.already + done.samples:,} of {counted(done.wanted, 'sample')} exported, "
                f"{human_bytes(done.bytes)} of {human_bytes(done.todo_bytes)}, {human_bytes(self.bytes_per_s)}/s"
            )
