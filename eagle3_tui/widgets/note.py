"""What is shown on a screen too small for the rest: state and share, cut to what there is."""

from __future__ import annotations

from textual.strip import Strip

from contracts.progress import overall_progress
from eagle3_tui.feed.state import View
from eagle3_tui.progress_text import share_text
from eagle3_tui.terminal import TOO_SMALL
from eagle3_tui.text import UNKNOWN
from eagle3_tui.widgets.canvas import Canvas
from eagle3_tui.widgets.header import state_badge, verdict
from eagle3_tui.widgets.line import cell, group, line, strip


class Note(Canvas):
    """The short form."""

    def lines(self, view: View, width: int, height: int) -> list[Strip]:
        """Return state, share, alerts, and how large the screen would have to be."""
        look = self.look
        wanted = "{}x{}".format(*TOO_SMALL)
        said = f"too small, needs {wanted}"
        said = said if len(said) <= width else f"needs {wanted}"
        small = strip([(cell(said, width, look), look.dim)], width, look)
        if view.status is None:
            return [small]
        state = state_badge(view.status, look)
        progress = overall_progress(view.status)
        share = group(UNKNOWN if progress is None else share_text(progress), look.bold, look, rank=1)
        return [
            line([state, share], width, look, margin=0),
            line(verdict(view.status, look), width, look, margin=0),
            small,
        ]
