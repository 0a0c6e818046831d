"""What is sent to the terminal for a partial update: the changed cells alone.

Textual sends every changed stretch of a line from the left edge of its widget on (textual#5625): five changed cells of
a table's row cost the row five times over. Here each stretch begins where it begins.
"""

from __future__ import annotations

from rich.color import ColorSystem
from rich.console import Console, RenderableType
from textual._compositor import ChopsUpdate
from textual.strip import Strip

from eagle3_tui.text import single_cells


class CellsUpdate(ChopsUpdate):
    """The same update, cut on both sides of each stretch."""

    def render_segments(self, console: Console) -> str:
        """Return the text and the escape sequences for the terminal.

        Args:
            console: Knows which colours the terminal has.
        """
        sent: list[str] = []
        for y, left, right in self.spans:
            for end, (start, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                first, last = max(start, left), min(end, right)
                if strip is None or first >= last:
                    continue
                sent.append(f"\x1b[{y + 1};{first + 1}H")
                sent.append(_cut(strip, first - start, last - start, console))
        return "".join(sent)


def _cut(strip: Strip, first: int, last: int, console: Console) -> str:
    """Return what is to be sent of a strip from one cell up to another.

    `Strip.crop` does it for all text, and makes a strip with all its caches for each stretch.
    """
    colours = console._color_system or ColorSystem.TRUECOLOR
    sent, begin = [], 0
    for text, style, _ in strip:
        if not single_cells(text):
            return strip.crop(first, last).render(console)
        end = begin + len(text)
        if end > first:
            part = text[max(first - begin, 0) : last - begin]
            sent.append(part if style is None else Strip.render_style(style, part, color_system=colours))
        begin = end
        if begin >= last:
            break
    return "".join(sent)


def cells_only(update: RenderableType | None) -> RenderableType | None:
    """Return an update of the screen as it is to be sent; anything but a partial one is left as it is."""
    if type(update) is ChopsUpdate:
        return CellsUpdate(update.chops, update.spans, update.chop_ends)
    return update
