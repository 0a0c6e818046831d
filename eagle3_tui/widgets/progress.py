"""How much of the work is done: of one data set and of all, as a share of 0 to 1, or unknown."""

from __future__ import annotations

from contracts.status import DatasetStage, DatasetStatus, RunState, RunStatus


def dataset_share(data: DatasetStatus) -> float | None:
    """Return the share of a data set's token target; without one, of its prompts; None where nothing is to be done."""
    if data.stage is DatasetStage.PRETOKENIZED:
        return None
    if data.target_tokens:
        return None if data.completion_tokens is None else data.completion_tokens / data.target_tokens
    return data.done / data.to_answer if data.to_answer else None


def overall_share(status: RunStatus) -> float | None:
    """Return the share of all that is to be generated.

    A data set beyond its target does not make up for another, a finished one is done however far it came, and a
    pre-tokenized one does not count. Data sets weigh by their token targets where each has one, else by their prompts.
    """
    if status.state is RunState.FINISHED:
        return 1.0
    counted = [data for data in status.datasets if data.stage is not DatasetStage.PRETOKENIZED]
    by_target = all(data.target_tokens for data in counted)
    done = total = 0.0
    for data in counted:
        weight = data.target_tokens if by_target else data.to_answer
        share = 1.0 if data.stage is DatasetStage.FINISHED else dataset_share(data)
        if weight is None or share is None:
            return None
        done += weight * min(share, 1.0)
        total += weight
    return done / total if total else None
