"""The fold over one prompt file: how many prompts there are, and whether they are pre-tokenized."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from contracts.fold.places import Places

_HEAD: Final = re.compile(rb'\{"sample_id": ?(?:"[^"\\\x00-\x1f]*"|-?[0-9]+), ?"input_ids": ?\[')
_MASK: Final = b'],"loss_mask":['
_BLANKS: Final = b" \t\r"


class _AnyPrompt(msgspec.Struct):
    """A prompt line of any tool: only whether it is an object, and whether it has a mask, is asked here."""

    loss_mask: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_DECODER: Final = msgspec.json.Decoder(_AnyPrompt)


class PromptFold(msgspec.Struct):
    """Counts of one ``prompts.jsonl``; a `contracts.journal.tail.LineSink`."""

    lines: int = 0
    prompts: int = 0
    pretokenized: int = 0
    unreadable: Places = msgspec.field(default_factory=Places)
    notes: list[str] = []

    def reset(self, why: str) -> None:
        """Start again; see `LineSink`."""
        self.lines = self.prompts = self.pretokenized = 0
        self.unreadable = Places()
        self.notes.append(why)

    def feed(self, block: bytearray, end: int, offset: int, bulk: bool) -> None:
        """Count whole lines; see `LineSink`."""
        match, find, starts = _HEAD.match, block.find, block.startswith
        position = 0
        while position < end:
            self.lines += 1
            newline = find(b"\n", position, end)
            head = match(block, position, newline)
            if head is not None and block[newline - 1] == 0x7D and find(b"{", head.end(), newline) < 0:
                self.prompts += 1
                if starts(_MASK, find(b"]", head.end(), newline)):
                    self.pretokenized += 1
            else:
                self._slow(bytes(block[position:newline]), offset + position)
            position = newline + 1

    def _slow(self, line: bytes, place: int) -> None:
        if self.lines == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line.strip(_BLANKS):
            return
        try:
            prompt = _DECODER.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self.unreadable.add(place, self.lines, str(error))
            return
        self.prompts += 1
        self.pretokenized += prompt.loss_mask is not msgspec.UNSET
