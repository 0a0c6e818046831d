"""What became of each line of one file: accepted under an id of its own, or refused with a reason."""

from __future__ import annotations

import hashlib
import json
from typing import Final

from contracts.sample_id import SampleId, sample_key
from daemon.prompts.refusals import PromptRefusal
from daemon.prompts.shapes import ChatPrompt, PromptShape, TokenPrompt

_DIGITS: Final = 16


class LineAccount:
    """The ids and refusals of one file, told in the order of its lines.

    Of several usable lines with one id (7 and "7" are one) the first is accepted and the later ones are refused; a
    line that was refused does not hold its id.
    """

    def __init__(self) -> None:
        self.refusals: list[PromptRefusal] = []
        self.duplicates: list[tuple[SampleId, int, int]] = []
        """(id, accepted line, line refused for it); each is among the refusals too."""
        self._lines: dict[bytes, int] = {}
        self._made: dict[str, int] = {}

    @property
    def accepted(self) -> int:
        """Number of accepted lines."""
        return len(self._lines)

    def make_up(self, prompt: PromptShape) -> str:
        """Return an id made of the prompt's content: the same in every read of the file, "-2" for its second time."""
        digest = content_digest(prompt)
        number = self._made.get(digest, 0) + 1
        self._made[digest] = number
        return digest if number == 1 else f"{digest}-{number}"

    def refuse(self, line: int, sample_id: SampleId | None, why: str) -> None:
        """Note a line that cannot be used; that its id is taken counts before any other reason."""
        first = None if sample_id is None else self._lines.get(sample_key(sample_id))
        if sample_id is not None and first is not None:
            self._refuse_duplicate(line, sample_id, first)
        else:
            self.refusals.append(PromptRefusal(line, sample_id, why))

    def accept(self, line: int, sample_id: SampleId) -> bytes | None:
        """Note a usable line and return its key; None when its id is taken and the line is refused for that."""
        key = sample_key(sample_id)
        first = self._lines.setdefault(key, line)
        if first != line:
            self._refuse_duplicate(line, sample_id, first)
            return None
        return key

    def _refuse_duplicate(self, line: int, sample_id: SampleId, first: int) -> None:
        self.duplicates.append((sample_id, first, line))
        why = f"has the sample_id {sample_id!r} again: lines {first} and {line} are one sample, line {first} is used"
        self.refusals.append(PromptRefusal(line, sample_id, why))


def content_digest(prompt: PromptShape) -> str:
    """Return the first 16 hex digits of the SHA-256 of what is sent, whatever the file's layout or other columns."""
    if isinstance(prompt, TokenPrompt):
        content: list[object] = ["ids", prompt.input_ids, prompt.loss_mask]
    elif isinstance(prompt, ChatPrompt):
        content = ["chat", [[message["role"], message["content"]] for message in prompt.messages]]
    else:
        content = ["text", prompt.text]
    # Escaped to ASCII: text may hold halves of surrogate pairs, which UTF-8 cannot.
    return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode("ascii")).hexdigest()[:_DIGITS]
