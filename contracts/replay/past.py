"""How much of each journal of a run was there at a moment: the `Extent` of a fold that shows the past."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from contracts.journal.stale import retry_stale
from contracts.replay.places import Place, place_at
from contracts.run_dir import PROMPTS


@dataclass(frozen=True)
class _Known:
    """What was found of one file last."""

    at: float
    size: int
    place: Place


class Past:
    """A moment, and where it is in every file that was asked about.

    Of each file the last answer is kept: going on in time looks at what follows it, and often at nothing.
    """

    def __init__(self, at: float) -> None:
        self.at = at
        """Unix seconds."""
        self._known: dict[tuple[int, int], _Known] = {}

    def __call__(self, path: Path, size: int, /) -> int:
        """Return how many bytes of a file were there; see `contracts.journal.extent.Extent`."""
        return self._place(path, size).offset

    def next_in(self, path: Path) -> float:
        """Return when the next record of a file was made, those of rotated ones included; infinite: never.

        Raises:
            OSError: The file cannot be read.
        """
        soonest, number = math.inf, 0
        while True:
            each = path.with_name(f"{path.name}.{number}") if number else path
            try:
                size = retry_stale("stat", each, each.stat).st_size
            except FileNotFoundError:
                if number:
                    return soonest
            else:
                place = self._place(each, size)
                soonest = min(soonest, place.until)
                if place.offset:
                    return soonest  # all older files are from before it
            number += 1

    def _place(self, path: Path, size: int) -> Place:
        if path.name == PROMPTS:
            return Place(size, math.inf)  # its lines say no times, and a run begins with all of them
        try:
            stat = retry_stale("stat", path, path.stat)
        except FileNotFoundError:
            return Place(0, math.inf)
        key = (stat.st_dev, stat.st_ino)
        known = self._known.get(key)
        if known is not None and size < known.size:
            known = None  # cut, or another file
        if known is not None and known.at <= self.at < known.place.until and (
            size == known.size or known.place.until < math.inf
        ):  # fmt: skip
            return known.place
        start = known.place.offset if known is not None and known.at <= self.at else 0
        place = place_at(path, size, self.at, start)
        self._known[key] = _Known(self.at, size, place)
        return place
