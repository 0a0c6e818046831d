"""The fold over ``events.jsonl``: sessions, what people set, which alerts are open, and the last events."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import msgspec

from contracts.commands import DEFAULT
from contracts.fold.lines import decoded_lines
from contracts.fold.marks import Marks
from contracts.fold.places import Places
from contracts.records import Event

KEPT: Final = 500
SPANS_KEPT: Final = 1000
"""Pauses, and times without a daemon."""

STARTED: Final = "daemon.started"
STOPPED: Final = "daemon.stopped"
PAUSED: Final = "run.paused"
RESUMED: Final = "run.resumed"
SET: Final = "control.set"
ALERT_RAISED: Final = "alert.raised"
ALERT_CLEARED: Final = "alert.cleared"
HALTED: Final = "dataset.halted"
"""Raises the alert `HALTED_ALERT` of its data set: no event of its own does."""
HALTED_ALERT: Final = "dataset_halted"
EXTRACT_HALTED: Final = "extract.halted"
"""The same for hidden states of a data set: raises `EXTRACT_HALTED_ALERT`."""
EXTRACT_HALTED_ALERT: Final = "extract_halted"
ALERT_OF: Final = {HALTED: HALTED_ALERT, EXTRACT_HALTED: EXTRACT_HALTED_ALERT}
"""Events that raise an alert of their data set themselves, at once -> its code."""
PROMPTS_FAILED: Final = "prompts.failed"
PROMPTS_READY: Final = "prompts.ready"
STRANGERS: Final = "prompts.strangers"
"""Responses or given-up samples belong to no prompt of the data set; ``data`` holds their ``count``, 0 when over, and
as ``stored`` how many samples that are stored, or left out of the store, belong to none."""

_DECODER: Final = msgspec.json.Decoder(Event)


class EventFold:
    """State that events carry; a `contracts.journal.tail.LineSink`."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._clear()

    def _clear(self) -> None:
        self.lines = 0
        self.last: deque[Event] = deque(maxlen=KEPT)
        self.marks = Marks()
        self.unreadable = Places()
        self.first_started_at: float | None = None
        self.session_started_at: float | None = None
        """Start of the newest daemon."""
        self.session_stopped_at: float | None = None
        self.pauses: deque[tuple[float, float]] = deque(maxlen=SPANS_KEPT)
        """Begin and end of the last pauses that ended, of all sessions."""
        self.absences: deque[tuple[float, float]] = deque(maxlen=SPANS_KEPT)
        """From the end of a daemon that said so to the start of the next."""
        self.paused_at: float | None = None
        self.resumed_at: float | None = None
        """End of the last pause, in this session."""
        self.concurrency: int | None = None
        """What a person set last; None: as in run.toml."""
        self.concurrency_set_at = 0.0
        self.targets: dict[str, int] = {}
        """What a person set, by data set; the others are as in run.toml."""
        self.targets_set_at: dict[str, float] = {}
        self.prompts_failed: dict[str, str] = {}
        """Data sets whose prompts could not be used at the last start, with the reason."""
        self.strangers: dict[str, int] = {}
        """Responses and given-up samples that belong to no prompt of their data set, as last compared by a daemon."""
        self.stored_strangers: dict[str, int] = {}
        """Samples that are stored, or left out of the store, and belong to no prompt, as last compared by a daemon."""
        self.open_alerts: dict[str, float] = {}
        """`alert_key` of every alert that was raised and not cleared -> when."""

    def reset(self, why: str) -> None:
        """Start again; see `LineSink`."""
        self._clear()
        self.notes.append(why)

    def feed(self, block: bytearray, end: int, offset: int, bulk: bool) -> None:
        """Apply whole lines; see `LineSink`."""
        for record in decoded_lines(block, end, offset, self.lines, _DECODER, self.unreadable):
            self.apply(record)
        self.lines += block.count(b"\n", 0, end)

    def apply(self, event: Event) -> None:
        """Apply one event."""
        self.last.append(event)
        if event.kind == STARTED:
            if self.first_started_at is not None:
                self.marks.restarted(event)
            self.first_started_at = event.at if self.first_started_at is None else self.first_started_at
            self._end_pause(event.at)
            if self.session_stopped_at is not None:
                self.absences.append((self.session_stopped_at, event.at))
            self.session_started_at, self.session_stopped_at = event.at, None
            self.resumed_at = None
            self.open_alerts.clear()
            self.prompts_failed.clear()
        elif event.kind == STOPPED:
            self._end_pause(event.at)
            self.session_stopped_at = event.at
        elif event.kind == PAUSED:
            self.marks.paused(event)
            self.paused_at = event.at if self.paused_at is None else self.paused_at
        elif event.kind == RESUMED and self.paused_at is not None:
            self._end_pause(event.at)
            self.resumed_at = event.at
        elif event.kind == PROMPTS_FAILED and event.dataset is not None:
            self.prompts_failed[event.dataset] = event.message
        elif event.kind == PROMPTS_READY and event.dataset is not None:
            self.prompts_failed.pop(event.dataset, None)
        elif event.kind == STRANGERS and event.dataset is not None:
            for counts, name in ((self.strangers, "count"), (self.stored_strangers, "stored")):
                count = event.data.get(name)
                counts[event.dataset] = count if isinstance(count, int) else 0
        elif event.kind == SET:
            self._set(event.at, event.data)
        elif event.kind == ALERT_RAISED:
            self.marks.alerted(event)
            self.open_alerts[alert_key(str(event.data.get("code")), event.dataset)] = event.at
        elif event.kind in ALERT_OF:
            self.marks.alerted(event)
            self.open_alerts[alert_key(ALERT_OF[event.kind], event.dataset)] = event.at
        elif event.kind == ALERT_CLEARED:
            self.open_alerts.pop(alert_key(str(event.data.get("code")), event.dataset), None)

    def _set(self, at: float, data: dict[str, Any]) -> None:
        concurrency, targets = data.get("concurrency"), data.get("targets")
        if isinstance(concurrency, int):
            self.concurrency, self.concurrency_set_at = concurrency, at
        elif concurrency == DEFAULT:
            self.concurrency = None
        for name, value in targets.items() if isinstance(targets, dict) else ():
            if isinstance(value, int):
                self.targets[name], self.targets_set_at[name] = value, at
            elif value == DEFAULT:
                self.targets.pop(name, None)

    def _end_pause(self, at: float) -> None:
        if self.paused_at is not None:
            self.pauses.append((self.paused_at, at))
            self.paused_at = None


def alert_key(code: str, dataset: str | None) -> str:
    """Return the name under which an alert is open: one alert of a code for each data set."""
    return code if dataset is None else f"{code}/{dataset}"
