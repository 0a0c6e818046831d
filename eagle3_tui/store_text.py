"""What is stored, in words: for the status as text and for the screen."""

from __future__ import annotations

from contracts.records import Stage
from contracts.status import DatasetStatus, HiddenStatus, RunStatus
from eagle3_tui.text import human_bytes, human_duration, human_exact, human_rate, wrap


def store_lines(status: RunStatus, width: int) -> list[str]:
    """Return the store in words; no line where the run has none."""
    hidden = status.totals.hidden
    if hidden is None:
        return []
    parts = [
        f"stored {human_exact(hidden.stored)} of {human_exact(hidden.to_store)} samples",
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
        parts.append(f"disk full in {human_duration(status.disk_full_in_s)}")
    return wrap("   ".join(parts), width, rest="  ")


def only_extracts(status: RunStatus) -> bool:
    """Return whether the run makes no answers and stores hidden states of those that are there."""
    return Stage.EXTRACT in status.stages and Stage.GENERATE not in status.stages


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
