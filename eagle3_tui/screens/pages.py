"""What the app knows of any screen that shows the run, whatever it shows of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import msgspec
from textual.screen import Screen

from contracts.records import Severity
from eagle3_tui.feed.state import View
from eagle3_tui.keys import Key, usable_keys, with_app_keys
from eagle3_tui.replay_keys import with_replay_keys


@runtime_checkable
class Page(Protocol):
    """A screen that shows the run: not a dialog over one."""

    @property
    def usable_keys(self) -> tuple[Key, ...]:
        """The keys of this screen alone that do something here."""
        ...

    def show(self, view: View) -> None:
        """Show a new view."""
        ...

    def say(self, message: str | None, severity: Severity = Severity.INFO) -> None:
        """Show a sentence at the bottom, or the keys again."""
        ...

    def reserve(self, lines: int) -> None:
        """Leave lines free at the top."""
        ...


@runtime_checkable
class Copied(Protocol):
    """A screen on which something can be selected."""

    def copied(self) -> str | None:
        """Return what is selected as text; None: nothing is."""
        ...


def selected_text(screen: Screen[Any]) -> str | None:
    """Return what is selected on a screen: as the screen has it, or else the record under the cursor as JSON."""
    if isinstance(screen, Copied):
        return screen.copied()
    record = getattr(getattr(screen, "movable", None), "selected", None)
    return msgspec.json.encode(record).decode() if isinstance(record, msgspec.Struct) else None


def keys_of(screen: Screen[Any]) -> tuple[Key, ...]:
    """Return the keys that do something on a screen, its own and those of the app."""
    if not isinstance(screen, Page):
        return ()
    keys = with_app_keys(screen.usable_keys)
    return with_replay_keys(keys) if replays(screen) else keys


def replays(screen: Screen[Any]) -> bool:
    """Whether the past is shown."""
    replaying = getattr(screen.app, "replaying", None)
    return replaying is not None and bool(replaying.active)


def commands_of(screen: Screen[Any]) -> tuple[Key, ...]:
    """Return the keys of a screen; of the main screen's those that mean the same everywhere, without their letters."""
    own = keys_of(screen)
    actions = {key.action for key in own}
    read_only = bool(getattr(screen.app, "read_only", False))
    more = [
        replace(key, shown="")
        for key in usable_keys(read_only=read_only)
        if key.action.startswith("app.") and key.action not in actions and not (key.changes_run and replays(screen))
    ]
    return (*own, *more)


async def act(screen: Screen[Any], key: Key) -> None:
    """Do what a key of a screen does."""
    await screen.app.run_action(_whole(screen, key.action), default_namespace=screen)


def _whole(screen: Screen[Any], action: str) -> str:
    """An action without a name before it is the screen's own, or else the app's."""
    name = action.partition("(")[0]
    return action if "." in name or hasattr(screen, f"action_{name}") else f"app.{action}"
