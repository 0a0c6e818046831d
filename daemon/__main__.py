"""What the commands of eagle3 call: ``python -m daemon run RUN``, ``check RUN`` and ``record RUN COMMAND``."""

from __future__ import annotations

import argparse
import asyncio
import os
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
    record = verbs.add_parser("record", help="record a command for the next start; prints the reply, as JSON")
    record.add_argument("run", type=Path)
    record.add_argument("command", help="a set or retry, as on the control socket")
    chosen = parser.parse_args(arguments)
    if chosen.verb == "run":
        from daemon.lifecycle import run_daemon

        return run_daemon(chosen.run)
    if chosen.verb == "record":
        return _record(chosen.run, os.fsencode(chosen.command))
    from daemon.preflight import ERROR, check_run

    try:
        findings = asyncio.run(check_run(chosen.run))
    except ConfigError as error:
        print(error, file=sys.stderr)
        return ExitCode.USAGE
    sys.stdout.buffer.write(msgspec.json.encode(findings) + b"\n")
    return ExitCode.FAILED if any(finding.level == ERROR for finding in findings.findings) else ExitCode.OK


def _record(path: Path, text: bytes) -> int:
    from contracts.commands import Retry, Set, decode_command
    from daemon.recording import record_command
    from daemon.single import AlreadyRunning, LockTrouble

    try:
        command = decode_command(text)
        if not isinstance(command, Set | Retry):
            print("only set and retry can be recorded", file=sys.stderr)
            return ExitCode.USAGE
        reply = record_command(path, command)
    except (ConfigError, msgspec.DecodeError) as error:
        print(error, file=sys.stderr)
        return ExitCode.USAGE
    except AlreadyRunning as error:
        print(f"{error}; it does not answer yet or is ending: try again", file=sys.stderr)
        return ExitCode.FAILED
    except LockTrouble as error:
        print(error, file=sys.stderr)
        return ExitCode.FAILED
    except OSError as error:
        print(f"{error.filename or path}: {error.strerror or error}", file=sys.stderr)
        return ExitCode.FAILED
    sys.stdout.buffer.write(msgspec.json.encode(reply) + b"\n")
    return ExitCode.OK if reply.ok else ExitCode.FAILED


if __name__ == "__main__":
    sys.exit(main())
