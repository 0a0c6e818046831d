"""Print the findings on a run."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

import msgspec

from contracts.exit_codes import ExitCode
from contracts.run_config import ConfigError
from daemon.findings import ERROR
from daemon.preflight import check_run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what it takes."""
    parser.add_argument("run", type=Path)
    parser.add_argument("--json", action="store_true", help="the only form")


def run(arguments: argparse.Namespace) -> int:
    """Print them; FAILED when one is an error."""
    try:
        findings = asyncio.run(check_run(arguments.run))
    except ConfigError as error:
        print(error, file=sys.stderr)
        return ExitCode.USAGE
    sys.stdout.buffer.write(msgspec.json.encode(findings) + b"\n")
    return ExitCode.FAILED if any(finding.level == ERROR for finding in findings.findings) else ExitCode.OK
