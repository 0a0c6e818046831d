"""Responses of an earlier or foreign run taken over: the file that ``responses`` of a data set names in run.toml.

What is taken over is written as our own records into ``raw_responses.jsonl``, whole or not at all, before the run makes
any of its own; its samples then count as answered. Nothing is ever mixed into responses that are there already.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from contracts.journal.durable import replace_file, sync_folder
from contracts.records import Response, encode_line
from contracts.run_dir import DatasetDir
from contracts.shapes import BadLine, decode_response_line
from contracts.shapes.output_ids import Answer, answers_of
from daemon.prompts.import_record import SourceFacts, path_text, source_facts
from daemon.prompts.index import PromptEntry, PromptIndex, PromptLimits
from daemon.prompts.reader import check_source, numbered_lines
from daemon.prompts.refusals import PromptError

SCHEMA: Final = 1
_UNREADABLE: Final = "fit no known shape"
_NO_ANSWER: Final = "hold no accepted answer"
_UNFINISHED: Final = "are pieces of a stream or cut short"
_STRANGER: Final = "belong to no prompt of this data set"
_PRETOKENIZED: Final = "belong to a prompt that brings its own answer"
_NO_IDS: Final = "hold no token ids, or another number of them than they state"
_OTHER_PROMPT: Final = "were made for a prompt of another length"
_AGAIN: Final = "are further answers to a sample that is taken over"
_IDS: Final = msgspec.json.Decoder(list[int])
_NO_LIMITS: Final = PromptLimits(vocab_size=None, max_input_len=None, context_length=None, max_new_tokens=0)
_MOST_ID: Final = (1 << 32) - 1


class ResponseImportError(PromptError):
    """The responses cannot be taken over; the message names the file and what to do."""


class ImportedResponses(msgspec.Struct, kw_only=True):
    """What became of every answer of the source; the whole of ``responses_import.json``."""

    schema: int = SCHEMA
    source: SourceFacts
    lines: int
    """Of the source; one that holds several answers counts as many times. ``accepted + refused + blank == lines``."""
    accepted: int
    blank: int
    refused_for: dict[str, int]
    """Reason -> answers."""

    @property
    def refused(self) -> int:
        """Answers that were not taken over."""
        return sum(self.refused_for.values())

    def __str__(self) -> str:
        why = "".join(f"; {count} {reason}" for reason, count in sorted(self.refused_for.items()))
        name = Path(self.source.path).name
        counts = f"{self.accepted} accepted + {self.refused} refused + {self.blank} blank = {self.lines}"
        return f"{counts} answers of {name}{why}"


@dataclass(frozen=True)
class ResponseImport:
    """What an import came to."""

    report: ImportedResponses | None
    """None: nothing of the source was ever taken over."""
    done_now: bool = False
    refusal: str | None = None
    """Why the source as it is now was not taken over, in a sentence."""


def import_responses(source: Path, target: DatasetDir, now: float) -> ResponseImport:
    """Make ``raw_responses.jsonl`` of the usable answers of a file, unless the data set has responses already.

    Args:
        source: JSONL of any shape that `contracts.shapes` knows.
        target: Data set folder; its ``prompts.jsonl`` is there.
        now: Unix seconds.

    Raises:
        ResponseImportError: The source is missing or changes while it is read, none of it can be used, or writing
            failed.
        PromptError: Source or prompts cannot be read.
    """
    record_path = target.path / "responses_import.json"
    try:
        known = _load(record_path)
        if _size(target.responses) > 0:
            return _kept(source, target, known)
        check_source(source, "response")
        facts = source_facts(source, None if known is None else known.source)
        beside = target.responses.with_name(f".{target.responses.name}.tmp")
        try:
            made = _convert(source, facts, target, beside, now)
            # A kill in between leaves a record without responses: the import is then made again.
            replace_file(record_path, msgspec.json.encode(made) + b"\n")
            beside.rename(target.responses)
            sync_folder(target.path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise ResponseImportError(
            f"{source}: its responses could not be taken over into {target.path}: {error.strerror or error} "
            f"({error.filename or 'while writing'})"
        ) from error
    return ResponseImport(made, done_now=True)


def check_responses(source: Path, target: DatasetDir) -> None:
    """See whether a source is there, when it is still to be taken over.

    Raises:
        PromptError: It is missing, empty or no text.
    """
    if _size(target.responses) == 0:
        check_source(source, "response")


def _kept(source: Path, target: DatasetDir, known: ImportedResponses | None) -> ResponseImport:
    """Leave responses that are there as they are, and say so where that is not what run.toml seems to ask for."""
    if known is None:
        why = f"{path_text(target.responses)} holds responses already, which were not taken over from {source}"
    elif source.exists() and source_facts(source, known.source).sha256 != known.source.sha256:
        why = f"{source} has changed since its responses were taken over"
    else:
        return ResponseImport(known)
    return ResponseImport(
        known,
        refusal=f"{why}: nothing is mixed into what is there. Take `responses` out of run.toml to go on with it, or "
        f"use another run directory",
    )


def _convert(source: Path, facts: SourceFacts, target: DatasetDir, beside: Path, now: float) -> ImportedResponses:
    """Write every usable answer to `beside`, synced, and account for the rest."""
    # An answer was made when its file was written, at the latest: no session of this run is to count it as its work.
    at = min(now, facts.mtime_ns / 1e9)
    made = ImportedResponses(source=facts, lines=0, accepted=0, blank=0, refused_for={})
    taken: set[bytes] = set()
    with PromptIndex.build(target.prompts, _NO_LIMITS) as index:
        prompts = {entry.key: entry for entry in index.entries}
    with source.open("rb") as stream, beside.open("wb") as out:
        for _, _, line in numbered_lines(stream):
            if not line.strip():
                made.blank += 1
                made.lines += 1
                continue
            for found in _usable(line, prompts, taken):
                made.lines += 1
                if isinstance(found, str):
                    made.refused_for[found] = made.refused_for.get(found, 0) + 1
                    continue
                entry, answer, ids = found
                taken.add(entry.key)
                made.accepted += 1
                out.write(encode_line(_record(entry, answer, ids, at)))
        out.flush()
        os.fsync(out.fileno())
    if not made.accepted:
        raise ResponseImportError(f"{source}: none of its responses can be taken over: {made}")
    if source_facts(source, facts).sha256 != facts.sha256:
        raise ResponseImportError(f"{source}: the file changed while it was read: start again when it is complete")
    return made


def _usable(
    line: bytes, prompts: dict[bytes, PromptEntry], taken: set[bytes]
) -> Iterator[str | tuple[PromptEntry, Answer, list[int]]]:
    """Yield for each answer of a line what is to be written of it, or why nothing is."""
    answers = answers_of(line)
    if not answers:
        yield _UNREADABLE if isinstance(decode_response_line(line), BadLine) else _NO_ANSWER
    for answer in answers:
        entry = prompts.get(answer.key)
        if entry is None:
            yield _STRANGER
        elif entry.pretokenized:
            yield _PRETOKENIZED
        elif answer.key in taken:
            yield _AGAIN
        elif answer.unfinished is not None:
            yield _UNFINISHED
        elif answer.prompt_tokens not in (None, entry.n_tokens):
            yield _OTHER_PROMPT
        else:
            ids = _ids(answer)
            yield _NO_IDS if ids is None else (entry, answer, ids)


def _ids(answer: Answer) -> list[int] | None:
    if answer.output_ids is None:
        return None
    try:
        ids = _IDS.decode(answer.output_ids)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return ids if ids and min(ids) >= 0 and max(ids) <= _MOST_ID else None


def _record(entry: PromptEntry, answer: Answer, ids: list[int], at: float) -> Response:
    finished = at if answer.finished_at is None else answer.finished_at
    return Response(
        sample_id=entry.sample_id,
        prompt_tokens=entry.n_tokens,
        completion_tokens=len(ids),
        finish_reason=answer.finish_reason or "unknown",
        output_ids=msgspec.Raw(msgspec.json.encode(ids)),
        think_end=answer.think_end,
        finished_at=finished,
        started_at=finished,
        rid="",
        server="",
        attempt=0,
    )


def _load(path: Path) -> ImportedResponses | None:
    """Return the record of an earlier import; None when there is none that can be read."""
    try:
        record = msgspec.json.decode(path.read_bytes(), type=ImportedResponses)
    except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return record if record.schema == SCHEMA else None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
