"""How busy each GPU was lately: a mean for every few seconds, kept from the readings that came by."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from contracts.records import GpuReading

STEP_S: Final = 5.0
"""One cell is the mean over so long: it scrolls seldom, which costs few bytes, and 30 cells hold minutes."""
KEPT: Final = 30


class GpuHistory:
    """Utilisation of every GPU by steps of `STEP_S`."""

    def __init__(self) -> None:
        self._steps: dict[int, deque[tuple[int, float, int]]] = {}
        """By index of the GPU: number of the step, sum and count of its readings, oldest first."""
        self._at: float | None = None

    def lacks(self, at: float) -> bool:
        """Whether readings are missing before a moment: none were taken, or another stretch of time is shown now."""
        return self._at is None or not 0 <= at - self._at < 2 * STEP_S

    def put(self, at: float, past: Mapping[int, Sequence[float | None]]) -> None:
        """Take the past from elsewhere, where no reading is known.

        Args:
            at: Unix seconds.
            past: By index of the GPU, the means of the last steps that are over at that moment, the oldest first.
        """
        now = int(at // STEP_S)
        for index, means in past.items():
            known = {now - len(means) + place: (mean, 1) for place, mean in enumerate(means) if mean is not None}
            known |= {step: (total, count) for step, total, count in self._steps.get(index, ())}
            self._steps[index] = deque(((step, *known[step]) for step in sorted(known)), maxlen=KEPT)

    def add(self, at: float, gpus: Sequence[GpuReading]) -> None:
        """Take readings in; the same moment again adds nothing, and an earlier one begins anew: it is of the past.

        Args:
            at: Unix seconds.
            gpus: One reading for each GPU; one that does not tell its utilisation leaves a gap.
        """
        if at == self._at:
            return
        if self._at is not None and at < self._at:
            self._steps.clear()
        self._at = at
        step = int(at // STEP_S)
        for gpu in gpus:
            if gpu.utilization_pct is None:
                continue
            steps = self._steps.setdefault(gpu.index, deque(maxlen=KEPT))
            total, count = 0.0, 0
            if steps and steps[-1][0] == step:
                _, total, count = steps.pop()
            steps.append((step, total + gpu.utilization_pct, count + 1))

    def last(self, index: int, cells: int) -> list[float | None]:
        """Return the means in percent of the last steps that are over, oldest first; None where there was no reading.

        The present step is left out: its mean still changes, and with it the cell would at every tick.
        """
        if self._at is None:
            return [None] * cells
        means = {step: total / count for step, total, count in self._steps.get(index, ())}
        now = int(self._at // STEP_S)
        return [means.get(step) for step in range(now - cells, now)]
