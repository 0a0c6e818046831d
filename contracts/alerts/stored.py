"""Alerts on the hidden states of one data set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from contracts.alerts.view import View, make_alert
from contracts.fold.dataset import DatasetFold
from contracts.records import FailureClass, Severity
from contracts.status import AlertStatus
from contracts.wording import counted
from contracts.work import extracts, generates


def _extract_halted(view: View, dataset: DatasetFold) -> Iterator[AlertStatus]:
    if dataset.failures.extract_halted is not None and extracts(view.fold):
        yield make_alert(
            "extract_halted",
            Severity.CRITICAL,
            f"its hidden states are no longer taken, they are wrong in the same way each time: "
            f"{dataset.failures.extract_halted}",
            f"Start the server with the command that eagle3 server-args {view.run} prints (layers, norm, no prefix "
            f"cache), or correct [extract], then: {view.retry(dataset, FailureClass.CAPTURE)}",
            dataset,
        )


def _given_up(view: View, dataset: DatasetFold) -> Iterator[AlertStatus]:
    if dataset.extract_tally.given_up:
        held = [failure for _, failure in dataset.extract_given_up_samples() if not failure.is_skipped]
        last = max(held, key=lambda failure: failure.at)
        yield make_alert(
            "not_stored",
            Severity.WARNING,
            f"the hidden states of {counted(len(held), 'sample')} are given up; newest: {last.check or last.error}: "
            f"{last.message}",
            _again(view, dataset, {failure.error for failure in held}),
            dataset,
        )


def _again(view: View, dataset: DatasetFold, classes: set[FailureClass]) -> str:
    """Say how samples that were given up are tried again."""
    commands = [view.retry(dataset, each) for each in sorted(classes - {FailureClass.INVALID_INPUT})]
    if FailureClass.INVALID_INPUT in classes:
        commands.append(f"(with the daemon ended) {view.retry(dataset, FailureClass.INVALID_INPUT)}")
    return f"When the cause is mended, try them again: {' and '.join(commands)}"


def _skipped(view: View, dataset: DatasetFold) -> Iterator[AlertStatus]:
    skipped, nothing = dataset.extract_tally.skipped, dataset.extract_tally.unteachable
    too_long = skipped - nothing
    of, limit = dataset.extract_settled, view.limits.skipped_share_pct
    if of >= view.limits.min_samples and skipped * 100 > limit * of:
        yield make_alert(
            "skipped_share",
            Severity.WARNING,
            f"{skipped:,} of {counted(of, 'sample')} ({100 * skipped / of:.1f} %) are left out of the store: "
            f"{' and '.join(_why_skipped(too_long, nothing))}; limit {limit:g} %",
            " ".join(["failures.jsonl names them.", *_for_skipped(view, dataset, too_long, nothing)]),
            dataset,
        )


def _why_skipped(too_long: int, nothing: int) -> Iterator[str]:
    if too_long:
        yield f"{too_long:,} too long"
    if nothing:
        yield f"{nothing:,} with nothing to learn from (an answer of one token, or a loss mask of zeros)"


def _for_skipped(view: View, dataset: DatasetFold, too_long: int, nothing: int) -> Iterator[str]:
    """Say what helps against each of the two."""
    if too_long:
        yield (
            "Too long: raise max_tokens of [extract] or of the data set, or cut such samples: "
            'over_long = "truncate". Then, with the daemon ended: '
            f"{view.retry(dataset, FailureClass.INVALID_INPUT)}, and start it again."
        )
    if nothing:
        yield (
            "Nothing to learn from: no retry changes that. Look at some of them with eagle3 show: does the model end "
            "at once (chat template, stop tokens), do the masks fit? More prompts make up for them."
        )


def _mixed(view: View, dataset: DatasetFold) -> Iterator[AlertStatus]:
    odd = dataset.hidden.odd
    if odd:
        first = min(odd.values(), key=lambda place: place.line)
        yield make_alert(
            "store_mixed",
            Severity.CRITICAL,
            f"{counted(len(odd), 'stored sample contradicts', 'stored samples contradict')} the others; "
            f"the first is line {first.line} of hidden_states.jsonl: {first.why}",
            f"Do not train on this store. eagle3 verify {view.run} says which samples, and with --repair has them made "
            "again.",
            dataset,
        )


def _nothing_to_store(view: View, dataset: DatasetFold) -> Iterator[AlertStatus]:
    if not extracts(view.fold) or generates(view.fold) or not dataset.prompts_to_answer:
        return
    if view.storings[dataset.name].to_store is None:
        yield make_alert(
            "nothing_to_store",
            Severity.WARNING,
            "has no response to take hidden states of, and this run makes none",
            "Name a file of responses in its [[datasets]] entry, or add generate to the stages.",
            dataset,
        )


STORED_RULES: Final = (_extract_halted, _given_up, _skipped, _mixed, _nothing_to_store)
"""Each yields the alerts of its kind that hold for a data set."""
