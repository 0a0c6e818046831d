"""How the lines of the screen are shared out: a pure function of the size and of what there is to show."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

_EVENTS_LEAST = 2
_EVENTS_GOOD = 5
_TABLE_LEAST = 4
_LEAST = 12
"""The least screen. Of what is higher, half may go to what to do about critical alerts, before data sets."""
_ROOMY = 30
"""From this height on the GPUs have their grid and every part a title."""


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
    stores: bool = False
    """Something is stored: the host with its disk comes before a grid of GPUs."""


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
    """Title lines above the table, the GPUs and the events."""

    def used(self) -> int:
        """All lines, the keys at the bottom included."""
        parts = self.header + self.alerts + self.table + self.gpus + self.servers + self.events
        return parts + (3 if self.rules else 0) + 1


def share_out(height: int, needs: Needs) -> Heights:
    """Return who gets how many lines.

    First what a person must see at any size; then every data set; then alerts in full, each GPU, titles, each server;
    what is left shows more events.
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
    )
    spare = height - got.used()
    if spare < 0:
        return replace(got, events=max(got.events + spare, 0))
    if height >= _ROOMY:
        got, spare = _give(got, spare, "alerts", min(needs.brief, needs.alerts))
        got, spare = _give_whole(got, spare, "gpus", needs.gpus)
        got, spare = _give(got, spare, "events", _EVENTS_GOOD)
        got, spare = _rules(got, spare)
    got, spare = _give(got, spare, "table", needs.table)
    got, spare = _give(got, spare, "alerts", needs.alerts)
    if needs.stores:
        got, spare = _give_whole(got, spare, "servers", needs.servers)
    got, spare = _give_whole(got, spare, "gpus", needs.gpus)
    got, spare = _give_whole(got, spare, "servers", needs.servers)
    got, spare = _rules(got, spare)
    return replace(got, events=got.events + spare)


def _give(got: Heights, spare: int, part: str, wanted: int) -> tuple[Heights, int]:
    """As many lines as there are."""
    more = min(spare, max(wanted - getattr(got, part), 0))
    change: dict[str, Any] = {part: getattr(got, part) + more}
    return replace(got, **change), spare - more


def _give_whole(got: Heights, spare: int, part: str, wanted: int) -> tuple[Heights, int]:
    """All that is wanted or none: half a grid helps nobody."""
    more = max(wanted - getattr(got, part), 0)
    change: dict[str, Any] = {part: wanted}
    return (replace(got, **change), spare - more) if 0 < more <= spare else (got, spare)


def _rules(got: Heights, spare: int) -> tuple[Heights, int]:
    return (replace(got, rules=True), spare - 3) if spare >= 3 and not got.rules else (got, spare)
