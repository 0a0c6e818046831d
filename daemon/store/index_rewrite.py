"""Taking lines that say nothing out of an index; they are kept beside it."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from contracts.journal.append import repair_torn_tail
from contracts.journal.durable import sync_folder
from contracts.records import INDEX_DECODER, DroppedSample
from contracts.sample_id import sample_key
from contracts.wording import counted
from daemon.store.index import Index


def rewrite_index(index: Index) -> list[str]:
    """Write an index anew without damaged lines and repeated records, which go to a file beside it.

    Its other lines stay as they are, and so does what they say. The caller holds the run's lock.

    Returns:
        Sentences on what was done; none when nothing was to be done.

    Raises:
        OSError: A file cannot be written; the index is as it was.
    """
    torn = repair_torn_tail(index.path) if index.torn is not None else None
    said = [] if torn is None else [str(torn)]
    if not index.unreadable.count and not index.duplicates:
        return said
    beside, aside = index.path.with_name(f".{index.path.name}.tmp"), _free_name(index.path)
    held: set[bytes] = set()
    out = 0
    with index.path.open("rb") as lines, beside.open("wb") as kept, aside.open("xb") as taken:
        for line in lines:
            if _says_something(line, held):
                kept.write(line)
            else:
                taken.write(line)
                out += 1
        for stream in (taken, kept):
            stream.flush()
            os.fsync(stream.fileno())
    beside.rename(index.path)
    sync_folder(index.path.parent)
    what = counted(out, "line that says nothing was", "lines that say nothing were")
    return [*said, f"{index.path}: {what} taken out, kept in {aside.name}"]


def _says_something(line: bytes, held: set[bytes]) -> bool:
    """Whether a line changes what is stored; ``held`` are the samples that are, before and after it."""
    try:
        record = INDEX_DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return not line.strip()
    key = sample_key(record.sample_id)
    if isinstance(record, DroppedSample):
        held.discard(key)
        return True
    if key in held:
        return False
    held.add(key)
    return True


def _free_name(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.unusable-{number}")).exists():
        number += 1
    return aside
