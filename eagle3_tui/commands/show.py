"""`eagle3 show`: all that a run knows of one sample, and what its hidden states are like."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Final

import msgspec

from contracts.exit_codes import ExitCode
from contracts.records import Failure, StoredSample
from eagle3_tui.arguments import add_run, describe, run_dir
from eagle3_tui.commands.daemon_verb import call, tell
from eagle3_tui.commands.verify import Finding
from eagle3_tui.processes import program
from eagle3_tui.terminal import Signs, detect
from eagle3_tui.text import UNKNOWN, counted, human_bytes, human_exact, human_percent, visible, wrap

_WIDTH: Final = 80
_LABEL: Final = 12


class Slot(msgspec.Struct):
    """Statistics of one slot."""

    slot: str
    rms_mean: float | None
    min: float | None
    max: float | None
    absmax: float | None
    zero_pct: float
    non_finite: int


class Shown(msgspec.Struct):
    """What ``python -m daemon show --json`` prints."""

    dataset: str
    sample_id: str | int
    prompt_tokens: int | None
    pretokenized: bool
    completion_tokens: int | None
    finish_reason: str | None
    first_ids: list[int]
    failures: list[Failure]
    stored: StoredSample | None
    dropped: str | None
    slots: list[Slot]
    findings: list[Finding]
    trouble: str | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `show` takes."""
    add_run(parser)
    parser.add_argument("sample", metavar="SAMPLE", help="its sample_id")
    parser.add_argument("--dataset", metavar="NAME", help="needed where several data sets have a sample of that id")
    parser.add_argument("--json", action="store_true", help="the facts as one object")
    describe(
        parser,
        "eagle3 show my_run q-17 --dataset B1_questions",
        (ExitCode.OK, ExitCode.FAILED, ExitCode.USAGE, ExitCode.NOT_A_RUN),
        "All that a run knows of one sample: prompt, response, failed attempts, what is stored, and for each layer\n"
        "the size and range of its hidden states. Reads the sample in full; exit 1 when something is wrong with it.",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    run = run_dir(arguments.run)
    more = [] if arguments.dataset is None else ["--dataset", arguments.dataset]
    command = program("daemon", "show", "--json", *more, "--", run.path, arguments.sample)
    shown, printed = call(command, Shown)
    return tell(printed, shown_lines(shown, detect(encoding="utf-8").signs), as_json=arguments.json)


def shown_lines(shown: Shown, signs: Signs) -> Iterator[str]:
    """Yield a sample for people, at most 80 cells wide."""
    yield from _row("sample", f"{shown.sample_id} of {shown.dataset}")
    kind = ", pre-tokenized" if shown.pretokenized else ""
    yield from _row("prompt", f"{counted(shown.prompt_tokens, 'token')}{kind}")
    if not shown.pretokenized:
        ended = "" if shown.finish_reason is None else f", ended by {shown.finish_reason}"
        yield from _row("response", f"{counted(shown.completion_tokens, 'token')}{ended}")
    yield from _row("first ids", " ".join(map(str, shown.first_ids)) or UNKNOWN)
    for failure in shown.failures:
        yield from _row("failed", f"{failure.stage}: {failure.error}: {failure.message} (then: {failure.next})")
    if shown.dropped is not None:
        yield from _row("given up", shown.dropped)
    yield from _stored_lines(shown.stored)
    yield from _slot_lines(shown.slots)
    for finding in shown.findings:
        yield from wrap(f"{finding.kind}: {finding.what}", _WIDTH, first=f"{signs.critical} ", rest="  ")
    if shown.trouble is not None:
        yield from wrap(shown.trouble, _WIDTH, first=f"{signs.critical} ", rest="  ")
    if shown.stored is not None and not shown.findings and shown.trouble is None:
        yield f"{signs.good} checksum, ids, mask and every value are as they should be"


def _stored_lines(stored: StoredSample | None) -> Iterator[str]:
    if stored is None:
        yield from _row("stored", "no")
        return
    place = f" at byte {stored.offset}" if stored.offset else ""
    yield from _row("stored", f"{stored.file}{place}, row {stored.row}, {human_bytes(stored.bytes)}")
    cut = "" if stored.truncated_from is None else f", cut from {human_exact(stored.truncated_from)}"
    yield from _row("tokens", f"{human_exact(stored.tokens)}{cut}, {human_exact(stored.loss_tokens)} to learn from")
    layers = ", ".join(map(str, stored.layers))
    yield from _row(
        "form", f"layers {layers} and last ({stored.norm}), hidden size {stored.hidden_size}, {stored.dtype}"
    )
    yield from _row("captured", f"{stored.capture}, model {stored.model or UNKNOWN}, by {stored.server or UNKNOWN}")
    yield from _row("checksum", stored.checksum)


def _slot_lines(slots: list[Slot]) -> Iterator[str]:
    if not slots:
        return
    yield ""
    yield f"{'':<{_LABEL}}{'rms':>11}{'min':>11}{'max':>11}{'absmax':>11}{'zeros':>9}{'odd':>7}"
    for slot in slots:
        numbers = "".join(f"{_number(value):>11}" for value in (slot.rms_mean, slot.min, slot.max, slot.absmax))
        zeros = human_percent(slot.zero_pct)
        yield f"{visible(slot.slot):<{_LABEL}}{numbers}{zeros:>9}{human_exact(slot.non_finite):>7}"
    yield ""


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.4g}"


def _row(label: str, text: str) -> Iterator[str]:
    yield from wrap(text, _WIDTH, first=f"{label:<{_LABEL}}", rest=" " * _LABEL)
