"""What requests of a run have left in the dump folder."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from daemon.capture.dump import BLOCK_OF_DISK
from daemon.request_ids import CAPTURED, parse_rid
from daemon.sglang_plugin.eagle3_sglang.dump_format import DUMP_SUFFIX, ERROR_SUFFIX, RID, dump_path, error_path


@dataclass(frozen=True)
class Leftover:
    """What there is of one request; it may be whole or not, wanted or not."""

    rid: str
    sample_hash: str | None
    """None: a request id of this run's tag that is otherwise of no known form."""
    rows_bytes: int
    """Memory that its dump takes; 0 where there is only a reason why it has none."""


def leftovers(folder: Path, tag: str) -> list[Leftover]:
    """Return what requests of this run have left, sorted by rid; other runs' and unknown files are not looked at.

    Raises:
        OSError: The folder is there and cannot be read.
    """
    prefix, rows = f"{CAPTURED}{tag}.", dict[str, int]()
    try:
        entries = os.scandir(folder)
    except FileNotFoundError:
        return []
    with entries:
        for entry in entries:
            rid, dot, kind = entry.name.rpartition(".")
            if not entry.name.startswith(prefix) or dot + kind not in (DUMP_SUFFIX, ERROR_SUFFIX):
                continue
            if RID.fullmatch(rid) is None:
                continue
            try:
                state = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            taken = state.st_blocks * BLOCK_OF_DISK if dot + kind == DUMP_SUFFIX else 0
            rows[rid] = max(rows.get(rid, 0), taken)
    parsed = {rid: parse_rid(rid) for rid in sorted(rows)}
    return [Leftover(rid, None if parts is None else parts.sample, rows[rid]) for rid, parts in parsed.items()]


def sweep(folder: Path, tag: str, keep: set[str]) -> list[str]:
    """Remove what requests of this run have left, and return the rids whose files those were.

    Args:
        folder: The dump folder; it may be missing.
        tag: Of the run.
        keep: Rids that are still wanted.

    Raises:
        OSError: The folder cannot be read, or a file cannot be removed.
    """
    unwanted = [left.rid for left in leftovers(folder, tag) if left.rid not in keep]
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
