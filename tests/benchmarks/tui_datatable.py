"""The plain way: Textual's own DataTable with the data sets of a run, cells updated twice a second. A baseline.

``python -m tests.benchmarks.tui_datatable RUN``. It reads with the same reader as ours, in a thread.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.widgets import DataTable

from contracts.monitor import Monitor
from contracts.status import DatasetStatus

COLUMNS = ("data set", "stage", "done", "prompts", "tokens", "mean", "tok/s", "failed", "ETA")
WIDTHS = {"done": 14, "tokens": 9}
"""The others are as wide as what they hold first."""
TICK_S = 0.5


class Plain(App[None]):
    """One table, nothing else."""

    BINDINGS: ClassVar = [("q", "quit", "leave")]

    def __init__(self, run: Path) -> None:
        super().__init__()
        self._monitor = Monitor(run)
        self._shown: dict[str, list[str]] = {}

    def compose(self) -> ComposeResult:
        yield DataTable()

    def on_mount(self) -> None:
        table = self.query_one(DataTable)
        for title in COLUMNS:
            table.add_column(title, key=title, width=WIDTHS.get(title))
        self.run_worker(self._follow())

    async def _follow(self) -> None:
        while True:
            status = await asyncio.to_thread(self._monitor.refresh)
            table = self.query_one(DataTable)
            for data in (status.totals, *status.datasets):
                cells = cells_of(data)
                before = self._shown.get(data.name)
                if before is None:
                    table.add_row(*cells, key=data.name)
                for title, cell, old in zip(COLUMNS, cells, before or cells, strict=True):
                    if cell != old:
                        table.update_cell(data.name, title, cell)
                self._shown[data.name] = cells
            await asyncio.sleep(TICK_S)


def cells_of(data: DatasetStatus) -> list[str]:
    """A row."""
    eta = "-" if data.eta_s is None else f"{data.eta_s / 60:.0f} min"
    mean = "-" if data.avg_completion_tokens is None else f"{data.avg_completion_tokens:.0f}"
    rate = "-" if data.tokens_per_s is None else f"{data.tokens_per_s:,.0f}"
    stage = "-" if data.stage is None else data.stage.value
    # The first row is that of the totals: its "done" is looked for as on our own screen.
    done = f"done {data.done:,}" if data.name == "total" else f"{data.done:,}"
    return [data.name, stage, done, f"{data.prompts}", f"{data.completion_tokens}", mean, rate, f"{data.failed}", eta]


if __name__ == "__main__":
    Plain(Path(sys.argv[1])).run()
