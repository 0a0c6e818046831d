"""How much of the work is done, and how much of it will never be: of one data set and of all. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from contracts.records import Stage
from contracts.status import DatasetStage, DatasetStatus, RunState, RunStatus

_ANSWERED = (DatasetStage.FINISHED, DatasetStage.EXTRACTING)
"""Stages in which no answer is to come any more."""


@dataclass(frozen=True)
class Progress:
    """Two shares of the work, 0 to 1; what is left of 1 is still to come."""

    done: float
    given_up: float = 0.0
    """What will not come: samples that are given up, refused or left out; tokens for which the prompts are too few."""


def dataset_progress(data: DatasetStatus) -> Progress | None:
    """Return how far a data set is with what it is at: its token target, without one its prompts; the samples to store
    once all answers are there. None where nothing is to be done, or nobody knows how much."""
    if data.stage is DatasetStage.PRETOKENIZED:
        return None
    if data.hidden is not None and not data.target_tokens and data.stage is DatasetStage.FINISHED:
        return _finished(data)
    return stored_progress(data) if data.stage is DatasetStage.EXTRACTING else _answers(data)


def stored_progress(data: DatasetStatus) -> Progress | None:
    """Return how many of the samples to store are stored; None where nobody knows how many there are."""
    hidden = data.hidden
    if hidden is None or not hidden.to_store:
        return None
    return _shares(hidden.stored, hidden.given_up + hidden.skipped, hidden.to_store)


def work_progress(data: DatasetStatus, stages: Sequence[str]) -> Progress | None:
    """Return how far all the work of a data set is.

    Where hidden states are stored they are half of the work of a data set with answers to make, so that an answered
    sample is half done until it is stored, and all of that of one without.

    Args:
        data: Its status.
        stages: Of the run.
    """
    if data.stage is DatasetStage.PRETOKENIZED:
        return None
    if data.stage is DatasetStage.FINISHED:
        return _finished(data)
    if data.hidden is None:
        return _answers(data)
    stored = stored_progress(data)
    if Stage.GENERATE not in stages or not data.to_answer:
        return stored
    answers = _answers(data)
    if answers is None:
        return None
    stored = stored or Progress(0.0)
    done = answers.done * (1.0 - stored.given_up + stored.done) / 2
    return Progress(done, answers.given_up + answers.done * stored.given_up)


def overall_progress(status: RunStatus) -> Progress | None:
    """Return how far the run is.

    A data set beyond its target does not make up for another; one whose work is none of this run's does not count.
    Data sets weigh by their token targets where each has one, else by their samples.
    """
    counted = [data for data in status.datasets if data.stage is not DatasetStage.PRETOKENIZED]
    by_target = all(data.target_tokens for data in counted)
    done = given_up = total = 0.0
    for data in counted:
        weight = data.target_tokens if by_target else _samples(data, status.stages)
        share = work_progress(data, status.stages)
        if share is None or weight is None:
            return Progress(1.0) if status.state is RunState.FINISHED else None
        done += weight * share.done
        given_up += weight * share.given_up
        total += weight
    if not total:
        return Progress(1.0) if status.state is RunState.FINISHED else None
    return Progress(done / total, given_up / total)


def _samples(data: DatasetStatus, stages: Sequence[str]) -> int | None:
    """Return a data set's samples: all that need work of any kind, those of refused lines too."""
    if data.hidden is None:
        known = data.to_answer
    else:
        known = data.prompts if Stage.GENERATE in stages else data.hidden.to_store
    return None if known is None else known + data.refused


def _answers(data: DatasetStatus) -> Progress | None:
    """Return how far the answers are. Short of a target nothing is given up while other prompts can make up for it."""
    over = data.stage in _ANSWERED
    if data.target_tokens:
        if data.completion_tokens is None:
            return None
        done = min(data.completion_tokens / data.target_tokens, 1.0)
        return Progress(done, 1.0 - done if over else 0.0)
    wanted = None if data.to_answer is None else data.to_answer + data.refused
    if not wanted:
        return None
    return _shares(data.done, wanted if over else data.quarantined + data.refused, wanted)


def _finished(data: DatasetStatus) -> Progress:
    """Return what was done of a finished data set: all that was not is given up."""
    done, wanted = data.done, data.done + data.quarantined + data.refused
    if data.hidden is not None:
        to_store = data.hidden.to_store or 0
        done, wanted = data.hidden.stored, to_store + data.quarantined + data.refused
    if data.target_tokens and data.completion_tokens is not None:
        # Other prompts made up for those that were given up; of hidden states only the answered ones are wanted.
        stored = stored_progress(data)
        share = min(data.completion_tokens / data.target_tokens, 1.0) * (1.0 if stored is None else stored.done)
        return Progress(share, 1.0 - share)
    return _shares(done, wanted, wanted) if wanted else Progress(1.0)


def _shares(done: int, given_up: int, wanted: int) -> Progress:
    """Return two counts as shares that come to no more than 1 together."""
    share = min(done / wanted, 1.0)
    return Progress(share, min(given_up / wanted, 1.0 - share))
