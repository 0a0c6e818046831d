"""How a history is drawn: title with figures, curve with its axes, marks with words. Pure: (history, size) -> lines."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from rich.style import Style
from textual.strip import Strip

from contracts.fold.marks import Mark, MarkKind
from contracts.history import SPANS, Quantity, RunHistory
from eagle3_tui.text import UNKNOWN, cell_width, human_rate, human_time, shorten
from eagle3_tui.widgets.curve import curve_rows, points_per_cell, scale, tick_rows, time_places
from eagle3_tui.widgets.line import GAP, Part, safe, strip
from eagle3_tui.widgets.look import Look

_LABEL: Final = 6
"""Cells of the numbers at the left, where the width is at least `_WIDE`; else one fewer."""
_WIDE: Final = 50
_MARKS_FROM: Final = 5
"""Lines from which marks have one of their own."""
_LEGEND_FROM: Final = 9
"""Lines from which the words of the newest have one, too; with fewer they stand beside the marks."""
_MARK_LEAST: Final = 8
"""Cells in which the words of a mark still say something."""
_PERCENT: Final = (Quantity.GPU, Quantity.KV)
_UNICODE_MARKS: Final = {MarkKind.PAUSE: "‖", MarkKind.RESTART: "▲", MarkKind.ALERT: "!"}
_ASCII_MARKS: Final = {MarkKind.PAUSE: "=", MarkKind.RESTART: "^", MarkKind.ALERT: "!"}


def curve_cells(width: int) -> int:
    """Return how many cells of a width are the curve's."""
    return max(width - _label_cells(width) - 2, 1)


def plot_lines(
    history: RunHistory | None,
    quantity: Quantity,
    span: int,
    width: int,
    height: int,
    look: Look,
    problem: str | None = None,
) -> list[Strip]:
    """Return the whole part in exactly ``height`` lines.

    Args:
        history: What is known; None: nothing yet.
        quantity: What was asked for.
        span: Which of `SPANS` was asked for.
        width: Cells.
        height: Lines, at least 1.
        look: Signs and styles.
        problem: Why it could not be read.
    """
    if history is None or history.quantity is not quantity or problem is not None:
        lines = [_title(None, quantity, span, width, look), _words(problem or "reading ...", width, look)]
    elif all(value is None for value in history.values):
        said = "reading ..." if history.reading else _nothing(history, span)
        lines = [_title(history, quantity, span, width, look), _words(said, width, look)]
    else:
        lines = [_title(history, quantity, span, width, look), *_drawn(history, width, height - 1, look)]
    return (lines + [strip([], width, look)] * (height - len(lines)))[:height]


def _label_cells(width: int) -> int:
    return _LABEL if width >= _WIDE else _LABEL - 1


def _words(text: str, width: int, look: Look) -> Strip:
    return strip([(f" {safe(text, look)}", look.dim)], width, look)


def _nothing(history: RunHistory, span: int) -> str:
    if history.untimed:
        return "no response says when it was finished"
    where = f"in {SPANS[span][0]}" if SPANS[span][1] is not None else "yet"
    if history.quantity in (Quantity.TOKENS, Quantity.STORED):
        return f"nothing ran {where}"
    return f"no readings {where}"


def _title(history: RunHistory | None, quantity: Quantity, span: int, width: int, look: Look) -> Strip:
    """What is shown and over which time; the figures of it where there is room."""
    rule = look.signs.rule
    name = quantity.value
    spans: list[Part] = []
    for index, (text, _) in enumerate(SPANS):
        spans.append((f"[{text}]" if index == span else f" {text} ", look.bold if index == span else look.dim))
    right = sum(len(text) for text, _ in spans) + 2
    left: list[Part] = [(f"{rule} ", look.dim), (name, look.bold)]
    used = len(name) + 2
    if used + 1 + right > width:  # the span that is shown says enough
        spans = [spans[span]]
        right = len(spans[0][0]) + 2
    for text, label in _figures(history):
        shown = f"{text}{label}"
        if used + GAP + len(shown) + 2 + right > width:
            break
        left += [(" " * GAP, look.plain), (text, look.plain), (label, look.dim)]
        used += GAP + len(shown)
    between = max(width - used - right - 1, 0)
    middle = f" {rule * (between - 1)} " if between else " "
    return strip([*left, (middle, look.dim), *spans, (f" {rule}", look.dim)], width, look)


def _figures(history: RunHistory | None) -> list[tuple[str, str]]:
    if history is None:
        return []
    figures = [(_figure(history.mean), " mean"), (_figure(history.most), " most")]
    if history.unreadable:
        figures.insert(0, (f"{history.unreadable:,}", " unreadable lines"))
    if history.reading:
        figures.insert(0, ("reading ...", ""))
    return figures


def _figure(value: float | None) -> str:
    return UNKNOWN if value is None else human_rate(value)


def _drawn(history: RunHistory, width: int, height: int, look: Look) -> list[Strip]:
    """Curve, marks and times in ``height`` lines."""
    cells, per_cell = curve_cells(width), points_per_cell(look.unicode)
    cell_s = history.step_s * per_cell
    values = list(history.values)[-cells * per_cell :]
    begin = history.begin + (len(history.values) - len(values)) * history.step_s
    if len(values) < cells * per_cell:  # of the size before: the new one was asked for
        missing = cells * per_cell - len(values)
        begin -= missing * history.step_s
        values[:0] = [None] * missing
    marks = [mark for mark in history.marks if begin <= mark.at]
    own_line = bool(marks) and height + 1 >= _MARKS_FROM
    legend = bool(marks) and height + 1 >= _LEGEND_FROM
    rows = max(height - 1 - own_line - legend, 1)
    most = max((value for value in values if value is not None), default=None)
    top, step = (100.0, 100.0 / _percent_ticks(rows)) if history.quantity in _PERCENT else scale(most, -(-rows // 2))
    labels = tick_rows(top, step, rows)
    edge = "┤│" if look.unicode else "+|"
    room = _label_cells(width)
    drawn = []
    for row, text in enumerate(curve_rows(values, top, rows, unicode=look.unicode)):
        label = _label(labels[row], step) if row in labels else ""
        axis = f"{label:>{room}}{edge[0] if row in labels else edge[1]}"
        drawn.append(strip([(axis, look.dim), (text, look.active)], width, look))
    below = _mark_parts(marks, begin, cell_s, cells, look)
    if own_line:
        words = {} if legend else _words_beside(marks, begin, cell_s, cells, look, below)
        drawn.append(_line(below | words, width, look))
    if height > 1:
        taken = set() if own_line else {place + near for place in below for near in (-1, 0, 1)}
        times: dict[int, Part] = {}
        for start, text in time_places(begin, cell_s, cells):
            if taken.isdisjoint(range(start, start + len(text))):
                times |= {start + place: (char, look.dim) for place, char in enumerate(text)}
        drawn.append(_line(times if own_line else times | below, width, look))
    if legend:
        drawn.append(_legend(marks, width, look))
    return drawn


def _percent_ticks(rows: int) -> int:
    return 4 if rows >= 8 else 2 if rows >= 4 else 1


def _label(value: float, step: float) -> str:
    """A number of the axis in five cells: ``2,500``, ``50 k``, ``1.0 M``, ``1.25M``."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= (size if size > 1e3 else 10 * size):
            number = f"{value / size:.4g}"
            number = f"{number}.0" if len(number) == 1 else number
            return f"{number} {unit}" if len(number) < 4 else f"{number[:4]}{unit}"
    if step >= 1 and not step % 1:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _sign(mark: Mark, look: Look) -> Part:
    signs = _UNICODE_MARKS if look.unicode else _ASCII_MARKS
    styles = {MarkKind.PAUSE: look.warn, MarkKind.RESTART: look.active, MarkKind.ALERT: look.bad}
    return signs[mark.kind], styles[mark.kind]


def _places(marks: Sequence[Mark], begin: float, cell_s: float, cells: int) -> dict[int, Mark]:
    """The cells of marks; of those in one cell the newest has it."""
    return {min(int((mark.at - begin) / cell_s), cells - 1): mark for mark in marks}


def _mark_parts(marks: Sequence[Mark], begin: float, cell_s: float, cells: int, look: Look) -> dict[int, Part]:
    return {place: _sign(mark, look) for place, mark in _places(marks, begin, cell_s, cells).items()}


def _words_beside(
    marks: Sequence[Mark], begin: float, cell_s: float, cells: int, look: Look, signs: dict[int, Part]
) -> dict[int, Part]:
    """The words of marks to the right of their signs where there is room; those of the newest else to the left."""
    parts = dict(signs)
    places = sorted(_places(marks, begin, cell_s, cells).items(), reverse=True)
    for place, mark in places:
        room = min((taken for taken in signs if taken > place), default=cells + 1) - place - 3
        parts |= _fitted(mark, place + 2, room, look)
    newest, mark = places[0]
    if newest + 2 not in parts:
        free = max((taken for taken in parts if taken < newest), default=-3) + 3
        start = max(newest - 1 - cell_width(safe(mark.text, look)), free)
        parts |= _fitted(mark, start, newest - 1 - start, look)
    return parts


def _fitted(mark: Mark, start: int, room: int, look: Look) -> dict[int, Part]:
    """The words of a mark in so many cells; none where too little of them would be left."""
    text = safe(mark.text, look)
    if room < min(cell_width(text), _MARK_LEAST):
        return {}
    return _written(start, shorten(text, room, ellipsis=look.signs.ellipsis), _sign(mark, look)[1])


def _written(start: int, text: str, style: Style) -> dict[int, Part]:
    """Words in cells; a wide character has the cell after it, too."""
    parts: dict[int, Part] = {}
    for char in text:
        size = cell_width(char)
        if not size and start - 1 in parts:
            parts[start - 1] = (parts[start - 1][0] + char, style)
        elif size:
            parts |= {start: (char, style)} | {start + more: ("", style) for more in range(1, size)}
        start += size
    return parts


def _legend(marks: Sequence[Mark], width: int, look: Look) -> Strip:
    """The newest marks in words with their times, the newest first, as many as have room."""
    parts: list[Part] = [(" " * (_label_cells(width) + 1), look.plain)]
    left = curve_cells(width)
    for index, mark in enumerate(reversed(marks)):
        sign, style = _sign(mark, look)
        gap, time, text = " " * GAP if index else "", human_time(mark.at)[:5], safe(mark.text, look)
        room = left - len(f"{gap}{sign} {time} ")
        if room < min(cell_width(text), _MARK_LEAST):
            break
        words = shorten(text, room, ellipsis=look.signs.ellipsis)
        parts += [(gap, look.plain), (sign, style), (f" {time} ", look.dim), (words, look.plain)]
        left = room - cell_width(words)
    return strip(parts, width, look)


def _line(parts: dict[int, Part], width: int, look: Look) -> Strip:
    """Cells below the curve as a line of the whole width."""
    cells = (parts.get(place, (" ", look.plain)) for place in range(curve_cells(width)))
    merged = [("".join(text for text, _ in run), style) for style, run in groupby(cells, key=lambda cell: cell[1])]
    return strip([(" " * (_label_cells(width) + 1), look.plain), *merged], width, look)
