"""A question that must be answered with yes: what will happen, in numbers, and only ``y`` does it."""

from __future__ import annotations

from collections.abc import Sequence

from textual.events import Key

from eagle3_tui.dialogs.dialog import Dialog
from eagle3_tui.widgets.line import Part
from eagle3_tui.widgets.look import Look

_NO = ("n", "N", "escape", "q")


class Confirm(Dialog[bool]):
    """Yes or no.

    Args:
        look: Signs and styles.
        question: Its title.
        said: What will happen, a sentence each.
        does: A word or two for yes.
    """

    def __init__(self, look: Look, question: str, said: Sequence[str], does: str) -> None:
        super().__init__(look, question)
        self._said = tuple(said)
        self._does = does

    def rows(self, width: int) -> list[list[Part]]:
        """Return the sentences and the two answers."""
        lines: list[list[Part]] = []
        for sentence in self._said:
            lines += self.paragraph(sentence, width)
        return [*lines, *([[]] if lines else []), self.keys([("y", self._does), ("n, Esc", "leave it as it is")])]

    def press(self, event: Key) -> None:
        """Take an answer; Enter is none, since a tired hand presses it."""
        if event.character in ("y", "Y"):
            self.dismiss(True)
        elif event.key in _NO:
            self.dismiss(False)
