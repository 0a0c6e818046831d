"""``import.json``: which file ``prompts.jsonl`` was made from, so that a restart neither repeats nor mixes imports."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

import msgspec

from contracts.sample_id import SampleId
from daemon.prompts.reader import Layout
from daemon.prompts.refusals import PromptRefusal

SCHEMA: Final = 1
_BLOCK_BYTES: Final = 1 << 20


class SourceFacts(msgspec.Struct, frozen=True):
    """What identifies a source file."""

    path: str
    bytes: int
    mtime_ns: int
    sha256: str


class ImportRecord(msgspec.Struct, kw_only=True):
    """The whole of ``import.json``."""

    schema: int = SCHEMA
    source: SourceFacts
    prompts_bytes: int
    prompts_sha256: str
    kind: str
    """``text`` when any record held text, else ``tokens``."""
    tokenizer: str | None
    """Fingerprint; None when no text was encoded."""
    unit: Layout
    lines: int
    accepted: int
    refused: int
    blank: int
    duplicates: list[tuple[SampleId, int, int]]
    refusals: list[PromptRefusal]


def load_import_record(path: Path) -> ImportRecord | None:
    """Return the record, or None when there is none that can be read (missing, cut short, of another version)."""
    try:
        record = msgspec.json.decode(path.read_bytes(), type=ImportRecord)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    return record if record.schema == SCHEMA else None


def source_facts(path: Path, known: SourceFacts | None = None) -> SourceFacts:
    """Return the facts of a file; its content is not read again when path, size and time are as `known`.

    Raises:
        OSError: It cannot be read.
    """
    stat = path.stat()
    found = (path_text(path), stat.st_size, stat.st_mtime_ns)
    same = known is not None and (known.path, known.bytes, known.mtime_ns) == found
    return SourceFacts(*found, known.sha256 if same and known else file_sha256(path))


def differences(record: ImportRecord, source: SourceFacts, tokenizer: str | None) -> list[str]:
    """Return in words what makes a new import differ from the recorded one; empty when nothing does.

    The source's place and time do not count, only its content; the tokenizer counts when there was text.
    """
    found = []
    if source.sha256 != record.source.sha256:
        found.append(
            f"the source's content (sha256 {record.source.sha256[:12]}.. of {record.source.bytes} bytes, "
            f"now {source.sha256[:12]}.. of {source.bytes} bytes)"
        )
    if record.kind == "text" and tokenizer != record.tokenizer:
        found.append(f"the tokenizer (was {record.tokenizer or 'none'}, now {tokenizer or 'none'})")
    return found


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's content in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def path_text(path: Path) -> str:
    """Return a path as text that can be written as UTF-8, the same in every locale."""
    return os.fsencode(path.absolute()).decode("utf-8", "replace")
