"""Which requests and dumps are a run's own: a tag that its directory keeps, also when it is moved.

Two directories never have one tag while both are there: a copy, which has another path and another inode than the
record in it says, gets a tag of its own, and leaves the dumps of what it was copied from alone.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from contracts.journal.durable import replace_file
from contracts.run_dir import RunDir, path_text


class KeptTag(msgspec.Struct):
    """``run_tag.json``."""

    tag: str
    """Eight digits."""
    path: str
    """Of the run directory, absolute, when the last daemon started."""
    device: int
    inode: int
    former_tag: str | None = None
    """Of the directory that this one is a copy of, or was before it was moved to another disk."""
    former_path: str | None = None


def run_tag(run: Path) -> str:
    """Return the tag of a run directory, the same before and after its first start."""
    kept = kept_tag(run)
    return _new_tag(run) if kept is None else kept.tag


def kept_tag(run: Path) -> KeptTag | None:
    """Return what a run directory keeps of its tag; None: nothing, or it was copied since."""
    kept = _read(run)
    return kept if kept is not None and _is_of(kept, run) else None


def keep_tag(run: Path) -> None:
    """Write down the tag of a run directory; its lock is held.

    Raises:
        OSError: It cannot be written.
    """
    before, state = _read(run), run.stat()
    kept = KeptTag(run_tag(run), _absolute(run), state.st_dev, state.st_ino)
    if before is not None and before.tag == kept.tag:
        kept.former_tag, kept.former_path = before.former_tag, before.former_path
    elif before is not None:
        kept.former_tag, kept.former_path = before.tag, before.path
    if kept != before:
        replace_file(RunDir(run).run_tag, msgspec.json.encode(kept))


def _read(run: Path) -> KeptTag | None:
    try:
        return msgspec.json.decode(RunDir(run).run_tag.read_bytes(), type=KeptTag)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _is_of(kept: KeptTag, run: Path) -> bool:
    """Whether a directory is the one that its record tells of: at the same place, or moved on the same disk."""
    state = run.stat()
    return kept.path == _absolute(run) or (kept.device, kept.inode) == (state.st_dev, state.st_ino)


def _new_tag(run: Path) -> str:
    """Return a tag for a directory that has none: not that of another one which was here before and was moved."""
    try:
        inode = run.stat().st_ino
    except OSError:
        inode = 0  # not made yet
    return hashlib.blake2b(f"{_absolute(run)}\0{inode}".encode(), digest_size=4).hexdigest()


def _absolute(run: Path) -> str:
    return path_text(run.resolve())
