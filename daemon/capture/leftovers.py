"""What requests of a run have left in the dump folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from daemon.request_ids import CAPTURED, parse_rid
from daemon.sglang_plugin.eagle3_sglang.dump_format import DUMP_SUFFIX, ERROR_SUFFIX, RID, dump_path, error_path

_BLOCK: Final = 512
"""Unit of ``st_blocks``; holes take none."""


@dataclass(frozen=True)
class Leftover:
    """What there is of one request; it may be whole or not, wanted or not."""

    rid: str
    sample_hash: str | None
    """None: a request id of this run's tag that is otherwise of no known form."""
    rows_bytes: int
    """Memory that its dump takes; 0 where there is only a reason why it has none."""


def _files_of_requests(folder: Path, tag: str) -> Iterator[tuple[str, str, int]]:
    """Yield rid, kind (its suffix) and memory of every file that requests of a run have there; other files are not
    looked at, and those that vanish meanwhile are left out.

    Raises:
        OSError: The folder cannot be read.
    """
    prefix = f"{CAPTURED}{tag}."
    with os.scandir(folder) as entries:
        for entry in entries:
            rid, dot, kind = entry.name.rpartition(".")
            ours = entry.name.startswith(prefix) and dot + kind in (DUMP_SUFFIX, ERROR_SUFFIX)
            if not ours or RID.fullmatch(rid) is None:
                continue
            try:
                state = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            yield rid, dot + kind, state.st_blocks * _BLOCK


def leftovers(folder: Path, tag: str) -> list[Leftover]:
    """Return what requests of this run have left, sorted by rid; other runs' and unknown files are not looked at.

    Raises:
        OSError: The folder is there and cannot be read.
    """
    rows: dict[str, int] = {}
    with suppress(FileNotFoundError):
        for rid, kind, taken in _files_of_requests(folder, tag):
            rows[rid] = max(rows.get(rid, 0), taken if kind == DUMP_SUFFIX else 0)
    parsed = {rid: parse_rid(rid) for rid in sorted(rows)}
    return [Leftover(rid, None if parts is None else parts.sample, rows[rid]) for rid, parts in parsed.items()]


def sweep(folder: Path, tag: str, is_wanted: Callable[[str], bool] = lambda rid: False) -> list[str]:
    """Remove what requests of this run have left, and return the rids whose files those were.

    Args:
        folder: The dump folder; it may be missing.
        tag: Of the run.
        is_wanted: Whether the files of a rid stay.

    Raises:
        OSError: The folder cannot be read, or a file cannot be removed.
    """
    unwanted = [left.rid for left in leftovers(folder, tag) if not is_wanted(left.rid)]
    for rid in unwanted:
        remove_dump(folder, rid)
    return unwanted


def remove_dump(folder: Path, rid: str) -> None:
    """Remove a request's dump and what the plugin said of it; that there is none is fine.

    It is emptied first: that frees its memory although the server still holds it open.

    Raises:
        OSError: It cannot be removed.
        DumpFormatError: The rid is not one of ours.
    """
    path = dump_path(folder, rid)
    with suppress(OSError):  # where it cannot be emptied it may still be removed
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)
    for each in (path, error_path(folder, rid)):
        each.unlink(missing_ok=True)
