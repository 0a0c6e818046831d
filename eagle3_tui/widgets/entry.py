"""One line in which a person types: what to search, which sample to open."""

from __future__ import annotations

from collections.abc import Callable

from rich.style import Style
from textual.events import Key, Paste
from textual.strip import Strip

from eagle3_tui.feed.state import View
from eagle3_tui.text import cell_width
from eagle3_tui.widgets.canvas import Canvas
from eagle3_tui.widgets.line import safe, strip
from eagle3_tui.widgets.look import Look

_LONGEST = 4096
_CURSOR = Style(reverse=True)


class Entry(Canvas):
    """Hidden until `begin`; the screen hands it every key while `active`."""

    def __init__(self, look: Look, *, id: str | None = None) -> None:
        super().__init__(look, id=id)
        self._view = View()
        self.active = False
        self._label = ""
        self._text = ""
        self._done: Callable[[str], None] | None = None

    def begin(self, label: str, done: Callable[[str], None], text: str = "") -> None:
        """Ask for a text; ``done`` is called with it on Enter, not after Esc."""
        self.active, self._label, self._done, self._text = True, label, done, text
        self._repaint()

    def press(self, event: Key) -> None:
        """Take a key; nobody else gets it."""
        event.stop()
        event.prevent_default()
        if event.key == "escape":
            self.active = False
        elif event.key == "enter":
            self.active = False
            if self._done is not None:
                self._done(self._text.strip())
        elif event.key == "backspace":
            self._text = self._text[:-1]
        elif event.key == "ctrl+u":
            self._text = ""
        elif event.character is not None and event.is_printable:
            self._text = (self._text + event.character)[:_LONGEST]
        self._repaint()

    def paste(self, event: Paste) -> None:
        """Take pasted text, up to its first newline."""
        event.stop()
        self._text = (self._text + event.text.partition("\n")[0].rstrip("\r"))[:_LONGEST]
        self._repaint()

    def lines(self, view: View, width: int, height: int) -> list[Strip]:
        """Return the one line: its end is in sight while it is longer than the line."""
        look = self.look
        label, text = safe(f" {self._label} ", look), safe(self._text, look)
        while cell_width(text) > max(width - cell_width(label) - 1, 1):
            text = text[1:]
        hint = "   Enter: go, Esc: leave it"
        return [strip([(label, look.bold), (text, look.plain), (" ", _CURSOR), (hint, look.dim)], width, look)]
