"""Keys as tables, of the app and of each screen: bindings, bottom line, help and palette are made from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from contracts.status import RunState


@dataclass(frozen=True)
class Key:
    """One thing that keys do."""

    keys: tuple[str, ...]
    """As Textual names them."""
    shown: str
    action: str
    hint: tuple[str, str] | None
    """Keys and what they do, for the bottom line; None: only in the help."""
    help: str
    changes_run: bool = False
    """Sends a command to the daemon: refused with ``--read-only``."""
    rank: int = 1
    """Where the bottom line has no room the highest goes first; 0 stays to the last."""
    hint_in: tuple[RunState, ...] | None = None
    """States of the run in which the bottom line names it; None: in all."""


_SENDING: Final = (RunState.RUNNING, RunState.STALLED)
_HELD: Final = (RunState.PAUSED, RunState.DRAINING)
_CONTROLLED: Final = (*_SENDING, *_HELD)

APP_KEYS: Final = (
    Key(("question_mark", "h", "f1"), "?", "help", ("?", "help"), "the keys of this screen", rank=0),
    Key(("q", "ctrl+q", "ctrl+c"), "q", "leave", ("q", "leave"), "leave; the daemon goes on", rank=0),
    Key(("colon", "ctrl+p"), ":", "commands", (":", "commands"), "find a command by its words", rank=5),
    Key(("R",), "R", "past", ("R", "replay"), "replay the run, back in time", rank=3),
    Key(("y",), "y", "copy", None, "copy what is selected"),
    Key(("x",), "x", "export", None, "write screen: SVG, text, JSON"),
    Key(("m",), "m", "mouse", None, "mouse: used here, or not"),
    Key(("T",), "T", "theme", None, "colours for dark or light"),
)  # fmt: skip
"""On every screen."""

MAIN_KEYS: Final = (
    Key(("p",), "p", "app.pause", ("p", "pause"), "pause: send nothing new", changes_run=True,
        rank=2, hint_in=_SENDING),
    Key(("r",), "r", "app.resume", ("r", "resume"), "resume after a pause or drain", changes_run=True,
        rank=2, hint_in=_HELD),
    Key(("plus", "equals_sign"), "+", "app.concurrency(1)", ("+ -", "concurrency"),
        "a tenth more requests at once", changes_run=True, rank=6, hint_in=_CONTROLLED),
    Key(("minus",), "-", "app.concurrency(-1)", None, "a tenth fewer requests at once", changes_run=True),
    Key(("c",), "c", "app.concurrency_dialog", None, "set how many requests at once", changes_run=True),
    Key(("t",), "t", "app.target_dialog", None, "set a data set's token target", changes_run=True),
    Key(("a",), "a", "app.retry_dialog", None, "try failed samples again", changes_run=True),
    Key(("D",), "D", "app.drain", None, "drain: finish, end the daemon", changes_run=True),
    Key(("S",), "S", "app.stop", None, "stop: end the daemon now", changes_run=True),
    Key(("enter",), "enter", "open", ("enter", "details"), "the data set, or alert's cause", rank=1),
    Key(("f",), "f", "app.failures", ("f", "failures"), "failures by class and message", rank=1),
    Key(("e",), "e", "app.journal", ("e", "events"), "events and the daemon's log", rank=1),
    Key(("v",), "v", "app.servers", ("v", "servers"), "servers, arguments, versions", rank=3),
    Key(("g",), "g", "app.go", None, "go to a sample by its id"),
    Key(("s",), "s", "sort", ("s", "sort"), "order by the next column", rank=4),
    Key(("o",), "o", "reverse", None, "turn the order round"),
    Key(("slash",), "/", "filter", ("/", "filter"), "only data sets with these words", rank=4),
    Key(("escape",), "esc", "clear", None, "show all data sets again"),
    Key(("up", "k"), "up", "move(-1)", None, "one line up"),
    Key(("down", "j"), "down", "move(1)", None, "one line down"),
    Key(("pageup",), "pgup", "page(-1)", None, "a page up"),
    Key(("pagedown", "space"), "pgdn", "page(1)", None, "a page down"),
    Key(("home",), "home", "ends(-1)", None, "to the first data set"),
    Key(("end", "G"), "end", "ends(1)", None, "to the last data set"),
)  # fmt: skip
"""On the main screen."""

HISTORY_KEYS: Final = (
    Key(("w",), "w", "span", None, "history: 10 min, 1 h, or all"),
    Key(("i",), "i", "quantity", None, "history: of something else"),
)
"""There too, where it draws what was."""


def with_app_keys(keys: Iterable[Key]) -> tuple[Key, ...]:
    """Return a screen's keys and those of the app that it does not use for something else."""
    own = tuple(keys)
    taken = {name for key in own for name in key.keys}
    actions = {key.action for key in own}
    return (*own, *(key for key in APP_KEYS if key.action not in actions and not taken.issuperset(key.keys)))


def usable_keys(keys: Iterable[Key] = MAIN_KEYS, *, read_only: bool) -> tuple[Key, ...]:
    """Return the keys that do something here."""
    return tuple(key for key in keys if not (read_only and key.changes_run))
