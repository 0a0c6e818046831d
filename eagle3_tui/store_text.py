"""What is stored, in words: for the status as text and for the screen."""

from __future__ import annotations

from contracts.disks import RUN, SHM, STORE, disks_of
from contracts.records import DiskReading, HostSample, Stage
from contracts.status import DatasetStage, DatasetStatus, HiddenStatus, RunStatus
from eagle3_tui.text import counted, human_bytes, human_duration, human_exact, human_rate, visible, wrap

_MEMORY = "/dev/shm"


def store_lines(status: RunStatus, width: int) -> list[str]:
    """Return the store in words; no line where the run has none."""
    hidden = status.totals.hidden
    if hidden is None:
        return []
    parts = [
        f"stored {human_exact(hidden.stored)} of {counted(hidden.to_store, 'sample')}",
        human_bytes(hidden.bytes),
        f"{human_rate(hidden.mb_per_s)} MB/s",
    ]
    if status.dump_budget_bytes is not None:
        parts.append(f"dumps {used_of(status.dump_used_bytes, status.dump_budget_bytes)}")
    if hidden.in_work:
        parts.append(f"passes {human_exact(hidden.in_work)}")
    parts.append(f"checks failed {checks_text(hidden)}")
    parts += [
        f"{name} {human_exact(value)}"
        for name, value in (
            ("not stored", hidden.given_up),
            ("left out", hidden.skipped),
            ("cut", hidden.truncated),
        )
        if value
    ]
    if status.disk_full_in_s is not None:
        parts.append(f"disk full in {human_duration(status.disk_full_in_s)}{of_path(full_path(status))}")
    return wrap("   ".join(parts), width, rest="  ")


def named_disks(host: HostSample) -> list[tuple[str, str, DiskReading]]:
    """Return each disk as (words for what is free on it, its path where that is not plain, the disk).

    A run on a single disk beside ``/dev/shm`` has ``disk free`` and ``shm free``; where the store lies on another disk,
    that has its path, so that nobody looks at the wrong one.
    """
    named = []
    for disk in disks_of(host):
        memory = disk.path.startswith(_MEMORY) or disk.uses == [SHM]
        words = "disk free" if RUN in disk.uses else "store free" if STORE in disk.uses else "dumps free"
        if memory and RUN not in disk.uses and STORE not in disk.uses:
            words = "shm free"
        named.append((words, disk.path if words in ("store free", "dumps free") else "", disk))
    return named


def full_path(status: RunStatus) -> str:
    """Return the path of the disk that is full first, where the run and its store lie on two; else nothing."""
    disks = [] if status.host is None else disks_of(status.host)
    kept = [disk for disk in disks if RUN in disk.uses or STORE in disk.uses]
    return (status.disk_full_path or "") if len(kept) > 1 else ""


def of_path(path: str) -> str:
    """Return a path in brackets, or nothing."""
    return f" ({visible(path)})" if path else ""


def only_extracts(status: RunStatus) -> bool:
    """Return whether the run makes no answers and stores hidden states of those that are there."""
    return Stage.EXTRACT in status.stages and Stage.GENERATE not in status.stages


def is_pretokenized(data: DatasetStatus) -> bool:
    """Return whether every prompt of a data set brings its own answer: nothing is generated there."""
    return data.stage is DatasetStage.PRETOKENIZED or (bool(data.prompts) and data.to_answer == 0)


def given_up(data: DatasetStatus) -> int:
    """Return how many samples are given up: without an answer, or without their hidden states."""
    return data.quarantined + (data.hidden.given_up if data.hidden is not None else 0)


def checks_text(hidden: HiddenStatus) -> str:
    """Return how many checks failed, with the kinds, the most frequent first: ``3 (ids 2, zero_row 1)``."""
    kinds = sorted(hidden.checks.items(), key=lambda entry: (-entry[1], entry[0]))
    named = ", ".join(f"{kind} {count:,}" for kind, count in kinds)
    return f"{sum(hidden.checks.values()):,}" + (f" ({named})" if named else "")


def used_of(used: int | None, budget: int) -> str:
    """Return how much of a budget is used, the unit once where both have the same: ``3.1/16.0 GB``."""
    part, whole = human_bytes(used), human_bytes(budget)
    amount, _, unit = part.rpartition(" ")
    return f"{amount}/{whole}" if amount and whole.endswith(f" {unit}") else f"{part}/{whole}"
