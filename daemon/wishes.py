"""What `set` and `retry` may ask for and how it is recorded: the same rules with a daemon and without one."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from typing import Any

import msgspec

from contracts.commands import DEFAULT, Retry, Set
from contracts.fold.dataset import DatasetFold
from contracts.fold.failures import is_put_back
from contracts.fold.run import RunFold
from contracts.records import HALTING, FailureClass, Requeue, Stage
from contracts.sample_id import SampleId, sample_key
from contracts.wording import counted
from contracts.work import generates


class Requeued(msgspec.Struct):
    """What a requeue comes to."""

    samples: int = 0
    """Those that are sent again."""
    going_on: dict[str, int | None] = {}
    """Data sets that were stopped and go on, with the samples that waited there; None: not known."""

    def __add__(self, other: Requeued) -> Requeued:
        return Requeued(self.samples + other.samples, {**self.going_on, **other.going_on})

    def __bool__(self) -> bool:
        """Whether it comes to anything."""
        return bool(self.samples or self.going_on)

    def __str__(self) -> str:
        said = [f"{name} goes on" + _waiting(waiting) for name, waiting in self.going_on.items()]
        return "; ".join([*said, f"{counted(self.samples, 'sample is', 'samples are')} sent again"])


def _waiting(samples: int | None) -> str:
    return "" if samples is None else f", {counted(samples, 'sample was', 'samples were')} waiting"


def set_refusal(fold: RunFold, command: Set) -> str | None:
    """Return why a `Set` cannot be carried out, or None."""
    if command.concurrency is None and not command.targets:
        return "nothing to set: give a concurrency or a target"
    unknown = [name for name in command.targets if name not in fold.datasets]
    if unknown:
        named = ", ".join(map(repr, unknown))
        return f"no data set {named} in this run; there are: {', '.join(fold.datasets)}"
    wanted = [name for name, target in command.targets.items() if target != DEFAULT]
    if wanted and not generates(fold):
        return "this run makes no answers ([run] stages has no generate): there is no token target to set"
    return next((f"{said}; no target was set" for name in wanted if (said := no_target(fold.datasets[name]))), None)


def no_target(dataset: DatasetFold) -> str | None:
    """Return why a data set can have no token target, or None."""
    if not dataset.pretokenized:
        return None
    return f"{dataset.name}: every prompt brings its own answer (loss_mask), so nothing is generated there to count"


def set_message(fold: RunFold, command: Set) -> str:
    """Return what a `Set` does, in words."""
    said: list[str] = []
    if command.concurrency == DEFAULT:
        configured = None if fold.config is None else fold.config.generate.concurrency
        said.append(f"concurrency: as in run.toml, {configured}")
    elif command.concurrency is not None:
        said.append(f"concurrency: {command.concurrency}")
    for name, target in command.targets.items():
        if target == DEFAULT:
            configured = fold.configured_target(name)
            said.append(f"target of {name}: as in run.toml, {_tokens(configured)}")
        else:
            said.append(f"target of {name}: {target:,} tokens")
    return "; ".join(said)


def set_data(command: Set) -> dict[str, Any]:
    """Return the data of the event that keeps a `Set` over restarts; `contracts.fold.events.EventFold` reads it."""
    return {"concurrency": command.concurrency, "targets": command.targets}


def overrides(fold: RunFold) -> list[str]:
    """Return, in sentences, where what was set by command holds against what run.toml says."""
    if fold.config is None:
        return []
    said: list[str] = []
    configured, events = fold.config.generate.concurrency, fold.events
    if events.concurrency not in (None, configured):
        said.append(
            f"run.toml says concurrency {configured}, `set` of {_day(events.concurrency_set_at)} holds: "
            f"{events.concurrency}; back to run.toml with: eagle3 set {fold.run.quoted} --concurrency {DEFAULT}"
        )
    for dataset in fold.config.datasets:
        target, wanted = fold.config.target_of(dataset), events.targets.get(dataset.name)
        if wanted is not None and wanted != target:
            said.append(
                f"run.toml says {_tokens(target)} for {dataset.name}, `set` of "
                f"{_day(events.targets_set_at[dataset.name])} holds: {wanted:,}; back to run.toml with: "
                f"eagle3 set {fold.run.quoted} --target {shlex.quote(dataset.name)}={DEFAULT}"
            )
    return said


def _day(at: float) -> str:
    return time.strftime("%m-%d %H:%M", time.localtime(at))


def _tokens(target: int | None) -> str:
    return "no target" if target is None else f"a target of {target:,} tokens"


def retry_refusal(fold: RunFold, command: Retry, knows: Callable[[str | None, SampleId], bool]) -> str | None:
    """Return why a `Retry` cannot be carried out, or None.

    Args:
        fold: The run's fold.
        command: What was asked.
        knows: Whether a sample failed and has no answer yet: in this data set, with None in any.
    """
    if command.dataset is not None and command.dataset not in fold.datasets:
        return f"no data set {command.dataset!r}; there are: {', '.join(fold.datasets)}"
    if command.sample_id is not None and not knows(command.dataset, command.sample_id):
        where = "this run" if command.dataset is None else command.dataset
        return f"no sample {command.sample_id!r} of {where} has failed and is without an answer: nothing to retry"
    return None


def nothing_to_retry(fold: RunFold, command: Retry) -> str:
    """Return what a `Retry` is answered that comes to nothing; nothing is recorded then."""
    left_out = _left_out(fold, command.dataset)
    if command.error is FailureClass.INVALID_INPUT:
        return (
            "nothing to retry: refused prompts are checked anew at each start; samples too long for the store are "
            f"tried again when that is asked for while no daemon runs{left_out}"
        )
    if command.sample_id is not None:
        return (
            f"nothing to retry: sample {command.sample_id!r} is not given up, or left out of the store; what a mended "
            "file or run.toml changes of that is seen when it is asked for while no daemon runs"
        )
    where = "" if command.dataset is None else f" of {command.dataset}"
    how = "" if command.error is None else f" after {command.error}"
    return (
        f"nothing to retry: no sample{where} is given up{how}; what failed otherwise is tried again by itself{left_out}"
    )


def _left_out(fold: RunFold, dataset: str | None) -> str:
    """Say what is left out of the store and why a retry of all does nothing for that; empty where nothing is."""
    tallies = [each.extract_tally for name, each in fold.datasets.items() if dataset in (None, name)]
    unteachable = sum(tally.unteachable for tally in tallies)
    too_long = sum(tally.skipped for tally in tallies) - unteachable
    said = ""
    if too_long:
        said += f"; {counted(too_long, 'sample is', 'samples are')} too long for the store: raise max_tokens first"
    if unteachable:
        said += f"; {counted(unteachable, 'sample has', 'samples have')} nothing to learn from, which no retry changes"
    return said


def has_failed(fold: RunFold, dataset: str | None, sample: SampleId) -> bool:
    """Whether the files say that a sample failed and has no answer: in one data set, with None in any."""
    key = sample_key(sample)
    return any(
        (key in one.failures.samples and key not in one.responses.done)
        or (key in one.failures.extract and key not in one.hidden.stored)
        for name, one in fold.datasets.items()
        if dataset in (None, name)
    )


def requeued(dataset: DatasetFold, record: Requeue, *, running: bool = False) -> Requeued:
    """Return what a requeue does to one data set, as the files say.

    Args:
        dataset: Its fold.
        record: The wish.
        running: A daemon is at work: what it refuses it goes on to refuse, it read prompts and limits at its start.
    """
    wanted = None if record.sample_id is None else sample_key(record.sample_id)
    given_up = [*dataset.given_up(), *dataset.extract_given_up_samples()]
    again = sum(
        is_put_back(key, failure, record, wanted) and not (running and failure.error is FailureClass.INVALID_INPUT)
        for key, failure in given_up
    )
    if dataset.failures.extract_halted is not None and _ends_halt(record, Stage.EXTRACT):
        return Requeued(again, {dataset.name: None})
    if dataset.failures.halted is None or not _ends_halt(record, Stage.GENERATE):
        return Requeued(again)
    prompts = dataset.prompts_to_answer
    waiting = None if prompts is None else max(prompts - len(dataset.responses.done) - dataset.quarantined, 0)
    return Requeued(again, {dataset.name: waiting})


def _ends_halt(record: Requeue, stage: Stage) -> bool:
    """Whether a requeue lets a data set go on that is stopped in a stage."""
    return record.sample_id is None and record.error in (None, *HALTING[stage]) and record.stage in (None, stage)
