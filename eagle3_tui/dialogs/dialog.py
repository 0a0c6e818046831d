"""A box over the screen that takes every key until it is closed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, Generic, TypeVar

from textual.app import ComposeResult
from textual.events import Key, Resize
from textual.screen import ModalScreen
from textual.strip import Strip

from eagle3_tui.text import cell_width, fit
from eagle3_tui.widgets.line import Part, cell, strip, wrap
from eagle3_tui.widgets.lines import Lines
from eagle3_tui.widgets.look import Look

Result = TypeVar("Result")

_BORDER: Final = 2
_MARGIN: Final = 1


class Dialog(ModalScreen[Result], Generic[Result]):
    """A titled box; a subclass says what is in it and what keys do.

    Args:
        look: Signs and styles.
        title: Its first line.
    """

    AUTO_FOCUS = None
    ALLOW_SELECT = False
    WIDTH: ClassVar[int] = 76
    """Of the box, its border included; less where the screen is narrower."""
    TITLE_GAP: ClassVar[int] = 1
    """Empty lines below the title."""

    def __init__(self, look: Look, title: str) -> None:
        super().__init__()
        self.look = look
        self._title = title
        self.box = Lines(look, id="box")

    def rows(self, width: int) -> list[list[Part]]:
        """Return the lines below the title, each at most ``width`` cells wide."""
        raise NotImplementedError

    def press(self, event: Key) -> None:
        """Do what a key means."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """Yield the box."""
        yield self.box

    def on_mount(self) -> None:
        """Draw."""
        self.redraw()

    def on_resize(self, event: Resize) -> None:
        """Draw for the new width."""
        self.redraw()

    def redraw(self) -> None:
        """Draw what the box holds now, as high as that is."""
        width = min(self.WIDTH, self.app.size.width) - _BORDER
        self.box.styles.width = width + _BORDER
        lines = self._lines(width)
        height = min(len(lines) + _BORDER, self.app.size.height)
        self.box.styles.height = height
        # The last line says which keys close it: where there is no room, what is before it goes.
        kept = lines if len(lines) <= height - _BORDER else [*lines[: height - _BORDER - 1], lines[-1]]
        self.box.put(lambda *_: kept)

    def on_key(self, event: Key) -> None:
        """Take every key; those that leave the app from everywhere do not come here."""
        event.stop()
        event.prevent_default()
        self.press(event)

    def paragraph(self, text: str, width: int) -> list[list[Part]]:
        """Return a sentence as lines."""
        return [[(row, self.look.plain)] for row in wrap(text, width, self.look)]

    def keys(self, pairs: Sequence[tuple[str, str]]) -> list[Part]:
        """Return the line that says which keys there are."""
        parts: list[Part] = []
        for shown, does in pairs:
            parts += [(shown, self.look.bold), (f" {does}   ", self.look.dim)]
        return parts

    def _lines(self, width: int) -> list[Strip]:
        look = self.look
        room = max(width - 2 * _MARGIN, 1)
        title: list[Part] = [(cell(self._title, room, look), look.bold)]
        gap: list[list[Part]] = [[]] * self.TITLE_GAP
        margin: Part = (" " * _MARGIN, look.plain)
        return [strip(_cut([margin, *row], width), width, look) for row in (title, *gap, *self.rows(room))]


def _cut(parts: list[Part], width: int) -> list[Part]:
    """Leave out what is beyond the width."""
    kept: list[Part] = []
    used = 0
    for text, style in parts:
        size = cell_width(text)
        if used + size > width:
            kept.append((fit(text, width - used, ellipsis=""), style))
            break
        kept.append((text, style))
        used += size
    return kept
