"""A status with a past behind it: a history, and what the GPUs did, both made."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from contracts.history import run_history
from eagle3_tui.widgets.curve import points_per_cell
from tests.eagle3_tui.samples import FakeMonitor
from tests.eagle3_tui.widgets.test_plot import made


class Recorded(FakeMonitor):
    """A status with a history behind it that was made."""

    unicode = True
    has_history = True

    def ask(self, question: Callable[..., Any], /) -> Any:
        if not isinstance(question, partial) or question.func is not run_history:
            use = {gpu.index: (88.0, 97.0, 100.0, 93.0, 40.0) * 6 for gpu in self.status.gpus or ()}
            return self.status.at, use
        points = question.keywords["points"]
        found = made(points // points_per_cell(self.unicode), self.unicode)
        return (
            found
            if self.has_history
            else made(points, self.unicode, values=(None,) * points, marks=(), mean=None, most=None)
        )
