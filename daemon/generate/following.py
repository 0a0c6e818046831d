"""What the making of answers tells the taking of hidden states."""

from __future__ import annotations

from typing import Protocol

from contracts.records import Response
from daemon.prompts.index import PromptEntry


class Following(Protocol):
    """Follows the answers of one data set, to take the hidden states that come with them."""

    def begin(self, prompt: PromptEntry) -> str | None:
        """Return the id for a request whose rows are to be captured; None: there is no room for them now."""

    def answered(self, prompt: PromptEntry, response: Response) -> None:
        """Take the rows of an accepted answer, where they were captured."""

    def abandon(self, rid: str) -> None:
        """Nobody wants the rows of this request any more."""
