"""How much of the work is done: of one data set and of all, as a share of 0 to 1, or unknown."""

from __future__ import annotations

from contracts.records import Stage
from contracts.status import DatasetStage, DatasetStatus, RunState, RunStatus


def dataset_share(data: DatasetStatus) -> float | None:
    """Return the share of what a data set is at: of its token target, without one of its prompts; of the samples to
    store once all answers are there. None where nothing is to be done."""
    if data.stage is DatasetStage.PRETOKENIZED:
        return None
    done = data.stage is DatasetStage.FINISHED and data.hidden is not None and not data.target_tokens
    return stored_share(data) if done or data.stage is DatasetStage.EXTRACTING else _answered_share(data)


def stored_share(data: DatasetStatus) -> float | None:
    """Return the share of the samples to store that need nothing more; None where nobody knows how many there are."""
    hidden = data.hidden
    if hidden is None or not hidden.to_store:
        return None
    return min((hidden.stored + hidden.given_up + hidden.skipped) / hidden.to_store, 1.0)


def overall_share(status: RunStatus) -> float | None:
    """Return the share of all that is to be done.

    A data set beyond its target does not make up for another, and a finished one is done however far it came. Where
    hidden states are stored they are half of the work of a data set with answers to make, and all of that of one
    without; else a data set without does not count. Data sets weigh by their token targets where each has one, else by
    their samples.
    """
    if status.state is RunState.FINISHED:
        return 1.0
    counted = [data for data in status.datasets if data.stage is not DatasetStage.PRETOKENIZED]
    makes_answers = Stage.GENERATE in status.stages
    by_target = all(data.target_tokens for data in counted)
    done = total = 0.0
    for data in counted:
        weight = data.target_tokens if by_target else _weight(data, makes_answers)
        share = 1.0 if data.stage is DatasetStage.FINISHED else _work_share(data, makes_answers)
        if weight is None or share is None:
            return None
        done += weight * min(share, 1.0)
        total += weight
    return done / total if total else None


def _weight(data: DatasetStatus, makes_answers: bool) -> int | None:
    """Return a data set's samples: all that need work of any kind."""
    if data.hidden is None:
        return data.to_answer
    return data.prompts if makes_answers else data.hidden.to_store


def _answered_share(data: DatasetStatus) -> float | None:
    if data.target_tokens:
        return None if data.completion_tokens is None else data.completion_tokens / data.target_tokens
    return data.done / data.to_answer if data.to_answer else None


def _work_share(data: DatasetStatus, makes_answers: bool) -> float | None:
    """Return the share of answers and hidden states together: an answered sample is half done until it is stored."""
    if data.hidden is None:
        return _answered_share(data)
    stored = stored_share(data)
    if not makes_answers or not data.to_answer:
        return stored
    answered = 1.0 if data.stage is DatasetStage.EXTRACTING else _answered_share(data)
    return None if answered is None else min(answered, 1.0) * (1.0 + (stored or 0.0)) / 2
