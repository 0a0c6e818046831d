"""``python -m daemon run RUN`` and ``python -m daemon check RUN``: what `eagle3 start` and `eagle3 check` call."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

import msgspec

from contracts.exit_codes import ExitCode
from contracts.run_config import ConfigError


def main(arguments: list[str] | None = None) -> int:
    """Do what the arguments say and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m daemon", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="be the daemon of a run, in the foreground")
    run.add_argument("run", type=Path)
    check = verbs.add_parser("check", help="print the findings on a run, as JSON")
    check.add_argument("run", type=Path)
    check.add_argument("--json", action="store_true", help="the only form")
    chosen = parser.parse_args(arguments)
    if chosen.verb == "run":
        from daemon.lifecycle import run_daemon

        return run_daemon(chosen.run)
    from daemon.preflight import ERROR, check_run

    try:
        findings = asyncio.run(check_run(chosen.run))
    except ConfigError as error:
        print(error, file=sys.stderr)
        return ExitCode.USAGE
    sys.stdout.buffer.write(msgspec.json.encode(findings) + b"\n")
    return ExitCode.FAILED if any(finding.level == ERROR for finding in findings.findings) else ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
