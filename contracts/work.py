"""(fold, data set) -> what is known of its work: answers to be made, hidden states to be stored. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from contracts.eta import Storing, Work, answers_to_come
from contracts.fold.dataset import DatasetFold
from contracts.fold.run import RunFold


def generates(fold: RunFold) -> bool:
    """Whether answers are made, or may be for all that is known (a foreign folder)."""
    return fold.config is None or fold.config.generates


def extracts(fold: RunFold) -> bool:
    """Whether hidden states are stored."""
    return fold.config is not None and fold.config.extracts


def dataset_work(fold: RunFold, dataset: DatasetFold) -> Work:
    """Return what is known of the answers that a data set needs; a run that only extracts needs none."""
    prompts, target = dataset.prompts_to_answer, fold.target_of(dataset.name)
    if not generates(fold):
        prompts, target = None if prompts is None else 0, None
    # Answers to prompts that are no longer there settle nothing: a prompt file that was replaced is not done.
    settled = max(len(dataset.responses.done) + dataset.quarantined - _strangers(fold, dataset), 0)
    return Work(
        prompts=prompts,
        settled=settled,
        completion_tokens=dataset.responses.completion_tokens if dataset.responses.known else None,
        known=dataset.responses.known,
        target_tokens=target,
    )


@dataclass(frozen=True)
class _Sums:
    """Over all data sets: one of which nothing is stored or answered yet is taken for one like the others."""

    known: int
    answered_tokens: int
    stored: int
    stored_tokens: int
    stored_bytes: int


def dataset_storings(fold: RunFold, works: Mapping[str, Work] | None = None) -> dict[str, Storing]:
    """Return what is known of the hidden states of every data set, by name.

    Args:
        fold: The run.
        works: `dataset_work` of every data set, by name, where the caller has them.
    """
    sums = _sums(fold)
    if works is None:
        works = {name: dataset_work(fold, dataset) for name, dataset in fold.datasets.items()}
    return {name: _storing(fold, dataset, works[name], sums) for name, dataset in fold.datasets.items()}


def dataset_storing(fold: RunFold, dataset: DatasetFold) -> Storing:
    """Return what is known of the hidden states of a data set.

    How many there are to store is unknown where a run that makes no answers has found none: nobody asks for a store
    of nothing, they are to be put there yet.
    """
    return _storing(fold, dataset, dataset_work(fold, dataset), _sums(fold))


def _sums(fold: RunFold) -> _Sums:
    known = answered = stored = tokens = size = 0
    for dataset in fold.datasets.values():
        responses, hidden = dataset.responses, dataset.hidden
        known += responses.known
        answered += responses.completion_tokens
        stored += len(hidden.stored)
        tokens += hidden.tokens
        size += hidden.stored_bytes
    return _Sums(known, answered, stored, tokens, size)


def _storing(fold: RunFold, dataset: DatasetFold, work: Work, sums: _Sums) -> Storing:
    to_store = dataset.to_store
    if to_store is not None:
        to_store = max(to_store - max(_strangers(fold, dataset) - dataset.responses.nameless, 0), 0)
    if to_store == 0 and not generates(fold) and dataset.prompts_to_answer:
        to_store = None
    stored, tokens, size = sums.stored, sums.stored_tokens, sums.stored_bytes
    if dataset.stored:
        stored, tokens, size = dataset.stored, dataset.hidden.tokens, dataset.hidden.stored_bytes
    mean = sums.answered_tokens / sums.known if sums.known else None
    return Storing(
        to_store=to_store,
        # As for answers: what is stored of prompts that are no longer there settles none of those that are.
        settled=max(dataset.extract_settled - fold.events.stored_strangers.get(dataset.name, 0), 0),
        to_come=answers_to_come(work, mean),
        sample_tokens=tokens / stored if stored else None,
        sample_bytes=size / stored if stored else None,
    )


def _strangers(fold: RunFold, dataset: DatasetFold) -> int:
    return fold.events.strangers.get(dataset.name, 0)
