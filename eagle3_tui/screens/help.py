"""The help: every key of the screen that is open, made from its table of keys, and what the signs mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from textual.events import Click, Key

from contracts.status import RunState
from eagle3_tui.dialogs.dialog import Dialog
from eagle3_tui.keys import APP_KEYS
from eagle3_tui.keys import Key as KeyEntry
from eagle3_tui.widgets.line import Part, cell
from eagle3_tui.widgets.look import Look

_KEY_WIDTH: Final = 6
_LEAST_COLUMN: Final = 34
_GAP: Final = 2
_OTHERS: Final = 9
"""Lines of the box that are no keys."""
_FIXED: Final = 4
"""Lines that stay while the others scroll: border, title, and how many more there are."""
_ROWS: Final = {"up": -1, "k": -1, "down": 1, "j": 1}
_PAGES: Final = {"pageup": -1, "pagedown": 1}
_ENDS: Final = {"home": -1, "end": 1}


class HelpScreen(Dialog[None]):
    """Over any screen; any key closes it, but for those that scroll where there is more than fits.

    Args:
        look: Signs and styles.
        keys: Those that do something on the open screen.
        read_only: Whether keys that change the run are refused.
    """

    WIDTH: ClassVar[int] = 100
    TITLE_GAP: ClassVar[int] = 0

    def __init__(self, look: Look, keys: Sequence[KeyEntry], *, read_only: bool) -> None:
        super().__init__(look, "keys of this screen")
        self._keys = tuple(keys)
        self._read_only = read_only
        self._top = 0
        """The first line in sight."""
        self._count = 0
        """Lines there are, less those that stay."""

    def rows(self, width: int) -> list[list[Part]]:
        """Return the keys, those of all screens last, and the signs."""
        look = self.look
        own = [key for key in self._keys if key not in APP_KEYS]
        everywhere = [key for key in self._keys if key in APP_KEYS]
        high = len(self._keys) + _OTHERS > self.app.size.height
        lines = [*self._table(own, width, high), [(cell("on every screen", width, look), look.heading)]]
        lines += self._table(everywhere, width, high)
        if self._read_only:
            lines.append([("read only: keys that change the run do nothing", look.warn)])
        lines += self._signs()
        self._count = len(lines)
        self._top = min(self._top, self._most)
        shown = lines[self._top : self._top + self._room]
        return [*shown, [(self._hint(len(lines) - self._top - len(shown)), look.dim)]]

    def press(self, event: Key) -> None:
        """Scroll, or close; the key does nothing else."""
        moved = self._moved(event.key) if self._most else None
        if moved is None:
            self.dismiss()
            return
        self._top = min(max(moved, 0), self._most)
        self.redraw()

    def on_click(self, event: Click) -> None:
        """Close."""
        self.dismiss()

    @property
    def _room(self) -> int:
        """Lines in sight at once, less those that stay."""
        return max(self.app.size.height - _FIXED, 1)

    @property
    def _most(self) -> int:
        """The first line in sight at the end; 0: all of them fit."""
        return max(self._count - self._room, 0)

    def _moved(self, key: str) -> int | None:
        """Return the first line in sight after a key; None: it is none that scrolls."""
        if key in _ENDS:
            return self._most if _ENDS[key] > 0 else 0
        rows = _ROWS.get(key, 0) or _PAGES.get(key, 0) * max(self._room - 1, 1)
        return self._top + rows if rows else None

    def _hint(self, below: int) -> str:
        """Say what closes it, and how many lines are out of sight where; it fits the narrowest screen."""
        if not self._most:
            return "any key closes this"
        more = [f"{word} {count}" for word, count in (("up", self._top), ("down", below)) if count]
        return f"{', '.join(more)} more; other keys close"

    def _table(self, keys: Sequence[KeyEntry], width: int, high: bool) -> list[list[Part]]:
        """In two columns, read downwards, where both are wide enough and one would be too high."""
        columns = 2 if high and width >= 2 * _LEAST_COLUMN + _GAP else 1
        size = (width - _GAP * (columns - 1)) // columns
        height = -(-len(keys) // columns)
        lines = []
        for row in range(height):
            line: list[Part] = []
            for key in keys[row::height]:
                if line:
                    line.append((" " * _GAP, self.look.plain))
                line.append((cell(key.shown, _KEY_WIDTH, self.look), self.look.bold))
                line.append((cell(key.help, size - _KEY_WIDTH, self.look), self.look.plain))
            lines.append(line)
        return lines

    def _signs(self) -> list[list[Part]]:
        states = list(RunState)
        lines: list[list[Part]] = []
        for row in (states[:4], states[4:]):
            line: list[Part] = []
            for state in row:
                sign, style = self.look.state(state)
                line += [(sign, style), (f" {state.value:<10}", self.look.plain)]
            lines.append(line)
        lines[-1].append(("- unknown, never a zero", self.look.plain))
        return lines
