"""How much of a file counts: all of it, or, where a moment of the past is looked at, what was in it by then."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class Extent(Protocol):
    """Says how many bytes of a file count."""

    def __call__(self, path: Path, size: int, /) -> int:
        """Return how many bytes count.

        Args:
            path: The file.
            size: How long it is.

        Returns:
            At most ``size``; less only where a line begins.

        Raises:
            OSError: The file cannot be read.
        """


def whole(path: Path, size: int, /) -> int:
    """All of it: the present is looked at."""
    return size
