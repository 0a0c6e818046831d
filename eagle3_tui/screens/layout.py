"""How the lines of the screen are shared out: a pure function of the size and of what there is to show."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

_EVENTS_LEAST: Final = 2
_EVENTS_GOOD: Final = 5
_TABLE_LEAST: Final = 4
_TABLE_GOOD: Final = 13
"""Ten data sets with their titles and totals: they come before the history."""
_LEAST: Final = 12
"""The least screen. Of what is higher, half may go to what to do about critical alerts, before data sets."""
_ROOMY: Final = 30
"""From this height on the GPUs have their grid, every part a title, and the history a place."""
_BESIDE: Final = (120, 180)
"""From the first of these widths on the history stands beside the GPUs. From the second on they need so few lines side
by side that it is below them again, as wide as the screen, and nothing stays empty."""
_BESIDE_GPUS: Final = 4
_PLOT: Final = (6, 16)
"""Least and most lines of the history, its title included."""
_GPU_ROWS: Final = {True: 8, False: 4}
"""Lines of the grid of GPUs as far as its width allows: beside the history, and without one there."""
_GPU_IN_FULL: Final = 90
"""Cells in which one GPU has a history of some minutes and all its figures."""
_GPU_FIGURES: Final = 42
_GPUS_WIDE: Final = 105
"""More cells the GPUs don't need: the rest is the history's."""


@dataclass(frozen=True)
class Needs:
    """Lines that each part would take in full."""

    header: int
    alerts: int
    """With advice; a third of the screen at most is given."""
    brief: int
    """A line each where they are many, else as `alerts`."""
    urgent: int
    """Those to be shown before any data set where something is critical; 0: nothing is."""
    table: int
    gpus: int
    servers: int
    """A line each, and one for the host."""
    figures: int = 0
    """The same with all figures, which may take a second line."""
    stores: bool = False
    """Something is stored: the host with its disk comes before a grid of GPUs."""
    plot: bool = False
    """The history has a place; see `has_plot`."""
    beside: bool = False
    """That is to the right of the GPUs."""


@dataclass(frozen=True)
class Heights:
    """Lines that each part gets; 0: not shown."""

    header: int
    alerts: int
    table: int
    gpus: int
    servers: int
    events: int
    rules: bool
    """Title lines above the table, the machines and the events."""
    plot: int = 0
    """Lines of the history, with its title."""
    beside: bool = False
    """The history has the lines of the GPUs, to their right."""

    def middle(self) -> int:
        """Lines of the GPUs and the history together."""
        return max(self.gpus, self.plot) if self.beside else self.gpus + self.plot

    def used(self) -> int:
        """All lines, the keys at the bottom included."""
        parts = self.header + self.alerts + self.table + self.servers + self.middle() + self.events
        return parts + 3 * self.rules + 1


def gpus_width(width: int, gpus: int, *, beside: bool) -> int:
    """Return the cells that the GPUs have: half of the screen, for two columns of them what their figures take."""
    if not beside:
        return width
    return min(max(width // 2 + 2, _GPU_FIGURES * (-(-gpus // _GPU_ROWS[True])) + 1), _GPUS_WIDE)


def gpu_rows(width: int, gpus: int, *, beside: bool) -> int:
    """Return how many lines the grid of GPUs takes at most; on a wide screen enough to show each of them in full."""
    rows = _GPU_ROWS[beside]
    return max(rows, -(-gpus // (width // _GPU_IN_FULL))) if not beside and width >= _BESIDE[1] else rows


def has_plot(width: int, height: int, gpus: int, *, wanted: bool) -> tuple[bool, bool]:
    """Return whether a screen has a place for the history, and whether that is beside the GPUs.

    Beside few GPUs half of the screen would stay empty: it is below them then.
    """
    shown = wanted and height >= _ROOMY
    return shown, shown and _BESIDE[0] <= width < _BESIDE[1] and gpus >= _BESIDE_GPUS


def share_out(height: int, needs: Needs) -> Heights:
    """Return who gets how many lines.

    First what a person must see at any size; then every data set; then alerts in full, each GPU, titles, each server,
    the history; what is left shows more events.
    """
    needs = replace(needs, alerts=min(needs.alerts, max(height // 3, 1)))
    got = Heights(
        header=needs.header,
        alerts=min(needs.alerts, max(1, min(needs.urgent, (height - _LEAST) // 2))),
        table=min(needs.table, _TABLE_LEAST),
        gpus=1,
        servers=1 if needs.servers and height >= 16 else 0,
        events=_EVENTS_LEAST,
        rules=False,
        beside=needs.beside,
    )
    if got.used() > height:
        return replace(got, events=max(got.events + height - got.used(), 0))
    if height >= _ROOMY:
        got = _give(got, height, "alerts", min(needs.brief, needs.alerts))
        got = _give_whole(got, height, "gpus", needs.gpus)
        got = _give(got, height, "events", _EVENTS_GOOD)
        got = _rules(got, height)
        got = _give_whole(got, height, "servers", needs.servers)
        got = _give(got, height, "table", min(needs.table, _TABLE_GOOD))
        got = _give_whole(got, height, "plot", _PLOT[0] if needs.plot else 0)
    got = _give(got, height, "table", needs.table)
    got = _give(got, height, "alerts", needs.alerts)
    if needs.stores:
        got = _give_whole(got, height, "servers", needs.servers)
    got = _give_whole(got, height, "gpus", needs.gpus)
    got = _give_whole(got, height, "servers", needs.servers)
    got = _rules(got, height)
    if height >= _ROOMY:
        got = _give_whole(got, height, "servers", needs.figures)
        got = _give_whole(got, height, "plot", _PLOT[0] if needs.plot else 0)
        if got.plot:
            got = _give(got, height, "plot", max(_PLOT[1], got.gpus if got.beside else 0))
    return replace(got, events=got.events + height - got.used())


def _give(got: Heights, height: int, part: str, wanted: int) -> Heights:
    """As many lines as there are."""
    while getattr(got, part) < wanted:
        more: dict[str, Any] = {part: getattr(got, part) + 1}
        fuller = replace(got, **more)
        if fuller.used() > height:
            break
        got = fuller
    return got


def _give_whole(got: Heights, height: int, part: str, wanted: int) -> Heights:
    """All that is wanted or none: half a grid helps nobody."""
    change: dict[str, Any] = {part: max(wanted, getattr(got, part))}
    fuller = replace(got, **change)
    return fuller if fuller.used() <= height else got


def _rules(got: Heights, height: int) -> Heights:
    ruled = replace(got, rules=True)
    return ruled if ruled.used() <= height else got
