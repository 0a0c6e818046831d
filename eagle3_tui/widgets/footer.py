"""The bottom line: what the keys do, or what came of the last one."""

from __future__ import annotations

from collections.abc import Sequence

from textual.strip import Strip

from contracts.records import Severity
from eagle3_tui.feed.state import View
from eagle3_tui.keys import Key
from eagle3_tui.widgets.canvas import Canvas
from eagle3_tui.widgets.line import Group, cell, group, line, strip
from eagle3_tui.widgets.look import Look


class Footer(Canvas):
    """Keys with their labels; a message takes their place until it is taken back."""

    def __init__(
        self, look: Look, keys: Sequence[Key], *, read_only: bool, farewell: bool, id: str | None = None
    ) -> None:
        super().__init__(look, id=id)
        self._keys = keys
        self._read_only = read_only
        self._farewell = farewell
        self._message: tuple[str, Severity] | None = None

    def say(self, message: str | None, severity: Severity = Severity.INFO) -> None:
        """Show a sentence, or the keys again."""
        self._message = (message, severity) if message else None
        self._repaint()

    def lines(self, view: View, width: int, height: int) -> list[Strip]:
        """Return the one line."""
        if self._message is None:
            daemon = view.status.daemon.alive if view.status else None
            keys = key_line(
                self._keys, width, self.look, read_only=self._read_only, daemon=daemon, farewell=self._farewell
            )
            return [keys]
        text, severity = self._message
        sign, style = self.look.severity(severity)
        style = self.look.bold if severity is Severity.INFO else style
        return [strip([(cell(f" {sign} {text}", width, self.look), style)], width, self.look)]


def key_line(
    keys: Sequence[Key], width: int, look: Look, *, read_only: bool, daemon: bool | None, farewell: bool
) -> Strip:
    """Return the keys that have a hint; help and leave stay to the last.

    Args:
        keys: Those that can be pressed here.
        width: Cells.
        look: Signs and styles.
        read_only: Whether it was asked for; said at the left.
        daemon: Whether there is one; None: none belongs here, so no key for it is shown.
        farewell: Whether the daemon goes on after leaving.
    """
    groups = [group("read only", look.warn, look)] if read_only else []
    groups += [
        Group(((key.hint[0], look.bold), (f" {key.hint[1]}", look.dim)), rank=1 if key.changes_run else 0)
        for key in keys
        if key.hint and not (key.changes_run and daemon is None)
    ]
    if daemon and farewell:
        groups.append(group("(the daemon goes on)", look.dim, look, rank=2))
    return line(groups, width, look)
