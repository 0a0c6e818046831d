"""What a scheduler says of itself in the dump folder, and what earlier ones left there."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from pathlib import Path
from typing import Final

from .dump_format import About

_OURS: Final = re.compile(r"about\.(\d+-\d+-\d+)\.json")


def write_instance(folder: Path, about: About, norm: bytes | None) -> int:
    """Write the self-description, after the norm's weight; what no living process holds is removed before.

    Returns:
        A descriptor that holds the file's lock. To be kept for as long as the process serves: others see by it that
        the file is not a dead one's. A process in another container is seen so, its number would say nothing.

    Raises:
        OSError: They cannot be written.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    remove_dead(folder)
    if norm is not None:
        (folder / about.norm_file_name).write_bytes(norm)
    path = folder / about.file_name
    made = path.with_suffix(".part")
    descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(descriptor, about.encode())
        made.rename(path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def remove_dead(folder: Path) -> None:
    """Remove the files of processes that have ended."""
    for path in folder.glob("about.*.json"):
        found = _OURS.fullmatch(path.name)
        if found is None:
            continue
        with contextlib.suppress(OSError):  # BlockingIOError: it lives
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                (folder / f"norm.{found[1]}.f32").unlink(missing_ok=True)
                path.unlink()
            finally:
                os.close(descriptor)
