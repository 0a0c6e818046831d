"""A prompt file of any known shape to ``prepared/<dataset>/prompts.jsonl``, every line accepted or refused.

The result appears whole or not at all, is the same bytes for the same source and tokenizer, and is made once: responses
belong to the prompts that were there when they were asked for, so a source that changes under them is an error.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from contracts.journal.durable import replace_file, sync_folder
from contracts.records import Prompt, encode_line
from contracts.run_dir import DatasetDir
from contracts.sample_id import SampleId
from daemon.prompts.account import LineAccount
from daemon.prompts.import_record import (
    ImportRecord,
    SourceFacts,
    differences,
    file_sha256,
    load_import_record,
    path_text,
    source_facts,
)
from daemon.prompts.reader import Layout, PromptReader, check_source
from daemon.prompts.refusals import PromptError, PromptRefusal, Refusal
from daemon.prompts.shapes import ChatPrompt, PromptShape, TokenPrompt, recognise
from daemon.prompts.tokenizer import NotEncodable, Tokenizer


class PromptImportError(PromptError):
    """The file was read, and ``prompts.jsonl`` cannot be made from it."""


class ImportChanged(PromptImportError):
    """``prompts.jsonl`` is there and would become another; the message says what differs."""


class TokenizerNeeded(PromptImportError):
    """The file holds text and run.toml has no ``[tokenizer]``."""


class NothingUsable(PromptImportError):
    """Every line was refused; `refusals` has them all."""

    def __init__(self, message: str, refusals: list[PromptRefusal]) -> None:
        super().__init__(message)
        self.refusals = refusals


@dataclass(frozen=True)
class ImportReport:
    """What became of every line: ``accepted + refused + blank == lines``."""

    source: Path
    accepted: int
    refused: int
    blank: int
    lines: int
    unit: Layout
    """What `lines` and the numbers count: lines, elements of one array, or objects (numbered by their first line)."""
    duplicates: list[tuple[SampleId, int, int]]
    """(id, line of the sample that is used, line that was refused for it); these are among the refusals too."""
    refusals: list[PromptRefusal]
    kind: str
    """``text`` when any record held text, else ``tokens``."""
    fingerprint: str | None
    """Of the tokenizer; None when no text was encoded."""
    skipped: bool
    """True when ``prompts.jsonl`` was there already, made from this very content."""


def import_prompts(source: Path, target: DatasetDir, tokenizer: Tokenizer | None) -> ImportReport:
    """Make ``prompts.jsonl`` and ``import.json`` from a prompt file, unless they are there already.

    Args:
        source: File of any shape and layout that `daemon.prompts.shapes` and `daemon.prompts.reader` know.
        target: Data set folder; made when it is missing.
        tokenizer: For records that hold text; None when run.toml has no ``[tokenizer]``.

    Raises:
        PromptSourceError: The source is missing, empty, or no text.
        ImportChanged: Other prompts are there, and responses (or a file that no import made) depend on them.
        TokenizerNeeded: The first good record holds text and there is no tokenizer.
        TokenizerError: The tokenizer cannot be used for these prompts at all.
        NothingUsable: Every line was refused.
        PromptImportError: The source changed while it was read, or writing failed.
    """
    check_source(source)
    record = load_import_record(target.import_record)
    try:
        facts = source_facts(source, record.source if record else None)
        before = _size(target.prompts)
        answered = _size(target.responses) > 0
        if before > 0 and source.samefile(target.prompts):
            raise PromptImportError(
                f"{source}: is the data set's own file, which is read without an import: take `prompts` out of run.toml"
            )
        if record is not None:
            changed = differences(record, facts, tokenizer.fingerprint if tokenizer else None)
            if before not in (0, record.prompts_bytes):
                changed.append(f"{target.prompts.name} itself ({record.prompts_bytes} bytes, now {before})")
            if not changed and before == record.prompts_bytes:
                return _report(source, record, skipped=True)
            if changed and answered:
                raise ImportChanged(_changed_text(source, target, changed))
        target.path.mkdir(parents=True, exist_ok=True)
        beside = target.prompts.with_name(f".{target.prompts.name}.tmp")
        try:
            made = _convert(source, facts, tokenizer, beside)
            # No import.json, but prompts: lost after an import (then they are equal), or someone's own file.
            if record is None and before > 0 and file_sha256(target.prompts) != made.prompts_sha256:
                own = [f"{target.prompts.name} itself, which was not made from this source"]
                raise ImportChanged(_changed_text(source, target, own))
            if record is not None and answered and record.prompts_sha256 != made.prompts_sha256:
                raise ImportChanged(_changed_text(source, target, ["how this version of eagle3 reads the source"]))
            _put_in_place(made, beside, target)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise PromptImportError(
            f"{source}: the import into {target.path} failed: {error.strerror} ({error.filename or 'while writing'})"
        ) from error
    return _report(source, made, skipped=False)


def _convert(source: Path, facts: SourceFacts, tokenizer: Tokenizer | None, beside: Path) -> ImportRecord:
    """Write every usable prompt of the source to `beside`, synced, and account for the rest."""
    reader = PromptReader(source)
    account = LineAccount()
    digest = hashlib.sha256()
    has_text = False

    with beside.open("wb") as out:
        for line, value in reader:
            prompt = value if isinstance(value, Refusal) else recognise(value)
            if isinstance(prompt, Refusal):
                account.refuse(line, prompt.sample_id, prompt.why)
                continue
            if not isinstance(prompt, TokenPrompt):
                has_text = True
                if tokenizer is None and not account.accepted:
                    raise TokenizerNeeded(
                        f"{source}: line {line} holds text, not token ids: add a [tokenizer] table with "
                        f'path = "<tokenizer folder>" (or "bytes") to run.toml'
                    )
            sample_id = account.make_up(prompt) if prompt.sample_id is None else prompt.sample_id
            input_ids = _encode(prompt, tokenizer)
            if isinstance(input_ids, Refusal):
                account.refuse(line, sample_id, input_ids.why)
                continue
            if account.accept(line, sample_id) is not None:
                encoded = encode_line(_prompt_record(sample_id, input_ids, prompt, line))
                out.write(encoded)
                digest.update(encoded)
        out.flush()
        os.fsync(out.fileno())
        written = out.tell()

    if not account.accepted:
        shown = "; ".join(f"line {refusal.line}: {refusal.why}" for refusal in account.refusals[:3])
        raise NothingUsable(
            f"{source}: none of its {reader.records} {reader.layout} can be used: {shown or 'all are blank'}",
            account.refusals,
        )
    if source_facts(source, facts).sha256 != facts.sha256:
        raise PromptImportError(f"{source}: the file changed while it was read: start again when it is complete")
    return ImportRecord(
        source=facts,
        prompts_bytes=written,
        prompts_sha256=digest.hexdigest(),
        kind="text" if has_text else "tokens",
        tokenizer=tokenizer.fingerprint if has_text and tokenizer else None,
        unit=reader.layout,
        lines=reader.records + reader.blank,
        accepted=account.accepted,
        refused=len(account.refusals),
        blank=reader.blank,
        duplicates=account.duplicates,
        refusals=account.refusals,
    )


def _encode(prompt: PromptShape, tokenizer: Tokenizer | None) -> list[int] | Refusal:
    if isinstance(prompt, TokenPrompt):
        return prompt.input_ids
    if tokenizer is None:
        return Refusal("holds text in a file of token ids, and run.toml has no [tokenizer]")
    try:
        if isinstance(prompt, ChatPrompt):
            input_ids = tokenizer.encode_chat(prompt.messages)
        else:
            input_ids = tokenizer.encode_text(prompt.text, prompt.preformatted)
    except NotEncodable as error:
        return Refusal(str(error).encode("utf-8", "backslashreplace").decode("utf-8"))
    return input_ids or Refusal("gives no token at all: an empty prompt is never sent")


def _prompt_record(sample_id: SampleId, input_ids: list[int], prompt: PromptShape, line: int) -> Prompt:
    mask = prompt.loss_mask if isinstance(prompt, TokenPrompt) else None
    return Prompt(
        sample_id=sample_id,
        input_ids=msgspec.Raw(msgspec.json.encode(input_ids)),
        loss_mask=msgspec.UNSET if mask is None else msgspec.Raw(msgspec.json.encode(mask)),
        source_line=line,
    )


def _put_in_place(made: ImportRecord, beside: Path, target: DatasetDir) -> None:
    """Replace old by new so that a kill at any moment leaves either a whole import or one that is repeated."""
    target.prompts.unlink(missing_ok=True)
    replace_file(target.import_record, msgspec.json.encode(made) + b"\n")
    beside.rename(target.prompts)
    sync_folder(target.path)


def _report(source: Path, record: ImportRecord, *, skipped: bool) -> ImportReport:
    return ImportReport(
        source=source,
        accepted=record.accepted,
        refused=record.refused,
        blank=record.blank,
        lines=record.lines,
        unit=record.unit,
        duplicates=record.duplicates,
        refusals=record.refusals,
        kind=record.kind,
        fingerprint=record.tokenizer,
        skipped=skipped,
    )


def _changed_text(source: Path, target: DatasetDir, changed: list[str]) -> str:
    return (
        f"{path_text(target.prompts)} was made before, and importing {source} again would change it. What differs: "
        f"{'; '.join(changed)}. Put back what was, take `prompts` out of run.toml to go on with the file as it is, or "
        f"use another run directory"
    )


def _size(path: Path) -> int:
    """Bytes of a file; 0 when there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
