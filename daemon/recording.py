"""`set` and `retry` of a run that has no daemon: recorded in the journals, heeded at the next start."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from contracts.clock import Clock
from contracts.commands import Reply, Retry, Set
from contracts.fold.events import SET
from contracts.fold.run import RunFold
from contracts.journal.append import append_durably
from contracts.records import Event, FailureClass, Requeue, Severity, Stage, encode_line
from contracts.run_dir import RunDir
from daemon.single import SingleInstance
from daemon.wishes import (
    Requeued,
    has_failed,
    nothing_to_retry,
    requeued,
    retry_refusal,
    set_data,
    set_message,
    set_refusal,
)

LATER = "recorded; it takes effect at the next eagle3 start"


def record_command(path: Path, command: Set | Retry) -> Reply:
    """Record a command as its daemon would have, under the run's lock.

    Raises:
        ConfigError: run.toml cannot be used.
        AlreadyRunning: There is a daemon: it is the one to ask.
        LockTrouble: The lock cannot be used.
        OSError: A journal cannot be read or written.
    """
    instance = SingleInstance(RunDir(path))
    instance.hold()
    try:
        fold = RunFold(path)
        fold.poll()
        refusal = (
            set_refusal(fold, command)
            if isinstance(command, Set)
            else retry_refusal(fold, command, partial(has_failed, fold))
        )
        if refusal is not None:
            return Reply(ok=False, message=refusal)
        return _set(fold, command) if isinstance(command, Set) else _retry(fold, command)
    finally:
        instance.release()


def _set(fold: RunFold, command: Set) -> Reply:
    said = set_message(fold, command)
    event = Event(at=Clock().now(), severity=Severity.INFO, kind=SET, message=said, data=set_data(command))
    append_durably(fold.run.events, encode_line(event))
    return Reply(ok=True, message=f"{said}: {LATER}")


def _retry(fold: RunFold, command: Retry) -> Reply:
    at, matching = Clock().now(), dict[str, Requeued]()
    # Prompts that cannot be used are checked anew at each start; samples left out of the store, when asked for.
    stage = Stage.EXTRACT if command.error is FailureClass.INVALID_INPUT else None
    extracted = {name for name, dataset in fold.datasets.items() if dataset.failures.extract}
    record = Requeue(at=at, error=command.error, sample_id=command.sample_id, stage=stage)
    for name, dataset in fold.datasets.items():
        if command.dataset in (None, name) and (stage is None or name in extracted):
            matching[name] = requeued(dataset, record)
    total = sum(matching.values(), Requeued())
    if not total:
        return Reply(ok=True, message=nothing_to_retry(fold, command), result={"samples": 0})
    for name, found in matching.items():
        if found:
            append_durably(fold.datasets[name].folder.failures, encode_line(record))
    event = Event(at=at, severity=Severity.INFO, kind="control.retry", message=str(total), dataset=command.dataset)
    append_durably(fold.run.events, encode_line(event))
    return Reply(ok=True, message=f"{total}: {LATER}", result={"samples": total.samples})
