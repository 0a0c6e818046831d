"""Token ids as text in which special tokens can be seen; without torch, a network, or a model's own code."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

BYTES: Final = "bytes"
"""``[tokenizer] path`` of a run whose ids are bytes."""
_FILE: Final = "tokenizer.json"


class Piece(NamedTuple):
    """A stretch of text."""

    text: str
    special: bool
    """A special token, by its name."""


class TokenText(Protocol):
    """Turns ids into pieces of text."""

    def pieces(self, ids: Sequence[int]) -> list[Piece]:
        """Return the text of ids, special tokens as pieces of their own."""


class NoTokenizer(Exception):
    """There is no text; the message says why, and what would help."""


class ByteText:
    """Ids 0 to 255 are the bytes of UTF-8, all others are shown by number."""

    def pieces(self, ids: Sequence[int]) -> list[Piece]:
        """See `TokenText`."""
        found = []
        for special, run in _runs(ids, lambda number: not 0 <= number < 256):
            if special:
                found += [Piece(f"<{number}>", True) for number in run]
            else:
                found.append(Piece(bytes(run).decode("utf-8", "replace"), False))
        return found


class FolderText:
    """A local ``tokenizer.json``, read by the package ``tokenizers``."""

    def __init__(self, folder: Path) -> None:
        """Load it.

        Raises:
            NoTokenizer: The package or the file is missing, or cannot be used.
        """
        file = folder / _FILE
        if not file.is_file():
            raise NoTokenizer(f"{folder}: no {_FILE} there, so ids only")
        try:
            tokenizers = importlib.import_module("tokenizers")
        except ImportError:
            raise NoTokenizer("the package tokenizers is not installed, so ids only: pip install tokenizers") from None
        try:
            self._tokenizer: Any = tokenizers.Tokenizer.from_file(str(file))
        except Exception as error:  # the package raises no class of its own
            raise NoTokenizer(f"{file}: cannot be used: {error}") from error
        added = self._tokenizer.get_added_tokens_decoder()
        self._special = {int(number): str(token.content) for number, token in added.items()}

    def pieces(self, ids: Sequence[int]) -> list[Piece]:
        """See `TokenText`."""
        found = []
        for special, run in _runs(ids, self._special.__contains__):
            if special:
                found += [Piece(self._special[number], True) for number in run]
            else:
                found.append(Piece(str(self._tokenizer.decode(list(run), skip_special_tokens=False)), False))
        return found


def load_token_text(path: str | None, run: Path) -> TokenText:
    """Return what turns ids into text.

    Args:
        path: ``[tokenizer] path`` of run.toml; None: the run has none.
        run: The run directory: relative paths begin there.

    Raises:
        NoTokenizer: There is none that can be used.
    """
    if path is None:
        raise NoTokenizer("run.toml names no [tokenizer], so ids only")
    return ByteText() if path == BYTES else FolderText(run / path)


def _runs(ids: Iterable[int], is_special: Callable[[int], bool]) -> Iterator[tuple[bool, list[int]]]:
    run: list[int] = []
    kind = False
    for number in ids:
        special = is_special(number)
        if run and special != kind:
            yield kind, run
            run = []
        kind = special
        run.append(number)
    if run:
        yield kind, run
