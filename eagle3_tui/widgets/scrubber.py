"""The line of a replay: which moment is shown, how fast it goes, where in the run that is, and what happened when."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from rich.style import Style
from textual.events import Click
from textual.message import Message
from textual.strip import Strip

from contracts.fold.marks import Mark, MarkKind
from eagle3_tui.feed.state import View
from eagle3_tui.widgets.canvas import Canvas
from eagle3_tui.widgets.line import Part, cell, strip
from eagle3_tui.widgets.look import Look

_LEAST_BAR: Final = 8
_DAY_S: Final = 86_400.0
_WEEK_S: Final = 6 * _DAY_S
_SPEED: Final = 6
"""Cells of the speed: the bar does not move as it changes."""
_UNICODE_MARKS: Final = {MarkKind.PAUSE: "‖", MarkKind.RESTART: "▲", MarkKind.ALERT: "!"}
_ASCII_MARKS: Final = {MarkKind.PAUSE: "=", MarkKind.RESTART: "^", MarkKind.ALERT: "!"}
_RANK: Final = {MarkKind.PAUSE: 0, MarkKind.RESTART: 1, MarkKind.ALERT: 2}
"""Of several marks in one cell the highest is drawn."""


@dataclass(frozen=True)
class Playing:
    """A replay at one moment."""

    at: float
    """Unix seconds."""
    begin: float
    end: float
    speed: float
    paused: bool
    marks: tuple[Mark, ...] = ()
    ended: bool = False
    """It has played all there is."""


class Scrubber(Canvas):
    """At the top of every screen while the past is shown; a click on its bar goes there."""

    class Jumped(Message):
        """A moment of the bar was clicked."""

        def __init__(self, at: float) -> None:
            super().__init__()
            self.at = at
            """Unix seconds."""

    DEFAULT_CSS = """
    Scrubber { dock: top; width: 100%; height: 1; background: ansi_default; color: ansi_default; }
    """

    def __init__(self, look: Look, *, id: str | None = None) -> None:
        super().__init__(look, id=id)
        self._view = View()
        self._playing: Playing | None = None

    def put(self, playing: Playing) -> None:
        """Show another moment."""
        self._playing = playing
        self._repaint()

    def on_click(self, event: Click) -> None:
        """Go to the moment under the mouse."""
        event.stop()
        at = None if self._playing is None else moment_at(self._playing, self.size.width, event.x)
        if at is not None:
            self.post_message(self.Jumped(at))

    def lines(self, view: View, width: int, height: int) -> list[Strip]:
        """Return the one line."""
        return [] if self._playing is None else [scrubber_line(self._playing, width, self.look)]


@dataclass(frozen=True)
class _Texts:
    """What stands on the line around the bar, and how wide that is."""

    badge: str
    speed: str
    begin: str
    end: str
    bar: int
    """Cells; 0: it has no room."""

    @property
    def bar_at(self) -> int:
        """The first cell of the bar."""
        return len(self.badge) + len(self.speed) + len(self.begin)


def _texts(playing: Playing, width: int, sign: str) -> _Texts:
    badge = f" {sign} REPLAY {moment_text(playing.at, playing)} "
    speed = f" {_pace(playing):>{_SPEED}} "
    begin, end = (f" {moment_text(at, playing)} " for at in (playing.begin, playing.end))
    room = width - len(badge) - len(speed)
    if room < _LEAST_BAR:
        return _Texts(badge, "", "", "", 0)
    if room - len(begin) - len(end) < 2 * _LEAST_BAR:
        begin, end = "", " "
    return _Texts(badge, speed, begin, end, room - len(begin) - len(end))


def _pace(playing: Playing) -> str:
    return "at end" if playing.ended else "paused" if playing.paused else speed_text(playing.speed)


def _sign(playing: Playing, look: Look) -> str:
    if playing.ended:
        return look.signs.stopped
    return look.signs.paused if playing.paused else look.signs.running


def scrubber_line(playing: Playing, width: int, look: Look) -> Strip:
    """Return the line: badge with the moment, speed, bar with marks, and the last moment where there is room."""
    texts = _texts(playing, width, _sign(playing, look))
    if not texts.bar:
        return strip([(cell(texts.badge, width, look), look.warn_badge)], width, look)
    bar = bar_parts(playing, texts.bar, look)
    parts: list[Part] = [(texts.badge, look.warn_badge), (texts.speed, look.bold), (texts.begin, look.dim)]
    return strip([*parts, *bar, (texts.end, look.dim)], width, look)


def moment_at(playing: Playing, width: int, x: int) -> float | None:
    """Return the moment of a cell of the line: its bar's first one is the begin, its last one the end; None: no bar."""
    texts = _texts(playing, width, " ")
    place = x - texts.bar_at
    if not 0 <= place < texts.bar:
        return None
    return playing.begin + place / max(texts.bar - 1, 1) * (playing.end - playing.begin)


def bar_parts(playing: Playing, width: int, look: Look) -> list[Part]:
    """Return a bar of exactly ``width`` cells: what lies behind filled, where one is, and the marks."""
    here = _place(playing.at, playing, width)
    filled, rest = (look.signs.blocks[-1], look.signs.empty)
    cells: list[tuple[str, Style]] = [
        (filled, look.active) if place < here else (rest, look.dim) for place in range(width)
    ]
    for place, kind in _marked(playing.marks, playing, width):
        cells[place] = _mark_sign(kind, look)
    cells[here] = ("┃" if look.unicode else "|", look.bold)
    return cells


def speed_text(speed: float) -> str:
    """Return a speed in few cells: ``60x``, ``0.5x``."""
    return f"{speed:g}x"


def moment_text(at: float, playing: Playing) -> str:
    """Return a moment of the recording: with its day where the recording is longer than one."""
    length = playing.end - playing.begin
    form = "%H:%M:%S" if length < _DAY_S and _day(playing.begin) == _day(playing.end) else "%a %H:%M:%S"
    return time.strftime("%d %b %H:%M:%S" if length >= _WEEK_S else form, time.localtime(at))


def _day(at: float) -> tuple[int, int]:
    local = time.localtime(at)
    return local.tm_year, local.tm_yday


def _place(at: float, playing: Playing, width: int) -> int:
    length = playing.end - playing.begin
    share = (at - playing.begin) / length if length > 0 else 1.0
    return min(max(int(share * width), 0), width - 1)


def _marked(marks: Iterable[Mark], playing: Playing, width: int) -> Iterable[tuple[int, MarkKind]]:
    found: dict[int, MarkKind] = {}
    for mark in marks:
        if playing.begin <= mark.at <= playing.end:
            place = _place(mark.at, playing, width)
            if place not in found or _RANK[mark.kind] > _RANK[found[place]]:
                found[place] = mark.kind
    return found.items()


def _mark_sign(kind: MarkKind, look: Look) -> Part:
    signs = _UNICODE_MARKS if look.unicode else _ASCII_MARKS
    styles = {MarkKind.PAUSE: look.warn, MarkKind.RESTART: look.active, MarkKind.ALERT: look.bad}
    return signs[kind], styles[kind]
