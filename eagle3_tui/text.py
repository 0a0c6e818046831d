"""Text and numbers made fit for a terminal: control characters shown, cut by cells, figures for people.

Whatever comes from files, servers and models passes `visible` before it is printed or drawn: an escape sequence in an
answer must never reach the terminal. `None` is unknown and shows as ``-``.
"""

from __future__ import annotations

import math
import time
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from contracts.wording import UNKNOWN as UNKNOWN
from contracts.wording import counted as counted
from contracts.wording import human_bytes as human_bytes
from contracts.wording import scaled

ELLIPSIS: Final = "…"

_JOINERS: Final = frozenset({0x200C, 0x200D, 0x034F, *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)})
"""Joiners and variation selectors: left out, since terminals disagree on the width of what they make."""
_MODIFIERS: Final = range(0x1F3FB, 0x1F400)
"""Skin tones: two cells alone, none after a hand in some terminals; left out for the same reason."""
_MARKED: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories that have no picture of their own, or (Cn) whose width this Python does not know."""


def visible(text: object) -> str:
    """Return text with nothing in it that a terminal would obey, reorder or swallow.

    C0 controls show in caret notation (ESC is ``^[``, newline ``^J``), all else without a picture (C1, bidi and
    zero-width controls, lone surrogates, private and unassigned characters) as its code, ``<9b>``. Plain text is
    unchanged.
    """
    text = str(text)
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_shown, text))


@lru_cache(maxsize=4096)
def _shown(character: str) -> str:
    code = ord(character)
    if code < 0x20 or code == 0x7F:
        return "^" + chr(code ^ 0x40)
    if code in _JOINERS or code in _MODIFIERS:
        return ""
    if unicodedata.category(character) in _MARKED:
        return f"<{code:x}>"
    return character


@lru_cache(maxsize=4096)
def _cells(character: str) -> int:
    # Late: most text is ASCII and needs no table. Rich's, so that the command and the app agree.
    from rich.cells import get_character_cell_size

    return get_character_cell_size(character)


def encodable(text: str) -> str:
    """Return text without halves of surrogate pairs: names of files may hold them, UTF-8 and so JSON may not."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def cell_width(text: str) -> int:
    """Return how many terminal cells a text takes that went through `visible`."""
    return len(text) if text.isascii() else _width(text)


@lru_cache(maxsize=4096)
def _width(text: str) -> int:
    return sum(map(_cells, text))


@lru_cache(maxsize=4096)
def single_cells(text: str) -> bool:
    """Whether every character of a text that went through `visible` takes one terminal cell."""
    return text.isascii() or all(_cells(character) == 1 for character in text)


def fit(text: object, width: int, *, right: bool = False, ellipsis: str = ELLIPSIS) -> str:
    """Return text made visible and exactly ``width`` cells wide: padded, or cut with a mark at its end.

    A wide character is never halved (a space fills the cell it leaves) and combining marks stay with their letter.

    Args:
        text: Anything; `visible` is applied.
        width: Cells; 0 or less gives an empty string.
        right: Put the padding before the text.
        ellipsis: Shows that something is missing; use ``~`` where only ASCII can be shown.
    """
    shown = visible(text)
    if width <= 0:
        return ""
    used = cell_width(shown)
    if used > width:
        shown = _cut(shown, width, ellipsis)
        used = cell_width(shown)
    padding = " " * (width - used)
    return padding + shown if right else shown + padding


def shorten(text: object, width: int, *, ellipsis: str = ELLIPSIS) -> str:
    """Return text made visible and at most ``width`` cells wide: as `fit`, without padding."""
    return fit(text, width, ellipsis=ellipsis).rstrip(" ") if cell_width(visible(text)) > width else visible(text)


def _cut(shown: str, width: int, ellipsis: str) -> str:
    room = width - cell_width(ellipsis)
    if room < 0:
        ellipsis, room = "", width
    used = 0
    for index, character in enumerate(shown):
        used += _cells(character)
        if used > room:
            return shown[:index] + ellipsis
    return shown


def wrap(text: object, width: int, *, first: str = "", rest: str = "") -> list[str]:
    """Return text made visible as lines of at most ``width`` cells, broken at spaces where there are some.

    Args:
        text: Anything; `visible` is applied.
        width: Cells of a line, its indent included.
        first: Put before the first line.
        rest: Put before the others.
    """
    lines = [first]
    fresh = True
    for word in visible(text).split(" "):
        gap = "" if fresh else " "
        if not fresh and cell_width(lines[-1]) + len(gap) + cell_width(word) > width:
            if not word:
                continue  # one of several spaces in a row: none of them begins a line
            lines.append(rest)
            gap = ""
        for piece in _pieces(gap + word, width - cell_width(lines[-1]), width - cell_width(rest)):
            if piece is None:
                lines.append(rest)
            else:
                lines[-1] += piece
        fresh = False
    return lines


def _pieces(word: str, room: int, rooms: int) -> Iterator[str | None]:
    """Yield a word in pieces that fit ``room`` cells and then ``rooms`` each, None between them."""
    rooms = max(rooms, 2)
    while cell_width(word) > max(room, 2):
        head = _cut(word, max(room, 2), "")
        yield head
        yield None
        word, room = word[len(head) :], rooms
    yield word


def human_exact(value: int | None) -> str:
    """Return every digit, in groups: ``18,204``."""
    return UNKNOWN if value is None else f"{value:,}"


def human_count(value: int | None) -> str:
    """Return a count in at most seven cells: ``9,800``, ``123.4 k``, ``41.2 M``, ``1.2 G``."""
    if value is None:
        return UNKNOWN
    if abs(value) < 100_000:
        return f"{value:,}"
    return scaled(value, ("k", "M", "G", "T", "P"))


def human_rate(value: float | None) -> str:
    """Return a rate in at most six cells: ``0.1``, ``1,402``, ``123 k``, ``1.2 M``."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if abs(value) < 9.95:
        return f"{value:.1f}"
    if abs(value) < 99_999.5:
        return f"{value:,.0f}"
    thousands = value / 1000
    return f"{thousands:.0f} k" if abs(thousands) < 999.5 else scaled(thousands, ("M", "G", "T"))


def human_percent(value: float | None) -> str:
    """Return a percentage of 0 to 100: ``1.1 %`` below ten, ``97 %`` above; 100 only when it is all of it."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if value < 9.95:
        return f"{value:.1f} %"
    return "99 %" if 99 < value < 100 else f"{value:.0f} %"


def human_duration(seconds: float | None) -> str:
    """Return a time span in its two largest units: ``34s``, ``12m 05s``, ``4h 12m``, ``2d 03h``."""
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        return UNKNOWN
    whole = round(seconds)
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}d {hour:02}h" if days < 100 else f"{days:,}d"
    if hours:
        return f"{hours}h {minute:02}m"
    return f"{minutes}m {second:02}s" if minutes else f"{second}s"


def human_time(at: float | None) -> str:
    """Return the local time of day of Unix seconds: ``22:41:07``."""
    return UNKNOWN if at is None else time.strftime("%H:%M:%S", time.localtime(at))
