"""The bottom line: the keys that matter on this screen, or what came of the last one."""

from __future__ import annotations

from collections.abc import Sequence

from textual.strip import Strip

from contracts.records import Severity
from contracts.status import RunState
from eagle3_tui.feed.state import View
from eagle3_tui.keys import Key, with_app_keys
from eagle3_tui.replay_keys import with_replay_keys
from eagle3_tui.widgets.canvas import Canvas
from eagle3_tui.widgets.line import Group, cell, group, line, strip, wrap
from eagle3_tui.widgets.look import Look

_SIGN = 3
"""Cells of the sign before a sentence."""
_MOST = 4
"""Lines of a sentence."""


class Footer(Canvas):
    """Keys with their labels, those of the app included; a message takes their place until it is taken back."""

    def __init__(
        self, look: Look, keys: Sequence[Key], *, read_only: bool, farewell: bool, id: str | None = None
    ) -> None:
        super().__init__(look, id=id)
        self._view = View()
        self._keys = with_app_keys(keys)
        self._read_only = read_only
        self._farewell = farewell
        self._message: tuple[str, Severity] | None = None

    def say(self, message: str | None, severity: Severity = Severity.INFO) -> None:
        """Show a sentence, or the keys again; a long one takes some lines more."""
        self._message = (message, severity) if message else None
        self._fit()
        self._repaint()

    def on_resize(self) -> None:
        """Break a sentence anew for the new width."""
        self._fit()
        super().on_resize()

    def _fit(self) -> None:
        height = len(self._said(self.size.width)) if self._message is not None and self.size.width else 1
        if self.size.height != height:
            self.styles.height = height

    def _said(self, width: int) -> list[str]:
        """The sentence in lines without margins; the last one shows that it is cut."""
        if self._message is None:
            return []
        lines = wrap(self._message[0], max(width - _SIGN - 1, 1), self.look)
        return lines if len(lines) <= _MOST else [*lines[: _MOST - 1], " ".join(lines[_MOST - 1 :])]

    def lines(self, view: View, width: int, height: int) -> list[Strip]:
        """Return the keys, or the sentence."""
        if self._message is None:
            keys = key_line(
                with_replay_keys(self._keys) if view.replays else self._keys,
                width,
                self.look,
                read_only=self._read_only,
                daemon=view.status.daemon.alive if view.status else None,
                farewell=self._farewell and not view.replays,
                state=view.status.state if view.status else None,
            )
            return [keys]
        severity = self._message[1]
        sign, style = self.look.severity(severity)
        style = self.look.bold if severity is Severity.INFO else style
        return [
            strip([(cell(f" {sign if not row else ' '} {text}", width, self.look), style)], width, self.look)
            for row, text in enumerate(self._said(width))
        ]


def key_line(
    keys: Sequence[Key],
    width: int,
    look: Look,
    *,
    read_only: bool,
    daemon: bool | None,
    farewell: bool,
    state: RunState | None = None,
) -> Strip:
    """Return the keys that have a hint; help and leave stay to the last.

    Args:
        keys: Those that can be pressed here.
        width: Cells.
        look: Signs and styles.
        read_only: Whether it was asked for; said at the left.
        daemon: Whether there is one; None: none belongs here, so no key for it is shown.
        farewell: Whether the daemon goes on after leaving.
        state: Of the run: some keys matter only in some states.
    """
    groups = [group("read only", look.warn, look)] if read_only else []
    groups += [
        Group(((key.hint[0], look.bold), (f" {key.hint[1]}", look.dim)), rank=key.rank)
        for key in keys
        if key.hint
        and not (key.changes_run and daemon is None)
        and (key.hint_in is None or state is None or state in key.hint_in)
    ]
    if daemon and farewell:
        groups.append(group("(the daemon goes on)", look.dim, look, rank=4))
    return line(groups, width, look)
