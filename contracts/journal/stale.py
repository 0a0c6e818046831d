"""Another try when a network file system says a file handle is stale (ESTALE)."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

Result = TypeVar("Result")

TRIES: Final = 3
_LOG: Final = logging.getLogger(__name__)


class StaleFileError(OSError):
    """A file stayed stale over all tries; the message names it."""


def retry_stale(what: str, path: Path, action: Callable[[], Result]) -> Result:
    """Run ``action`` again when it fails with ESTALE; ``action`` must open the file anew by its path.

    Args:
        what: What is being done, for the log: ``open``, ``read``, ``stat``.
        path: The file.
        action: The attempt.

    Raises:
        StaleFileError: ESTALE three times in a row.
        OSError: Any other failure, as it came.
    """
    for attempt in range(1, TRIES + 1):
        try:
            return action()
        except StaleFileError:
            raise  # an attempt within this one has had its tries
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
            if attempt < TRIES:
                _LOG.warning("%s: stale file handle on %s (try %d of %d): opening it again", path, what, attempt, TRIES)
    raise StaleFileError(
        errno.ESTALE,
        f"stale file handle on {what}, {TRIES} times in a row: was it removed or replaced by another host?",
        str(path),
    )
