"""One line of the screen put together from groups: what does not fit is left out by rank, never cut in the middle.

All text drawn anywhere comes through `safe`, so nothing in data can reach the terminal as a control sequence or, where
only ASCII can be shown, as anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from eagle3_tui.text import cell_width, fit, visible
from eagle3_tui.widgets.look import Look

GAP = 2
"""Cells between groups."""

Part = tuple[str, Style]


def safe(text: str, look: Look) -> str:
    """Return text that may be sent to this terminal, of the same width as what `visible` shows."""
    return _safe(text, look.unicode)


def cell(text: str, width: int, look: Look, *, right: bool = False) -> str:
    """Return text safe and exactly ``width`` cells wide, cut with a mark where it is too long."""
    return _cell(text, width, look.unicode, look.signs.ellipsis, right)


def _safe(text: str, unicode: bool) -> str:
    shown = visible(text)
    if unicode or shown.isascii():
        return shown
    return "".join(char if char.isascii() else "?" * cell_width(char) for char in shown)


@lru_cache(maxsize=4096)
def _cell(text: str, width: int, unicode: bool, ellipsis: str, right: bool) -> str:
    """Most cells of a tick show what they showed before."""
    return fit(_safe(text, unicode), width, right=right, ellipsis=ellipsis)


def wrap(text: str, width: int, look: Look) -> list[str]:
    """Return text, made safe, as lines of at most ``width`` cells, parted at spaces; a longer word is cut."""
    lines = [""]
    for word in safe(text, look).split():
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and cell_width(joined) > width:
            lines.append("")
            joined = word
        lines[-1] = joined if cell_width(joined) <= width else fit(joined, width, ellipsis=look.signs.ellipsis)
    return lines


@dataclass(frozen=True)
class Group:
    """Words that belong together on a line."""

    parts: tuple[Part, ...]
    rank: int = 0
    """Where there is no room the highest rank goes first; 0 stays to the last."""
    right: bool = False
    """At the right end of the line."""
    shrink_to: int | None = None
    """A group of one part may be cut down to this many cells before others are left out."""
    grow: Callable[[int], str] | None = None
    """Draws the one part of this group over all cells that are left (a bar); its text gives the least width."""

    def width(self) -> int:
        """Cells that it takes in full."""
        return self._width

    @cached_property
    def _width(self) -> int:
        """Asked for again and again while a line is laid out."""
        return sum(cell_width(text) for text, _ in self.parts)

    def least(self) -> int:
        """Cells that it takes at least."""
        return self._width if self.shrink_to is None else min(self._width, self.shrink_to)


def group(text: str, style: Style, look: Look, **more: object) -> Group:
    """Return a group of one part, its text made safe."""
    return replace(Group(((safe(text, look), style),)), **more)  # type: ignore[arg-type]


def labelled(label: str, value: str, style: Style, look: Look, rank: int) -> Group:
    """Return ``label value`` with the label dimmed."""
    return Group(((f"{label} ", look.dim), (safe(value, look), style)), rank=rank)


def strip(parts: Iterable[Part], width: int, look: Look) -> Strip:
    """Return parts (safe text) as a strip of exactly ``width`` cells."""
    segments: list[Segment] = []
    used = 0
    for text, style in parts:
        size = cell_width(text)
        if used + size > width:
            text = fit(text, width - used, ellipsis=look.signs.ellipsis)
            size = width - used
        if text:
            segments.append(Segment(text, style))
        used += size
        if used >= width:
            break
    if used < width:
        segments.append(Segment(" " * (width - used), look.plain))
    return Strip(segments, width)


def line(groups: Sequence[Group], width: int, look: Look, *, margin: int = 1) -> Strip:
    """Return groups laid out over ``width`` cells, with ``margin`` cells free on both sides."""
    room = max(width - 2 * margin, 0)
    kept = _chosen(list(groups), room)
    kept = _shrunk(kept, room, look)
    spare = room - _total(kept, Group.width)
    parts: list[Part] = [(" " * margin, look.plain)]
    pushed = False
    for index, entry in enumerate(kept):
        if index:
            parts.append((" " * GAP, look.plain))
        if entry.grow is not None and spare > 0:
            parts.append((entry.grow(entry.width() + spare), entry.parts[0][1]))
            spare = 0
            continue
        if entry.right and not pushed:
            parts.append((" " * max(spare, 0), look.plain))
            pushed = True
        parts.extend(entry.parts)
    return strip(parts, width, look)


def _total(groups: Sequence[Group], measure: Callable[[Group], int]) -> int:
    return sum(map(measure, groups)) + GAP * max(len(groups) - 1, 0)


def _chosen(groups: list[Group], room: int) -> list[Group]:
    while len(groups) > 1 and _total(groups, Group.least) > room:
        worst = max(range(len(groups)), key=lambda index: (groups[index].rank, index))
        del groups[worst]
    return groups


def _shrunk(groups: list[Group], room: int, look: Look) -> list[Group]:
    excess = _total(groups, Group.width) - room
    result = []
    for entry in groups:
        give = min(excess, entry.width() - entry.least())
        if give > 0:
            text, style = entry.parts[0]
            entry = replace(entry, parts=((cell(text, entry.width() - give, look), style),), shrink_to=None)
            excess -= give
        result.append(entry)
    return result


def flow(groups: Sequence[Group], width: int, most: int, look: Look, *, indent: int = 3) -> list[Strip]:
    """Return groups over as many lines as they take, at most ``most``; what is left then goes by rank.

    The first line begins at the margin, the others ``indent`` cells further in.
    """
    lines = _parted(groups, width, most, indent)
    drawn = [line(lines[0], width, look)]
    for more in lines[1:]:
        lead = min(indent, width)
        drawn.append(Strip.join([strip([], lead, look), line(more, width - lead, look)]))
    return drawn


def flow_height(groups: Sequence[Group], width: int, most: int, *, indent: int = 3) -> int:
    """Return how many lines `flow` makes."""
    return len(_parted(groups, width, most, indent))


def _parted(groups: Sequence[Group], width: int, most: int, indent: int) -> list[list[Group]]:
    lines: list[list[Group]] = [[]]
    used = 0
    """Cells that the last line takes at least."""
    for place, entry in enumerate(groups):
        room = width - 2 - (indent if len(lines) > 1 else 0)
        least = entry.least()
        if lines[-1] and used + GAP + least > room:
            if len(lines) == most:
                lines[-1].extend(groups[place:])
                break
            lines.append([])
        used = used + GAP + least if lines[-1] else least
        lines[-1].append(entry)
    return lines
