"""How much of the store is still to come, and whether the disk has room for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from contracts.eta import remaining_tokens
from contracts.fold.run import RunFold
from contracts.report import dataset_work
from contracts.run_config import RunConfig
from daemon.capture.estimate import EstimateReport
from daemon.capture.estimate import store_estimate as rows_bytes
from daemon.prompts.index import PromptIndex
from daemon.store.sample import RowForm


@dataclass(frozen=True)
class PromptTotals:
    """The usable prompts of one data set."""

    to_answer: int
    tokens_to_answer: int
    pretokenized_tokens: int


def totals_of(index: PromptIndex) -> PromptTotals:
    """Return the totals of a data set's prompts."""
    to_answer = [entry.n_tokens for entry in index.entries if not entry.pretokenized]
    whole = sum(entry.n_tokens for entry in index.entries)
    return PromptTotals(len(to_answer), sum(to_answer), whole - sum(to_answer))


@dataclass(frozen=True)
class ToStore:
    """What is not stored yet."""

    tokens: float
    samples: float
    assumed: bool
    """Answers of data sets without a target and without any answer yet are counted at their greatest length."""


def still_to_store(fold: RunFold, config: RunConfig, totals: Mapping[str, PromptTotals]) -> ToStore:
    """Return what the store still has to take: answers that are there, answers to come, pre-tokenized samples."""
    tokens, samples, assumed = 0.0, 0.0, False
    for name, total in totals.items():
        dataset = fold.datasets[name]
        work, responses = dataset_work(fold, dataset), dataset.responses
        left = max(total.to_answer - work.settled, 0) if config.generates else 0
        to_come = remaining_tokens(work) if left else 0.0
        if to_come is None:
            to_come, assumed = float(left * config.max_new_tokens), True
        mean = responses.completion_tokens / responses.known if responses.known else float(config.max_new_tokens)
        answers = min(left, to_come / max(mean, 1.0))
        per_prompt = total.tokens_to_answer / total.to_answer if total.to_answer else 0.0
        there = len(responses.done) * per_prompt + responses.completion_tokens + total.pretokenized_tokens
        tokens += max(there - dataset.hidden.tokens, 0.0) + to_come + answers * per_prompt
        samples += max((dataset.to_store or 0) - len(dataset.hidden.stored), 0) + answers
    return ToStore(tokens, samples, assumed)


def room_report(wanted: ToStore, fold: RunFold, form: RowForm, free_bytes: int) -> EstimateReport:
    """Return what that needs and whether there is room.

    Args:
        wanted: What is not stored yet.
        fold: The run's fold.
        form: Of the rows.
        free_bytes: On the store's disk, without what must stay free.
    """
    seen = sum(dataset.responses.known for dataset in fold.datasets.values())
    mean = wanted.tokens / wanted.samples if wanted.samples else 0.0
    return EstimateReport(round(wanted.samples), mean, seen, rows_bytes(wanted.tokens, form), max(free_bytes, 0))
