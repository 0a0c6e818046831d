"""Where the responses are whose hidden states are wanted: read from the response file as it grows."""

from __future__ import annotations

from pathlib import Path

import msgspec

from contracts.journal.tail import Tail
from contracts.shapes.output_ids import AcceptedResponses


class Place(msgspec.Struct, frozen=True, gc=False):
    """The response of one sample that counts."""

    key: bytes
    n_output_ids: int | None
    """None: the line holds no ids, or another number of them than it states."""
    offset: int
    """Of its line in the file, in bytes."""
    length: int
    prompt_tokens: int | None
    """Of the prompt that it answers, as its line states it."""


class ResponsePlaces:
    """Follows a response file; which response of a sample counts, `contracts.shapes.output_ids` says.

    Args:
        path: ``raw_responses.jsonl``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tail = Tail(path)
        self._accepted = AcceptedResponses()
        self._new: list[Place] = []
        self._fed = 0
        """Bytes of the last look."""
        self._was_reset = False
        self.behind = False
        """The last `poll` has left something unread."""

    def read_all(self) -> None:
        """Read everything that is there, for the next `poll` to return. Blocking, for gigabytes: call it in a thread.

        Raises:
            OSError: The file is there and cannot be read.
        """
        self._tail.poll(self)

    def poll(self, most_bytes: int) -> list[Place]:
        """Return the responses that are new, after a look at about so many bytes; see `behind` and `take_reset`.

        Raises:
            OSError: The file is there and cannot be read; what was read before comes with the next call.
        """
        self._fed = 0
        self._tail.poll(self, most_bytes)
        self.behind = self._fed >= most_bytes
        new, self._new = self._new, []
        return new

    def take_reset(self) -> bool:
        """Return, once, whether the file was cut, replaced or deleted: only what came with and after the last `poll`
        is in the file that is there now."""
        was_reset, self._was_reset = self._was_reset, False
        return was_reset

    def reset(self, why: str) -> None:
        """Start again; see `contracts.journal.tail.LineSink`."""
        self._accepted.reset()
        self._new.clear()
        self._was_reset = True

    def feed(self, block: bytearray, end: int, offset: int, bulk: bool) -> None:
        """Take whole lines; see `contracts.journal.tail.LineSink`."""
        self._fed += end
        position = 0
        while position < end:
            newline = block.find(b"\n", position, end)
            line = bytes(block[position:newline])
            for answer in self._accepted.of_line(line):
                usable = None if answer.output_ids is None else answer.n_output_ids
                self._new.append(Place(answer.key, usable, offset + position, len(line), answer.prompt_tokens))
            position = newline + 1
