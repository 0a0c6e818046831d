"""Keys while the past is shown: they come before those of the screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from eagle3_tui.keys import Key

REPLAY_KEYS: Final = (
    Key(("space",), "space", "app.replay('toggle')", ("space", "play"), "play the replay, or hold it", rank=0),
    Key(("left",), "left", "app.replay('move',-60)", ("left right", "a minute"), "a minute back", rank=2),
    Key(("right",), "right", "app.replay('move',60)", None, "a minute on"),
    Key(("less_than_sign", "shift+left"), "<", "app.replay('move',-600)", ("< >", "ten"), "ten minutes back", rank=4),
    Key(("greater_than_sign", "shift+right"), ">", "app.replay('move',600)", None, "ten minutes on"),
    Key(("left_square_bracket",), "[", "app.replay('note',-1)", ("[ ]", "event"), "to the last thing of note", rank=3),
    Key(("right_square_bracket",), "]", "app.replay('note',1)", None, "to the next thing of note"),
    Key(("plus", "equals_sign"), "+", "app.replay('speed',1)", ("+ -", "speed"), "a faster replay", rank=4),
    Key(("minus",), "-", "app.replay('speed',-1)", None, "a slower replay"),
    Key(("home",), "home", "app.replay('home')", None, "to the beginning of the run"),
    Key(("end",), "end", "app.replay('end')", None, "to the end, or the present"),
    Key(("R",), "R", "app.replay('leave')", ("R", "present"), "back to the present", rank=1),
)  # fmt: skip


def with_replay_keys(keys: Sequence[Key]) -> tuple[Key, ...]:
    """Return the keys that do something while the past is shown: these, and of a screen's those that change nothing."""
    taken = {name for key in REPLAY_KEYS for name in key.keys}
    return (*REPLAY_KEYS, *(key for key in keys if not key.changes_run and taken.isdisjoint(key.keys)))
