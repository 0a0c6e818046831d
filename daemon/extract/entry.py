"""One sample whose hidden states are wanted."""

from __future__ import annotations

from contracts.sample_id import SampleId
from daemon.prompts.index import PromptEntry


class ExtractEntry:
    """A finished sequence: a prompt with its response, or a pre-tokenized one.

    `offset` and `length` are where its response's line lies in the response file, in bytes; 0, 0: pre-tokenized.
    """

    __slots__ = ("length", "offset", "prompt", "tokens", "whole_tokens")

    def __init__(self, prompt: PromptEntry, tokens: int, whole_tokens: int, offset: int, length: int) -> None:
        self.prompt = prompt
        self.tokens = tokens
        """Rows that are stored of it."""
        self.whole_tokens = whole_tokens
        """Rows before it is cut to the data set's limit: those that come while it is generated."""
        self.offset = offset
        self.length = length

    @property
    def sample_id(self) -> SampleId:
        """As the prompt file has it."""
        return self.prompt.sample_id

    @property
    def key(self) -> bytes:
        """``sample_key`` of it."""
        return self.prompt.key
