"""``events.jsonl`` and ``daemon.log`` a screenful at a time, with search and a least severity; flat in memory."""

from __future__ import annotations

import bisect
import re
from pathlib import Path
from typing import Final

import msgspec

from contracts.details.windows import (
    BLOCK,
    Line,
    Searched,
    counted,
    lines_after,
    lines_before,
    matching,
    search,
    search_back,
)
from contracts.fold.run import RunFold
from contracts.records import Event, Severity
from contracts.replay.stamps import logged_at
from contracts.run_dir import RunDir

EVENTS: Final = "events"
LOG: Final = "log"
MOST: Final = 8 * 1024 * 1024
"""Read at most for one page, where few lines are severe enough to be shown."""
_LEVELS: Final = {
    "DEBUG": Severity.INFO,
    "INFO": Severity.INFO,
    "WARNING": Severity.WARNING,
    "ERROR": Severity.CRITICAL,
    "CRITICAL": Severity.CRITICAL,
}
_LOG_LINE: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:,\d+)? (DEBUG|INFO|WARNING|ERROR|CRITICAL) (.*)")
_RANK: Final = {Severity.INFO: 0, Severity.WARNING: 1, Severity.CRITICAL: 2}
_SHOWN: Final = 8192
"""Characters of one line that are kept."""


class Entry(msgspec.Struct, frozen=True):
    """One line of either file."""

    offset: int
    severity: Severity
    text: str
    """The message; of a line that cannot be read, the line."""
    at: float | None = None
    kind: str | None = None
    """Of an event."""
    dataset: str | None = None
    data: str | None = None
    """An event's data, as JSON."""
    continues: bool = False
    """Belongs to the line before it: the rest of a traceback."""


class Page(msgspec.Struct, frozen=True):
    """Entries that follow each other, the oldest first."""

    entries: tuple[Entry, ...]
    start: int
    """Byte before which nothing of this page is: older ones end here."""
    end: int
    """Byte behind the page: newer ones begin here."""
    size: int
    path: str

    @property
    def is_first(self) -> bool:
        """Whether there is nothing older."""
        return self.start == 0


class Match(msgspec.Struct, frozen=True):
    """How far a search came."""

    offset: int | None
    """Of the entry that was found."""
    next: int
    done: bool
    """There is nothing more in this direction."""


_EVENT: Final = msgspec.json.Decoder(Event)


def journal_path(run: RunDir, which: str) -> Path:
    """Return the file: `EVENTS` or `LOG`."""
    return run.events if which == EVENTS else run.log


def page_before(fold: RunFold, now: float, which: str, end: int | None, count: int, least: Severity) -> Page:
    """Return the last entries before a place that are severe enough.

    Args:
        fold: Of the run.
        now: The present: later lines are not shown. Of a log that says no times at all everything is.
        which: `EVENTS` or `LOG`.
        end: Where an entry begins; None: the end of the file.
        count: So many at most; fewer where `MOST` bytes hold no more.
        least: The least severity.

    Raises:
        OSError: The file cannot be read.
    """
    path = journal_path(fold.run, which)
    if end is None:
        end = _end_at(fold, path, which, now)
    entries: list[Entry] = []
    window = lines_before(path, end, count)
    stop, read = window.end, 0
    while True:
        fresh = _entries(window.lines, which, least)
        entries = fresh + entries
        read += window.end - window.start
        if window.start == 0 or len(entries) >= count or read >= MOST or not window.lines:
            break
        window = lines_before(path, window.start, max(count, 1000))
    start = window.start
    if len(entries) > count:
        entries = entries[-count:]
        start = entries[0].offset
    return Page(tuple(entries), start, stop, window.size, str(path))


def page_after(fold: RunFold, now: float, which: str, start: int, count: int, least: Severity) -> Page:
    """Return the first entries from a place on that are severe enough; as `page_before`.

    Raises:
        OSError: The file cannot be read.
    """
    path = journal_path(fold.run, which)
    limit = _end_at(fold, path, which, now)
    entries: list[Entry] = []
    place, read, size = start, 0, 0
    while read < MOST and len(entries) < count:
        window = lines_after(path, place, count if least is Severity.INFO else 1000)
        size = window.size
        lines = [line for line in window.lines if limit is None or line.offset < limit]
        entries += _entries(lines, which, least)
        read += window.end - place
        place = window.end if limit is None else min(window.end, limit)
        if not lines or place >= size:
            break
    if len(entries) > count:
        place = entries[count].offset
        entries = entries[:count]
    return Page(tuple(entries), start, place, size, str(path))


def find(fold: RunFold, now: float, which: str, text: str, place: int, backwards: bool, least: Severity) -> Match:
    """Look for the next entry that holds a text, whatever its case; at most some 32 MB in one go.

    Args:
        fold: Of the run.
        now: The present.
        which: `EVENTS` or `LOG`.
        text: Looked for in what is shown of an entry.
        place: Forwards: search from here on; backwards: before here. Where an entry begins.
        backwards: Towards the older ones.
        least: Entries that are less severe are passed over.

    Raises:
        OSError: The file cannot be read.
    """
    path = journal_path(fold.run, which)
    finder = matching(_pattern(text))
    while True:
        found: Searched
        if backwards:
            found = search_back(path, finder, place)
        else:
            found = search(path, finder, place, _end_at(fold, path, which, now), 1)
        for line in found.hits:
            entries = _entries([line], which, least)
            if entries and text.casefold() in _said(entries[0]).casefold():
                return Match(entries[0].offset, found.next, done=False)
        if not found.hits:
            return Match(None, found.next, done=found.done)
        place = found.next


def _pattern(text: str) -> re.Pattern[bytes]:
    """Lines that may hold a text: its ASCII stretches, as JSON may write all else in another way."""
    stretches = re.findall(r'[^\x00-\x1f"\\/\x7f-\U0010ffff]+', text)
    longest = max(stretches, key=len, default="")
    return re.compile(re.escape(longest.encode()) if longest else rb"[^\n]", re.IGNORECASE)


def _said(entry: Entry) -> str:
    return " ".join(filter(None, (entry.kind, entry.dataset, entry.text, entry.data)))


def _entries(lines: tuple[Line, ...] | list[Line], which: str, least: Severity) -> list[Entry]:
    found: list[Entry] = []
    severity = Severity.INFO
    for line in lines:
        if not line.text.strip():
            continue
        entry = _event_entry(line) if which == EVENTS else _log_entry(line, severity)
        severity = entry.severity
        if _RANK[entry.severity] >= _RANK[least]:
            found.append(entry)
    return found


def _event_entry(line: Line) -> Entry:
    try:
        event = _EVENT.decode(line.text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = line.text[:_SHOWN].decode("utf-8", "replace")
        return Entry(line.offset, Severity.WARNING, f"unreadable line: {text}")
    data = msgspec.json.encode(event.data).decode()[:_SHOWN] if event.data else None
    return Entry(line.offset, event.severity, event.message[:_SHOWN], event.at, event.kind, event.dataset, data)


def _log_entry(line: Line, severity: Severity) -> Entry:
    text = line.text[:_SHOWN].decode("utf-8", "replace").rstrip("\r")
    match = _LOG_LINE.fullmatch(text)
    if match is None:
        return Entry(line.offset, severity, text, continues=True)
    return Entry(line.offset, _LEVELS[match[1]], match[2], logged_at(line.text))


def _end_at(fold: RunFold, path: Path, which: str, now: float) -> int | None:
    """Return where the lines after ``now`` begin (a moment of the past is shown); None: there are none."""
    if which != EVENTS:
        return counted(path, fold.extent)
    last = lines_before(path, None, 1)
    if not last.lines or not _is_after(last.lines[0], now):
        return None
    # Lines are in the order of time: what is before `low` counts, what is from `high` on does not; both begin a line.
    low, high = 0, last.lines[0].offset
    while high - low > BLOCK:
        before = lines_before(path, (low + high) // 2, 1)
        if not before.lines or before.start < low:
            break  # one long line lies between them
        if _is_after(before.lines[0], now):
            high = before.start
        else:
            low = before.end
    lines = [line for line in lines_after(path, low, 1 << 30, high - low).lines if line.offset < high]
    index = bisect.bisect_left(lines, True, key=lambda line: _is_after(line, now))
    return lines[index].offset if index < len(lines) else high


def _is_after(line: Line, now: float) -> bool:
    try:
        return _EVENT.decode(line.text).at > now + 1.0
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
