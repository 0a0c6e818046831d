"""The help: every key and what it does, made from the table of keys, and what the signs mean."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.events import Click, Key
from textual.screen import ModalScreen
from textual.strip import Strip

from contracts.status import RunState
from eagle3_tui.feed.state import View
from eagle3_tui.keys import Key as KeyEntry
from eagle3_tui.widgets.canvas import Canvas
from eagle3_tui.widgets.line import cell, strip
from eagle3_tui.widgets.look import Look

_KEY_WIDTH = 6
_BOX = 64
_BORDER = 2


class HelpScreen(ModalScreen[None]):
    """Over the run's screen; any key closes it."""

    AUTO_FOCUS = None

    def __init__(self, look: Look, keys: Sequence[KeyEntry], *, read_only: bool) -> None:
        super().__init__()
        self._text = HelpText(look, keys, read_only=read_only, id="help")

    def compose(self) -> ComposeResult:
        """Yield the one box."""
        yield self._text

    def on_mount(self) -> None:
        """Size the box to its text and fill it."""
        self._text.styles.height = len(self._text.content(_BOX)) + _BORDER
        self._text.show(View())

    def on_key(self, event: Key) -> None:
        """Close; the key does nothing else."""
        event.stop()
        event.prevent_default()
        self.dismiss()

    def on_click(self, event: Click) -> None:
        """Close."""
        self.dismiss()


class HelpText(Canvas):
    """The text of the help."""

    def __init__(self, look: Look, keys: Sequence[KeyEntry], *, read_only: bool, id: str | None = None) -> None:
        super().__init__(look, id=id)
        self._keys = keys
        self._read_only = read_only

    def lines(self, view: View, width: int, height: int) -> list[Strip]:
        """Return the text."""
        return self.content(width)

    def content(self, width: int) -> list[Strip]:
        """Return all lines at a width."""
        look = self.look
        blank = strip([], width, look)
        rows = [
            strip(
                [
                    (f" {key.shown:<{_KEY_WIDTH}}", look.bold),
                    (cell(key.help, width - _KEY_WIDTH - 1, look), look.plain),
                ],
                width,
                look,
            )
            for key in self._keys
        ]
        notes = []
        if self._read_only:
            notes.append(
                strip([(cell(" read only: keys that change the run do nothing", width, look), look.warn)], width, look)
            )
        return [
            strip([(cell(" keys", width, look), look.heading)], width, look),
            *rows,
            *notes,
            blank,
            strip([(cell(" signs", width, look), look.heading)], width, look),
            *self._signs(width),
            strip([(cell(" -  unknown; never a zero", width, look), look.plain)], width, look),
        ]

    def _signs(self, width: int) -> list[Strip]:
        states = list(RunState)
        lines = []
        for row in (states[:4], states[4:]):
            parts = [(" ", self.look.plain)]
            for state in row:
                sign, style = self.look.state(state)
                parts += [(f"{sign}", style), (f" {state.value:<10}", self.look.plain)]
            lines.append(strip(parts, width, self.look))
        return lines
