"""Files and names that last through a power cut."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, content: bytes) -> None:
    """Write a small file whole or not at all: beside it, synced, then renamed over it.

    Raises:
        OSError: It cannot be written; what was there before still is.
    """
    beside = path.with_name(f".{path.name}.tmp")
    with beside.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    beside.rename(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make new and changed names in a folder last; what is synced into a file is lost with its name.

    Raises:
        OSError: The folder cannot be opened or synced.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
