"""One GPU of the grid: its index, a bar, and as much besides as the width holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.style import Style

from contracts.records import GpuReading
from eagle3_tui.text import UNKNOWN, human_bytes
from eagle3_tui.widgets.bars import bar, level
from eagle3_tui.widgets.gpu_history import KEPT, GpuHistory
from eagle3_tui.widgets.line import Part, cell, safe
from eagle3_tui.widgets.look import Look

_LEAD: Final = 4
"""Cells of the index."""
_PERCENT: Final = 6
_TEMPERATURE: Final = 6
_MIG: Final = 4
_BAR: Final = (5, 8, 14)
"""Least cells of a bar, those it has before there is a history, and most."""
_HISTORY_LEAST: Final = 9
"""Cells, one of them the gap before it."""


@dataclass(frozen=True)
class Plan:
    """What the cells of all GPUs show, in cells each; 0: not shown. A gap is part of what follows it."""

    width: int
    bar: int
    history: int
    memory: int
    temperature: int
    power: int
    processes: int
    mig: int


def plan(gpus: Sequence[GpuReading], width: int) -> Plan:
    """Return what fits in ``width`` cells for each GPU: the same for all, so that figures stand below each other."""
    spare = width - _LEAD - _BAR[0] - _PERCENT
    wanted = {
        "memory": max(len(_memory(gpu)) for gpu in gpus) + 2,
        "temperature": _TEMPERATURE,
        "mig": _MIG if any(gpu.mig for gpu in gpus) else 0,
        "power": max(len(_power(gpu)) for gpu in gpus) + 2,
        "processes": max((len(_processes(gpu)) + 2 for gpu in gpus if gpu.processes is not None), default=0),
    }
    got = dict.fromkeys(wanted, 0)
    history = 0
    for part, size in wanted.items():
        if part == "processes" and spare >= _HISTORY_LEAST:
            history = _HISTORY_LEAST
            spare -= history
        if size <= spare:
            got[part] = size
            spare -= size
    bar_size = _BAR[0] + min(spare, _BAR[1] - _BAR[0])
    spare -= bar_size - _BAR[0]
    if history:
        longer = min(spare, KEPT + 1 - history)
        history, spare = history + longer, spare - longer
    bar_size += min(max(spare - 1, 0), _BAR[2] - bar_size)
    return Plan(width, bar_size, history, **got)


def gpu_cell(gpu: GpuReading, parts: Plan, style: Style, look: Look, history: GpuHistory) -> list[Part]:
    """Return one GPU in exactly ``parts.width`` cells; lost or unknown, it says so and why instead of figures."""
    lead = f" {gpu.index:>2} "
    if dead(gpu):
        why = f"{look.signs.critical} {gpu.state}" + (f": {gpu.reason}" if gpu.reason else "")
        return [(lead, look.bold), (cell(f"{why} ", parts.width - _LEAD, look), look.bad)]
    share = None if gpu.utilization_pct is None else gpu.utilization_pct / 100
    used = _number(gpu.utilization_pct)
    past = ""
    if parts.history:
        means = history.last(gpu.index, parts.history - 1)
        past = " " + "".join(" " if mean is None else level(mean / 100, look.signs) for mean in means)
    figures = [
        (_memory(gpu), parts.memory),
        (safe(f"{_number(gpu.temperature_c)} {look.signs.degree}C", look), parts.temperature),
        (_power(gpu), parts.power),
        (_processes(gpu), parts.processes),
        ("MIG" if gpu.mig else "", parts.mig),
    ]
    text = "".join(f"{value:>{size}}" for value, size in figures if size)
    rest = parts.width - _LEAD - parts.bar - _PERCENT - len(past)
    return [
        (lead, look.bold),
        (bar(share, parts.bar, look.signs), style),
        (f" {used:>3} %", look.plain),
        (past, style),
        (cell(text, rest, look), look.dim),
    ]


def dead(gpu: GpuReading) -> bool:
    """Whether a GPU has no figures worth showing."""
    return gpu.state in ("lost", "unknown")


def used_of_total(used: int | None, total: int | None) -> str:
    """Return ``88/96 GB``: whole units, the unit once where both have the same; ``n/a`` where neither is told."""
    if used is None and total is None:
        return "memory n/a"
    part, whole = _whole(used), _whole(total)
    amount, _, unit = part.rpartition(" ")
    return f"{amount}/{whole}" if amount and whole.endswith(f" {unit}") else f"{part}/{whole}"


def watts(value: float | None) -> str:
    """Return whole watts."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def _whole(value: int | None) -> str:
    """Bytes without a decimal from ten units on: memory of a GPU moves in gigabytes."""
    text = human_bytes(value)
    amount, _, unit = text.rpartition(" ")
    return f"{float(amount.replace(',', '')):.0f} {unit}" if len(amount) > 3 and "." in amount else text


def _memory(gpu: GpuReading) -> str:
    return used_of_total(gpu.memory_used_bytes, gpu.memory_total_bytes)


def _power(gpu: GpuReading) -> str:
    return f"{watts(gpu.power_w)}/{watts(gpu.power_limit_w)} W"


def _processes(gpu: GpuReading) -> str:
    count = UNKNOWN if gpu.processes is None else str(gpu.processes)
    return f"{count} proc"


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0f}"
