"""Alerts on one data set."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final

from contracts.alerts.view import View, make_alert
from contracts.fold.dataset import DatasetFold
from contracts.records import FailureClass, Severity
from contracts.run_dir import FAILURES, HIDDEN_STATES, PROMPTS, RESPONSES
from contracts.status import AlertStatus
from contracts.wording import counted
from contracts.work import generates


def _tokens_zero(view: View, dataset: DatasetFold) -> Iterator[AlertStatus]:
    responses = dataset.responses
    if not responses.done or responses.completion_tokens:
        return
    stated = "their token counts add up to 0" if responses.known else "none of them states a token count"
    yield make_alert(
        "tokens_zero",
        Severity.CRITICAL,
        f"{counted(len(responses.done), 'response is', 'responses are')} there, but {stated}",
        "The producer's record shape may have changed: look at the newest lines of raw_responses.jsonl.",
        dataset,
    )


def _unreadable(view: View, dataset: DatasetFold) -> Iterator[AlertStatus]:
    for file, places in dataset.unreadable_places():
        if not places.count:
            continue
        first = places.first[0]
        lines = {
            PROMPTS: dataset.prompts.lines,
            RESPONSES: dataset.responses.lines,
            FAILURES: dataset.failures.lines,
            HIDDEN_STATES: dataset.hidden.lines,
        }
        of_lines = lines[file]
        severity = Severity.CRITICAL if places.count * 10 > of_lines and places.count > 10 else Severity.WARNING
        yield make_alert(
            "unreadable_lines",
            severity,
            f"{places.count:,} of {counted(of_lines, 'line')} of {file} fit no known shape; the first is "
            f"line {first.line} (byte {first.offset}): {first.why}",
            "They are not in any count. Repair or remove the lines; their samples are sent again if prompts are there.",
            dataset,
        )


def _count_mismatch(view: View, dataset: DatasetFold) -> Iterator[AlertStatus]:
    places = dataset.responses.contradictions
    if places.count:
        first = places.first[0]
        yield make_alert(
            "count_mismatch",
            Severity.CRITICAL,
            f"{counted(places.count, 'response contradicts itself', 'responses contradict themselves')}; "
            f"the first is line {first.line} (byte {first.offset}): "
            f"{first.why}",
            "Do not train on this file before you know which of the two is right.",
            dataset,
        )


def _halted(view: View, dataset: DatasetFold) -> Iterator[AlertStatus]:
    if dataset.failures.halted is not None and generates(view.fold):
        yield make_alert(
            "dataset_halted",
            Severity.CRITICAL,
            f"stopped, the server's answers do not hold what was agreed: {dataset.failures.halted}",
            f"Check the server (eagle3 check {view.run}), then: {view.retry(dataset, FailureClass.CONTRACT_DRIFT)}",
            dataset,
        )


def _quarantined(view: View, dataset: DatasetFold) -> Iterator[AlertStatus]:
    held = [failure for _, failure in dataset.given_up()]
    if held:
        last = max(held, key=lambda failure: failure.at)
        yield make_alert(
            "quarantined",
            Severity.WARNING,
            f"{counted(len(held), 'sample is', 'samples are')} given up after the last attempt; newest: "
            f"{last.error}: {last.message}",
            f"Try them again with: {view.retry(dataset)}",
            dataset,
        )


def _prompts_failed(view: View, dataset: DatasetFold) -> Iterator[AlertStatus]:
    failed = view.fold.events.prompts_failed.get(dataset.name)
    if failed is not None:
        yield make_alert(
            "prompts_failed",
            Severity.CRITICAL,
            f"nothing of it can be sent: {failed}",
            "Correct that, then start the daemon again: prompts are read at its start.",
            dataset,
        )


def _prompts_refused(view: View, dataset: DatasetFold) -> Iterator[AlertStatus]:
    """Judge refusals: none usable is a data set that looks finished because there is nothing to do."""
    failures = dataset.failures
    refused = [*failures.refused_lines.values(), *failures.refused_source_lines.values()]
    usable = dataset.usable_prompts or 0
    if not refused or len(refused) * 100 < view.limits.refused_share_pct * (usable + len(refused)):
        return
    yield make_alert(
        "prompts_refused",
        Severity.WARNING if usable else Severity.CRITICAL,
        f"{len(refused):,} of {counted(usable + len(refused), 'prompt')} cannot be used"
        + ("" if usable else ", so nothing of it is sent")
        + f"; the first: {refused[0].removeprefix(f'{dataset.name}: ')}",
        f"See all with: eagle3 check {view.run}. Often [sampling] max_new_tokens leaves no room for the prompt in the "
        "context.",
        dataset,
    )


def _target_short(view: View, dataset: DatasetFold) -> Iterator[AlertStatus]:
    target, tokens = view.fold.target_of(dataset.name), dataset.responses.completion_tokens
    prompts, quarantined = dataset.prompts_to_answer, dataset.quarantined
    if target is None or not prompts or tokens >= target or not generates(view.fold):
        return
    if len(dataset.responses.done) + quarantined >= prompts:
        yield make_alert(
            "target_short",
            Severity.WARNING,
            f"its prompts are used up at {tokens:,} of {target:,} completion tokens ({100 * tokens / target:.0f} %)",
            "Give it more prompts, a longer max_new_tokens in a new run, or a lower target: eagle3 set "
            f"{view.run} --target {shlex.quote(dataset.name)}=TOKENS.",
            dataset,
        )


DATASET_RULES: Final = (
    _tokens_zero,
    _unreadable,
    _count_mismatch,
    _halted,
    _prompts_failed,
    _prompts_refused,
    _quarantined,
    _target_short,
)
"""Each yields the alerts of its kind that hold for a data set."""
