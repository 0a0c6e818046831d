"""Who has the mouse: the app (clicks, wheel), or the terminal (selecting text)."""

from __future__ import annotations

from typing import Any


def mouse_is_taken(app: Any) -> bool:
    """Whether the terminal reports the mouse to a Textual app."""
    return bool(getattr(app._driver, "_mouse", False))


def take_mouse(app: Any, taken: bool) -> None:
    """Have the mouse reported to a Textual app, or leave it to the terminal.

    Textual decides this once, at its start; its driver's own switches are used, since it must undo at its end what
    was done.
    """
    driver = app._driver
    if taken:
        driver._mouse = True
        driver._enable_mouse_support()
    else:
        driver._disable_mouse_support()
        driver._mouse = False
