"""The GPUs: one line of bars, or a grid where there is room; a GPU that says nothing is shown as saying nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from rich.style import Style
from textual.strip import Strip

from contracts.fold.run import RunFold
from contracts.history import gpu_use
from contracts.records import GpuReading
from contracts.status import RunStatus
from eagle3_tui.feed.state import View
from eagle3_tui.text import UNKNOWN
from eagle3_tui.widgets.bars import level
from eagle3_tui.widgets.canvas import Canvas
from eagle3_tui.widgets.gpu_cell import Plan, dead, gpu_cell, plan, used_of_total, watts
from eagle3_tui.widgets.gpu_history import KEPT, GpuHistory
from eagle3_tui.widgets.line import Group, Part, group, line, strip
from eagle3_tui.widgets.look import Look

Use = dict[int, tuple[float | None, ...]]
Asker = Callable[[Callable[[RunFold, float], tuple[float, Use]]], Awaitable[tuple[float, Use]]]
"""`eagle3_tui.feed.state.Feed.ask`."""

_LEAST_CELL: Final = 31
"""Cells that one GPU takes in the grid at least."""
_MOST_CELL: Final = 104
"""More than that and nobody finds the end of the line."""
_BUSY_PCT: Final = 50.0


class Gpus(Canvas):
    """A grid when every GPU has its place in the height given, otherwise one line.

    Args:
        look: Signs and styles.
        ask: Answers a question about the run, for what was before the first reading; None: that stays empty.
        id: Of the widget.
    """

    def __init__(self, look: Look, ask: Asker | None = None, *, id: str | None = None) -> None:
        super().__init__(look, id=id)
        self._ask = ask
        self._asking = False
        self.history = GpuHistory()

    def show(self, view: View) -> None:
        """Keep the readings for the history, then repaint what differs."""
        if view.status is not None and view.status.gpus:
            lacks = self.history.lacks(view.status.at)
            self.history.add(view.status.at, view.status.gpus)
            if lacks and self._ask is not None and not self._asking:
                self._asking = True
                self.run_worker(self._read_past(self._ask), group="history", exit_on_error=True)
        super().show(view)

    async def _read_past(self, ask: Asker) -> None:
        try:
            at, past = await ask(_past_use)
        except OSError:
            return  # the view says what cannot be read
        finally:
            self._asking = False
        self.history.put(at, past)
        self._repaint()

    def lines(self, view: View, width: int, height: int) -> list[Strip]:
        """Return the grid or the line."""
        status = view.status
        if status is None:
            return []
        if status.gpus and (height > 1 or len(status.gpus) == 1):
            columns = -(-len(status.gpus) // height)
            if columns <= most_columns(width):
                return gpu_grid(status.gpus, columns, width, self.look, self.history)
        return [gpu_line(status, width, self.look)]


def _past_use(fold: RunFold, now: float) -> tuple[float, Use]:
    return now, gpu_use(fold, now, KEPT)


def grid_height(status: RunStatus | None, width: int, rows: int) -> int:
    """Return how many lines the grid takes: up to ``rows``, more where the width holds too few columns.

    1 where only the one-line form makes sense.
    """
    if status is None or not status.gpus:
        return 1
    columns = min(-(-len(status.gpus) // rows), most_columns(width))
    return -(-len(status.gpus) // columns)


def most_columns(width: int) -> int:
    """Return how many GPUs have room side by side."""
    return max((width - 1) // _LEAST_CELL, 1)


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
        states = ", ".join(f"#{gpu.index} {gpu.state}" for gpu in sorted(silent, key=dead, reverse=True))
        style = look.bad if any(map(dead, silent)) else look.plain
        groups.append(group(states, style, look, shrink_to=9))
    groups.append(group(_span([gpu.utilization_pct for gpu in gpus], "%"), look.bold, look))
    groups.append(group(_memory(gpus), look.plain, look, rank=2))
    groups.append(group(_hottest(gpus, look), look.plain, look, rank=3))
    groups.append(group(_power(gpus), look.plain, look, rank=4))
    return line(groups, width, look)


def gpu_grid(gpus: Sequence[GpuReading], columns: int, width: int, look: Look, history: GpuHistory) -> list[Strip]:
    """Return the GPUs in columns, counted downwards."""
    rows = -(-len(gpus) // columns)
    each = min((width - 1) // columns, _MOST_CELL)
    parts = plan(gpus, each)
    return [strip(_row(gpus[row::rows], parts, look, history), width, look) for row in range(rows)]


def _row(gpus: Sequence[GpuReading], parts: Plan, look: Look, history: GpuHistory) -> list[Part]:
    return [part for gpu in gpus for part in gpu_cell(gpu, parts, use_style(gpu, look), look, history)]


def use_style(gpu: GpuReading, look: Look) -> Style:
    """Return the style of a bar: a GPU that idles is worth a look."""
    if gpu.utilization_pct is None:
        return look.dim
    return look.good if gpu.utilization_pct >= _BUSY_PCT else look.warn


def _block(gpu: GpuReading, look: Look) -> Part:
    if dead(gpu):
        return look.signs.critical, look.bad
    share = None if gpu.utilization_pct is None else gpu.utilization_pct / 100
    return level(share, look.signs), use_style(gpu, look)


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
    used, total = (sum(part) for part in zip(*both, strict=True))
    return used_of_total(used, total)


def _hottest(gpus: Sequence[GpuReading], look: Look) -> str:
    known = _known([gpu.temperature_c for gpu in gpus])
    hottest = f"{max(known):.0f}" if known else UNKNOWN
    return f"{hottest} {look.signs.degree}C" + (" hottest" if len(known) > 1 else "")


def _power(gpus: Sequence[GpuReading]) -> str:
    """Power and limit over the GPUs that tell."""
    known, limits = _known([gpu.power_w for gpu in gpus]), _known([gpu.power_limit_w for gpu in gpus])
    used = watts(sum(known) if known else None)
    return f"{used}/{watts(sum(limits))} W" if len(limits) == len(known) and limits else f"{used} W"
