"""`eagle3 verify`: is what is stored what was meant to be stored; the daemon's own code looks, this prints."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from typing import Final

import msgspec

from contracts.exit_codes import ExitCode
from eagle3_tui.arguments import add_run, describe, natural, run_dir
from eagle3_tui.commands.daemon_verb import call, tell
from eagle3_tui.processes import program
from eagle3_tui.terminal import Signs, detect
from eagle3_tui.text import cell_width, counted, human_bytes, human_count, human_exact, visible, wrap

_WIDTH: Final = 80
_SHOWN: Final = 3
"""Findings of one kind that are told to a person; the JSON holds more."""
_INDENT: Final = " " * 4

_WORDS: Final = {
    "missing": "file missing",
    "truncated": "cut short",
    "conflict": "two in one place",
    "checksum": "bytes changed",
    "unreadable": "not readable",
    "shape": "other form",
    "ids": "wrong token ids",
    "mask": "wrong loss mask",
    "non_finite": "NaN or infinity",
    "zero_row": "all zeros",
    "unwanted": "not wanted",
    "stray": "no record",
    "beside": "trainer's file",
    "tail": "file too long",
    "index": "index damaged",
    "not_stored": "not stored",
    "prompts": "no prompts",
}
_ADVICE: Final = {
    "unreadable": "what cannot be read is left as it is: look at the disk and its log, then verify again",
    "prompts": "put prompts.jsonl back and verify again: without it ids and masks cannot be compared",
    "beside": "start the daemon: it writes what belongs beside the samples anew",
    "not_stored": "start the daemon: it stores what is lacking",
}


class Finding(msgspec.Struct):
    """One thing that is wrong."""

    kind: str
    what: str
    sample_id: str | int | None = None
    file: str | None = None


class Store(msgspec.Struct):
    """One data set's store."""

    dataset: str
    layout: str
    samples: int
    tokens: int
    bytes: int
    examined: int
    not_stored: int
    given_up: int
    retried: int
    left_out: int
    counts: dict[str, int]
    first: list[Finding]
    notes: list[str]


class Report(msgspec.Struct):
    """What ``python -m daemon verify --json`` prints."""

    run: str
    daemon: bool | None
    stores: list[Store]
    repaired: list[str] | None
    left: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `verify` takes."""
    add_run(parser)
    parser.add_argument("--repair", action="store_true", help="give up what is wrong, so that it is made again")
    parser.add_argument("--sample", type=natural, metavar="N", help="read only N samples of each data set, by chance")
    parser.add_argument("--json", action="store_true", help="the report as one object")
    describe(
        parser,
        "eagle3 verify my_run --sample 200",
        (ExitCode.OK, ExitCode.FAILED, ExitCode.USAGE, ExitCode.NOT_A_RUN),
        "Compare stored hidden states with their index, and that with prompts and responses: files, checksums,\n"
        "token ids, loss masks, form, every value. Reads all that is stored, unless --sample says less. Exit 1 when\n"
        "something is wrong (and was not repaired). --repair needs a run without a daemon (eagle3 drain); it records\n"
        "whole samples again that the index has lost, removes the files of what is wrong and what else no record\n"
        "accounts for, and says each; the run's events tell of it.",
    )


def run(arguments: argparse.Namespace) -> int:
    """Look, and print what was found, how much of it, and what to do."""
    run = run_dir(arguments.run)
    more = ["--repair"] if arguments.repair else []
    if arguments.sample is not None:
        more += ["--sample", str(arguments.sample)]
    report, printed = call(program("daemon", "verify", run.path, *more, "--json"), Report)
    return tell(printed, report_lines(report, detect(encoding="utf-8").signs), as_json=arguments.json)


def report_lines(report: Report, signs: Signs) -> Iterator[str]:
    """Yield the report for people, at most 80 cells wide."""
    if not report.stores:
        yield "nothing is stored: run.toml has no stage extract and there is no index of hidden states"
    for store in report.stores:
        yield from _store_lines(store, report.run, signs)
    found: dict[str, int] = {}
    for store in report.stores:
        for kind, count in store.counts.items():
            found[kind] = found.get(kind, 0) + count
    if report.repaired is not None:
        yield ""
        yield "repaired:" if report.repaired else "nothing to repair"
        for sentence in report.repaired:
            yield from wrap(sentence, _WIDTH, first="- ", rest="  ")
    yield ""
    yield _sum(report, found)
    for sentence in _advice(report, found):
        yield from wrap(sentence, _WIDTH, first="> ", rest="  ")


def _store_lines(store: Store, run: str, signs: Signs) -> Iterator[str]:
    wrong = sum(store.counts.values())
    tokens = counted(store.tokens, "token") if store.tokens < 100_000 else f"{human_count(store.tokens)} tokens"
    size = f"{counted(store.samples, 'sample')}, {tokens}, {human_bytes(store.bytes)}"
    read = f"read {human_exact(store.examined)}"
    verdict = f"wrong {human_exact(wrong)}" if wrong else "nothing wrong"
    sign = signs.critical if wrong else signs.good
    yield from wrap(f"{store.dataset} ({store.layout}): {size}; {read}; {verdict}", _WIDTH, first=f"{sign} ", rest="  ")
    for kind, count in store.counts.items():
        yield f"{_INDENT}{_WORDS.get(kind, visible(kind)):<16} {human_exact(count):>7}"
        told = [finding for finding in store.first if finding.kind == kind][:_SHOWN]
        for finding in told:
            yield from wrap(_told(finding), _WIDTH, first=_INDENT * 2, rest=_INDENT * 2 + "  ")
        if count > len(told):
            yield f"{_INDENT * 2}and {human_exact(count - len(told))} more"
    if store.not_stored:
        yield f"{_INDENT}not stored yet: {human_exact(store.not_stored)}"
    if store.given_up:
        yield from wrap(
            f"given up: {human_exact(store.given_up)}{_again(store, run)}", _WIDTH, first=_INDENT, rest=_INDENT
        )
    if store.left_out:
        said = f"left out: {human_exact(store.left_out)} (too long, or nothing in them to learn from)"
        yield from wrap(said, _WIDTH, first=_INDENT, rest=_INDENT)
    for note in store.notes:
        yield from wrap(note, _WIDTH, first=_INDENT, rest=_INDENT)


def _again(store: Store, run: str) -> str:
    """Say which of the given-up samples a retry puts back."""
    if not store.retried:
        return ""
    whom = "them" if store.retried == store.given_up else human_exact(store.retried)
    return f" (eagle3 retry {shlex.quote(run)} --dataset {shlex.quote(store.dataset)} puts {whom} back)"


def _told(finding: Finding) -> str:
    if finding.sample_id is None:
        return finding.what
    where = f" ({finding.file})" if finding.file and cell_width(visible(finding.file)) <= _WIDTH // 2 else ""
    return f"{finding.sample_id}{where}: {finding.what}"


def _sum(report: Report, found: dict[str, int]) -> str:
    total = sum(found.values())
    if report.repaired is None:
        return f"wrong {human_exact(total)}" if total else "all is well"
    return f"wrong {human_exact(total)}, left {human_exact(report.left)}"


def _advice(report: Report, found: dict[str, int]) -> Iterator[str]:
    for kind, sentence in _ADVICE.items():
        if kind in found:
            yield sentence
    run = shlex.quote(report.run)
    if report.repaired is None and found.keys() - _ADVICE.keys():
        first = f"drain it (eagle3 drain {run}), then " if report.daemon else ""
        yield f"{first}give up what is wrong, so that it is made again: eagle3 verify {run} --repair"
        if "stray" in found:
            yield "what has no record and is a whole sample of this run is recorded again by --repair, the rest removed"
    elif report.repaired:
        yield f"what was given up is made again at the next start: eagle3 start {run}"
