"""The fold over one prompt file: how many prompts there are, and whether they are pre-tokenized."""

from __future__ import annotations

import bisect
import re
from typing import Final

import msgspec

from contracts.fold.anew import start_again
from contracts.fold.places import Places
from contracts.shapes.values import printable

_HEAD: Final = re.compile(rb'\{"sample_id": ?(?:"[ !#-\[\]-~]*"|0|-?[1-9][0-9]*), ?"input_ids": ?\[')
_END: Final = re.compile(rb'\](?:, ?"source_line": ?[1-9][0-9]*)?\}\r?')
_MASK: Final = b'],"loss_mask":['
_BLANKS: Final = b" \t\r"
_BOM: Final = b"\xef\xbb\xbf"


class _AnyPrompt(msgspec.Struct):
    """A prompt line of any tool: only whether it is an object, and whether it has a mask, is asked here."""

    loss_mask: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_DECODER: Final = msgspec.json.Decoder(_AnyPrompt)


class PromptFold(msgspec.Struct):
    """Counts of one ``prompts.jsonl``; a `contracts.journal.tail.LineSink`.

    Whether a prompt can be used is for the daemon to say, which reads the ids; here a line counts when it is an object.
    """

    lines: int = 0
    prompts: int = 0
    pretokenized: int = 0
    masked: list[tuple[int, int]] = []
    """Where the pre-tokenized ones are: first and last line of every stretch of them."""
    unreadable: Places = msgspec.field(default_factory=Places)
    notes: list[str] = []

    def reset(self, why: str) -> None:
        """Start again; see `LineSink`."""
        start_again(self)
        self.notes.append(why)

    def feed(self, block: bytearray, end: int, offset: int, bulk: bool) -> None:
        """Count whole lines; see `LineSink`."""
        head_of, ends, find, starts = _HEAD.match, _END.fullmatch, block.find, block.startswith
        trusted = find(b"\0", 0, end) < 0
        position = 0
        while position < end:
            self.lines += 1
            newline = find(b"\n", position, end)
            head = head_of(block, position, newline) if trusted else None
            masked = whole = False
            if head is not None:
                # The ids (and the mask) are not read: that no text begins in them shows that they are of one line.
                close, quote = find(b"]", head.end(), newline), find(b'"', head.end(), newline)
                masked = close >= 0 and starts(_MASK, close)
                if masked:
                    quote = find(b'"', close + len(_MASK), newline)
                    close = find(b"]", close + len(_MASK), newline)
                whole = close >= 0 and (quote < 0 or quote > close) and ends(block, close, newline) is not None
            if whole:
                self._prompt(masked)
            else:
                self._slow(bytes(block[position:newline]), offset + position)
            position = newline + 1

    def _slow(self, line: bytes, place: int) -> None:
        if self.lines == 1:
            line = line.removeprefix(_BOM)
        if not line.strip(_BLANKS):
            return
        try:
            prompt = _DECODER.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self.unreadable.add(place, self.lines, printable(str(error)))
            return
        self._prompt(prompt.loss_mask is not msgspec.UNSET)

    def _prompt(self, masked: bool) -> None:
        self.prompts += 1
        if not masked:
            return
        self.pretokenized += 1
        if self.masked and self.masked[-1][1] == self.lines - 1:
            self.masked[-1] = (self.masked[-1][0], self.lines)
        else:
            self.masked.append((self.lines, self.lines))

    def is_masked(self, line: int) -> bool:
        """Whether the line of this number is a pre-tokenized prompt."""
        place = bisect.bisect_right(self.masked, line, key=lambda stretch: stretch[0]) - 1
        return place >= 0 and line <= self.masked[place][1]
