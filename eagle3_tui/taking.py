"""Taking along what is on the screen: to the clipboard, or into files."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from contracts.clock import Clock
from contracts.records import Severity
from eagle3_tui import clipboard
from eagle3_tui.feed.background import in_background
from eagle3_tui.screens.pages import selected_text
from eagle3_tui.view_files import write_view

if TYPE_CHECKING:
    from eagle3_tui.app import Eagle3App


async def copy(app: Eagle3App) -> None:
    """Copy what is selected, or the text of the screen where nothing can be."""
    text = clipboard.clean(selected_text(app.screen) or screen_text(app))
    in_tmux = await in_background(partial(clipboard.to_tmux, text))
    if not in_tmux and app._driver is not None:
        app._driver.write(clipboard.sequence(text))
    where = "clipboard, and tmux buffer (prefix ])" if in_tmux else "clipboard, where the terminal allows it"
    app.say(f"copied {len(text):,} characters to the {where}: {text}")


async def write(app: Eagle3App) -> None:
    """Write the open screen as SVG, text and JSON into the current folder; of the past all three name the moment."""
    view, name = app.feed.view(), type(app.screen).__name__.removesuffix("Screen").lower()
    run = "run" if view.status is None else view.status.run
    title, text, at = f"eagle3 {run}", screen_text(app), Clock().now()
    if view.replays and view.status is not None:
        at, name = view.status.at, f"{name}-replay"
        moment = time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(at))
        title, text = f"{title}, replay of {moment}", f"replay of {moment}\n{text}"
    picture = app.export_screenshot(title=title)
    try:
        paths = await in_background(partial(write_view, Path.cwd(), run, name, at, picture, text, view.status))
    except OSError as error:
        app.say(f"{error.filename}: cannot be written: {error.strerror or error}", Severity.WARNING)
    else:
        app.say(f"written: {paths[0]} and {', '.join(path.suffix for path in paths[1:])}")


def screen_text(app: Eagle3App) -> str:
    """Return the open screen as text."""
    lines = app.screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in lines) + "\n"
