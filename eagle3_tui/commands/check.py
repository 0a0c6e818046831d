"""`eagle3 check`: what would go wrong, before the start; the daemon's own code looks, this prints."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Literal

import msgspec

from contracts.exit_codes import ExitCode
from eagle3_tui.arguments import add_run, describe, run_dir
from eagle3_tui.commands.daemon_verb import call, tell
from eagle3_tui.processes import program
from eagle3_tui.terminal import Signs, detect
from eagle3_tui.text import wrap

_WIDTH = 100


class Finding(msgspec.Struct):
    """One thing that was looked at."""

    level: Literal["ok", "warning", "error"]
    what: str
    advice: str | None = None


class Findings(msgspec.Struct):
    """What ``python -m daemon check --json`` prints."""

    findings: list[Finding]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `check` takes."""
    add_run(parser)
    parser.add_argument("--json", action="store_true", help="the findings as one object")
    describe(
        parser,
        "eagle3 check my_run",
        (ExitCode.OK, ExitCode.FAILED, ExitCode.USAGE, ExitCode.NOT_A_RUN),
        "Look at run.toml, prompt files, servers and their answers, disk and GPUs before a start. Sends each server\n"
        "one tiny request. Exit 1 when something would keep the run from working.",
    )


def run(arguments: argparse.Namespace) -> int:
    """Look, and print every finding with what to do."""
    run = run_dir(arguments.run)
    found, printed = call(program("daemon", "check", run.path, "--json"), Findings, nothing="the check found nothing")
    return tell(printed, _lines(found.findings, detect(encoding="utf-8").signs), as_json=arguments.json)


def _lines(findings: list[Finding], signs: Signs) -> Iterator[str]:
    for finding in findings:
        yield from finding_lines(finding, signs)
    yield _sum(findings)


def finding_lines(finding: Finding, signs: Signs) -> list[str]:
    """Return a finding as lines for people."""
    sign = {"ok": signs.good, "warning": signs.warning, "error": signs.critical}[finding.level]
    lines = wrap(finding.what, _WIDTH, first=f"{sign} {finding.level:<8} ", rest=" " * 11)
    return lines + (wrap(finding.advice, _WIDTH, first=" " * 11 + "> ", rest=" " * 13) if finding.advice else [])


def _sum(findings: list[Finding]) -> str:
    errors, warnings = (sum(one.level == level for one in findings) for level in ("error", "warning"))
    return f"errors {errors}, warnings {warnings}, fine {len(findings) - errors - warnings}"
