"""Print all that a run knows of one sample."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from contracts.exit_codes import ExitCode
from contracts.run_config import ConfigError
from daemon.store.show import NoSuchSampleError, show_sample


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what it takes."""
    parser.add_argument("run", type=Path)
    parser.add_argument("sample")
    parser.add_argument("--dataset", metavar="NAME")
    parser.add_argument("--json", action="store_true", help="the only form")


def run(arguments: argparse.Namespace) -> int:
    """Print it; FAILED when there is no such sample or what is stored of it is wrong."""
    try:
        shown = show_sample(arguments.run, arguments.sample, arguments.dataset)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return ExitCode.USAGE
    except NoSuchSampleError as error:
        print(error, file=sys.stderr)
        return ExitCode.FAILED
    except OSError as error:
        print(f"{error.filename or arguments.run}: {error.strerror or error}", file=sys.stderr)
        return ExitCode.FAILED
    sys.stdout.buffer.write(msgspec.json.encode(shown) + b"\n")
    return ExitCode.FAILED if shown.findings or shown.trouble else ExitCode.OK
