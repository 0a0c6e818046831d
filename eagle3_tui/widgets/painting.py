"""What is sent to the terminal for a partial update: the changed cells alone.

Textual sends every changed stretch of a line from the left edge of its widget on (textual#5625): five changed cells of
a table's row cost the row five times over. Here each stretch begins where it begins.
"""

from __future__ import annotations

from rich.console import Console, RenderableType
from rich.control import Control
from textual._compositor import ChopsUpdate


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
                sent.append(Control.move_to(first, y).segment.text)
                sent.append(strip.crop(first - start, last - start).render(console))
        return "".join(sent)


def cells_only(update: RenderableType | None) -> RenderableType | None:
    """Return an update of the screen as it is to be sent; anything but a partial one is left as it is."""
    if type(update) is ChopsUpdate:
        return CellsUpdate(update.chops, update.spans, update.chop_ends)
    return update
