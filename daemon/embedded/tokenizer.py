"""A byte-level tokenizer without merges, as the recorded server's: ids 0-255 are bytes, the rest `<fN>`.

Byte b does not have id b: ids follow GPT-2's byte alphabet (printable bytes first), which is what `tokenizers`
builds and what the recordings show: `!` is 0, `h` is 71, newline 198. Special ids have no text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from daemon.embedded.config import ModelConfig

_FILLER = re.compile(rb"<f([1-9][0-9]*)>")


def byte_alphabet() -> list[int]:
    """The 256 byte values in the order of their ids (GPT-2's `bytes_to_unicode`)."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return printable + sorted(set(range(256)) - set(printable))


class ByteTokenizer:
    """Text to ids and back for the tiny model's vocabulary."""

    def __init__(self, config: ModelConfig) -> None:
        alphabet = byte_alphabet()
        self._id_of_byte = bytes(alphabet.index(byte) for byte in range(256))
        self._special = frozenset(config.special_ids)
        with_special = [bytes([byte]) for byte in alphabet]
        with_special += [b"<f%d>" % number for number in range(256, config.vocab_size)]
        for number, name in zip(config.special_ids, (b"<s>", b"</s>", b"<pad>"), strict=True):
            with_special[number] = name
        self._with_special = with_special
        self._pieces = [b"" if number in self._special else piece for number, piece in enumerate(with_special)]

    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str:
        """The text of `ids`; bytes that are no UTF-8 become U+FFFD, as in the recordings."""
        pieces = self._pieces if skip_special else self._with_special
        return b"".join(map(pieces.__getitem__, ids)).decode("utf-8", "replace")

    def encode(self, text: str) -> list[int]:
        """The ids of `text`; `<fN>` of a filler id gives that id, so ids without specials survive a round trip."""
        data = text.encode("utf-8", "surrogatepass")
        ids: list[int] = []
        position = 0
        for match in _FILLER.finditer(data):
            number = int(match[1])
            if not 256 <= number < len(self._pieces) or number in self._special:
                continue
            ids.extend(data[position : match.start()].translate(self._id_of_byte))
            ids.append(number)
            position = match.end()
        ids.extend(data[position:].translate(self._id_of_byte))
        return ids
