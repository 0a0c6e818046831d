"""The keys, once: bindings, the line at the bottom and the help are made from this table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


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


KEYS: Final = (
    Key(("p",), "p", "pause", ("p", "pause"), "send nothing new; what is in flight finishes", changes_run=True),
    Key(("r",), "r", "resume", ("r", "resume"), "go on after a pause, or take back a drain", changes_run=True),
    Key(
        ("plus", "equals_sign"), "+", "concurrency(1)", ("+ -", "concurrency"),
        "a tenth more requests at once (at least one)", changes_run=True,
    ),
    Key(("minus",), "-", "concurrency(-1)", None, "a tenth fewer requests at once", changes_run=True),
    Key(("question_mark", "h", "f1"), "?", "help", ("?", "help"), "this page; any key closes it"),
    Key(
        ("q", "ctrl+q", "ctrl+c"), "q", "leave", ("q", "leave"),
        "leave the screen; the daemon goes on",
    ),
    Key(("up", "k"), "up", "scroll_rows(-1)", None, "one data set up"),
    Key(("down", "j"), "down", "scroll_rows(1)", None, "one data set down"),
    Key(("pageup",), "pgup", "scroll_pages(-1)", None, "a page of data sets up"),
    Key(("pagedown", "space"), "pgdn", "scroll_pages(1)", None, "a page of data sets down"),
    Key(("home",), "home", "scroll_ends(-1)", None, "to the first data set"),
    Key(("end",), "end", "scroll_ends(1)", None, "to the last data set"),
)  # fmt: skip


def usable_keys(*, read_only: bool) -> tuple[Key, ...]:
    """Return the keys that do something here."""
    return tuple(key for key in KEYS if not (read_only and key.changes_run))
