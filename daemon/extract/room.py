"""How much of the store is still to come, and whether the disk has room for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from contracts.eta import Storing, Work, answers_to_come, remaining_tokens, samples_to_store, tokens_to_store
from contracts.fold.dataset import DatasetFold
from contracts.fold.run import RunFold
from contracts.run_config import RunConfig
from contracts.work import dataset_storing, dataset_work
from daemon.capture.estimate import EstimateReport
from daemon.capture.estimate import store_estimate as rows_bytes
from daemon.prompts.index import PromptIndex
from daemon.store.sample import RowForm


@dataclass(frozen=True)
class PromptTotals:
    """The usable prompts of one data set."""

    to_answer: int
    tokens_to_answer: int
    pretokenized: int
    pretokenized_tokens: int


def totals_of(index: PromptIndex) -> PromptTotals:
    """Return the totals of a data set's prompts."""
    to_answer = [entry.n_tokens for entry in index.entries if not entry.pretokenized]
    whole = sum(entry.n_tokens for entry in index.entries)
    return PromptTotals(len(to_answer), sum(to_answer), len(index.entries) - len(to_answer), whole - sum(to_answer))


@dataclass(frozen=True)
class ToStore:
    """What is not stored yet."""

    tokens: float
    samples: float
    assumed: bool
    """Answers of data sets without a target and without any answer yet are counted at their greatest length."""


def still_to_store(fold: RunFold, config: RunConfig, totals: Mapping[str, PromptTotals]) -> ToStore:
    """Return what the store still has to take: answers that are there, answers to come, pre-tokenized samples.

    It is counted as the status counts it (`contracts.eta.storing`), but for the length of a sample: that is known here
    of all that is there, and not only as the mean of what is stored.
    """
    tokens, samples, assumed = 0.0, 0.0, False
    for name, total in totals.items():
        dataset = fold.datasets[name]
        # Before the prompts are imported, or imported anew, the files do not tell of them.
        work = replace(dataset_work(fold, dataset), prompts=total.to_answer)
        storing = _storing(fold, config, dataset, work, total)
        tokens += tokens_to_store(storing) or 0.0
        samples += samples_to_store(storing) or 0.0
        assumed |= config.generates and remaining_tokens(work) is None
    return ToStore(tokens, samples, assumed)


def _storing(fold: RunFold, config: RunConfig, dataset: DatasetFold, work: Work, total: PromptTotals) -> Storing:
    responses, storing = dataset.responses, dataset_storing(fold, dataset)
    to_store = storing.to_store if dataset.usable_pretokenized == total.pretokenized else None
    if to_store is None:
        to_store = len(responses.done) + total.pretokenized
    answer = responses.completion_tokens / responses.known if responses.known else float(config.max_new_tokens)
    prompt = total.tokens_to_answer / total.to_answer if total.to_answer else 0.0
    to_come = (answers_to_come(work, answer) or 0.0) if config.generates else 0.0
    there = len(responses.done) * prompt + responses.completion_tokens + total.pretokenized_tokens
    each = max(there - dataset.hidden.tokens, 0.0) / max(to_store - dataset.stored, 1)
    unsettled = max(to_store - storing.settled, 0)
    tokens, samples = unsettled * each + to_come * (prompt + answer), unsettled + to_come
    return replace(storing, to_store=to_store, to_come=to_come, sample_tokens=tokens / samples if samples else None)


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
