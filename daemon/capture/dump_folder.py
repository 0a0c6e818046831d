"""A look at the dump folder: what requests of a run have left there, and how much of it their dumps may take."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from daemon.capture.leftovers import Leftover, leftovers

SHARE: Final = 0.8
"""Of what there is, where run.toml names no budget."""


@dataclass(frozen=True)
class DumpFolder:
    """The folder at one moment."""

    left: list[Leftover]
    """Of this run."""
    free_bytes: int
    """That anybody may still write; 0 where no file can be made."""
    budget_bytes: int
    """Most that dumps of the run may take now. What they take already counts as free, others' files do not."""
    capacity_bytes: int
    """Most that they could take if nobody else had files there. A larger sample can never be captured."""


def look_at(folder: Path, tag: str, configured_gb: float | None) -> DumpFolder:
    """Look at the dump folder. Blocking, though as a rule it is in memory.

    Args:
        folder: The dump folder; it exists.
        tag: Of the run.
        configured_gb: ``[extract] dump_budget_gb``; no more than there is. None: 80 % of what there is.

    Raises:
        OSError: It cannot be looked at.
    """
    disk = os.statvfs(folder)  # before the dumps: what goes meanwhile is then counted once at most
    left = leftovers(folder, tag)
    free = disk.f_bavail * disk.f_frsize
    usable = (disk.f_blocks - disk.f_bfree) * disk.f_frsize + free
    can_make_files = disk.f_favail > 0 or disk.f_files == 0  # 0 of 0: it has no limit of files

    def share_of(count: int) -> int:
        return int(SHARE * count) if configured_gb is None else min(int(configured_gb * 1e9), count)

    own = sum(each.rows_bytes for each in left)
    return DumpFolder(left, free if can_make_files else 0, share_of(free + own), share_of(usable))
