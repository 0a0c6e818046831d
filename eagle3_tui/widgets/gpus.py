"""The GPUs: one line of bars, or a grid where there is room; a GPU that says nothing is shown as saying nothing."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style
from textual.strip import Strip

from contracts.records import GpuReading
from contracts.status import RunStatus
from eagle3_tui.feed.state import View
from eagle3_tui.text import UNKNOWN, human_bytes
from eagle3_tui.widgets.bars import bar, level
from eagle3_tui.widgets.canvas import Canvas
from eagle3_tui.widgets.line import Group, Part, cell, group, line, safe, strip
from eagle3_tui.widgets.look import Look

_CELL = 50
"""Cells of one GPU in the grid."""
_CELL_SHORT = 38
"""The same without its power, for a narrow screen."""
_BUSY_PCT = 50.0


class Gpus(Canvas):
    """A grid when every GPU has its place in the height given, otherwise one line."""

    def lines(self, view: View, width: int, height: int) -> list[Strip]:
        """Return the grid or the line."""
        status = view.status
        if status is None:
            return []
        if status.gpus and height >= grid_height(status, width) > 1:
            return gpu_grid(status.gpus, width, self.look)
        return [gpu_line(status, width, self.look)]


def grid_height(status: RunStatus | None, width: int) -> int:
    """Return how many lines the grid takes at this width; 1 where only the one-line form makes sense."""
    if status is None or not status.gpus:
        return 1
    columns = _columns(width)
    return -(-len(status.gpus) // columns)


def gpu_line(status: RunStatus, width: int, look: Look) -> Strip:
    """Return all GPUs on one line: a bar each, then use, memory, temperature and power over all that tell."""
    gpus = status.gpus
    if not gpus:
        why = status.gpu_state if status.gpu_state not in (None, "ok") else None
        text = "none" if gpus is not None else "unknown: no readings"
        if why and why != text:
            text = f"{text} ({why})"
        return line([_label("GPUs", look), group(text, look.dim, look, shrink_to=8)], width, look)
    groups = [_label("GPUs", look), Group(tuple(_block(gpu, look) for gpu in gpus), rank=1)]
    silent = [gpu for gpu in gpus if gpu.state != "ok"]
    if silent:
        states = ", ".join(f"{gpu.index} {gpu.state}" for gpu in silent)
        groups.append(group(states, look.bad, look, shrink_to=8))
    groups.append(group(_span([gpu.utilization_pct for gpu in gpus], "%"), look.bold, look))
    groups.append(group(_memory(gpus), look.plain, look, rank=2))
    groups.append(group(_hottest(gpus, look), look.plain, look, rank=3))
    groups.append(group(_power(gpus), look.plain, look, rank=4))
    return line(groups, width, look)


def gpu_grid(gpus: Sequence[GpuReading], width: int, look: Look) -> list[Strip]:
    """Return the GPUs in columns, counted downwards."""
    columns = _columns(width)
    rows = -(-len(gpus) // columns)
    each = width // columns
    return [strip(_row(gpus[row::rows], each, look), width, look) for row in range(rows)]


def _columns(width: int) -> int:
    return max(width // (_CELL if width >= 2 * _CELL else _CELL_SHORT), 1)


def _row(gpus: Sequence[GpuReading], width: int, look: Look) -> list[Part]:
    return [part for gpu in gpus for part in _gpu_cell(gpu, width, look)]


def _gpu_cell(gpu: GpuReading, width: int, look: Look) -> list[Part]:
    lead = f" {gpu.index:>2} "
    if gpu.state in ("lost", "unknown"):
        why = f"{look.signs.critical} {gpu.state}" + (f": {gpu.reason}" if gpu.reason else "")
        return [(lead, look.bold), (cell(why, width - len(lead), look), look.bad)]
    share = None if gpu.utilization_pct is None else gpu.utilization_pct / 100
    size = 8 if width < _CELL + 8 else 14
    use = f" {_number(gpu.utilization_pct):>3} %  "
    rest = [f"{_memory([gpu]):>12}", _celsius(gpu.temperature_c, look)]
    if width >= _CELL:
        rest.append(f"{_watts(gpu.power_w)}/{_watts(gpu.power_limit_w)} W".rjust(9))
    if gpu.mig:
        rest.append("MIG")
    text = cell("  ".join(rest), max(width - len(lead) - size - len(use), 0), look)
    return [
        (lead, look.bold),
        (bar(share, size, look.signs), _use_style(gpu, look)),
        (use, look.plain),
        (text, look.dim),
    ]


def _block(gpu: GpuReading, look: Look) -> Part:
    if gpu.state in ("lost", "unknown"):
        return look.signs.critical, look.bad
    share = None if gpu.utilization_pct is None else gpu.utilization_pct / 100
    return level(share, look.signs), _use_style(gpu, look)


def _use_style(gpu: GpuReading, look: Look) -> Style:
    if gpu.utilization_pct is None:
        return look.dim
    return look.good if gpu.utilization_pct >= _BUSY_PCT else look.warn


def _label(text: str, look: Look) -> Group:
    return Group(((text, look.dim),))


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _span(values: Sequence[float | None], unit: str) -> str:
    known = _known(values)
    if not known:
        return f"{UNKNOWN} {unit}"
    mean = f"{sum(known) / len(known):.0f} {unit}"
    return mean if len(known) == 1 else f"{mean} ({min(known):.0f}-{max(known):.0f})"


def _memory(gpus: Sequence[GpuReading]) -> str:
    """Used and total over the GPUs that tell both; never a sum of different ones."""
    both = [
        (gpu.memory_used_bytes, gpu.memory_total_bytes)
        for gpu in gpus
        if gpu.memory_used_bytes is not None and gpu.memory_total_bytes is not None
    ]
    if not both:
        return "memory n/a"
    used, total = (human_bytes(sum(part)) for part in zip(*both, strict=True))
    amount, unit = used.rsplit(" ", 1)
    return f"{amount}/{total}" if total.endswith(f" {unit}") else f"{used}/{total}"


def _hottest(gpus: Sequence[GpuReading], look: Look) -> str:
    known = _known([gpu.temperature_c for gpu in gpus])
    return _celsius(max(known) if known else None, look) + (" hottest" if len(known) > 1 else "")


def _celsius(value: float | None, look: Look) -> str:
    return safe(f"{_number(value)} {look.signs.degree}C", look)


def _power(gpus: Sequence[GpuReading]) -> str:
    known = _known([gpu.power_w for gpu in gpus])
    return f"{_watts(sum(known) if known else None)} W"


def _watts(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}"


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0f}"
