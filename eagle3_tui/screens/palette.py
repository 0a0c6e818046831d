"""The command palette: every action of the screen that is open, found by words of its help."""

from __future__ import annotations

from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider

from eagle3_tui.keys import Key
from eagle3_tui.screens.pages import act, commands_of

_KEY_WIDTH = 6


class Actions(Provider):
    """What the keys of the open screen do."""

    async def discover(self) -> Hits:
        """Yield all of them, before anything is typed."""
        for key in commands_of(self.screen):
            yield DiscoveryHit(label(key), partial(act, self.screen, key), text=key.help)

    async def search(self, query: str) -> Hits:
        """Yield those that fit what is typed."""
        matcher = self.matcher(query)
        for key in commands_of(self.screen):
            score = max(matcher.match(label(key)), matcher.match(_name(key)))
            if score > 0:
                yield Hit(score, matcher.highlight(label(key)), partial(act, self.screen, key), text=key.help)


def label(key: Key) -> str:
    """Return the line of a key."""
    return f"{key.shown:<{_KEY_WIDTH}}{key.help}"


def _name(key: Key) -> str:
    """What the action is called in the code: often the word that a person remembers."""
    return key.action.removeprefix("app.").partition("(")[0].replace("_", " ")
