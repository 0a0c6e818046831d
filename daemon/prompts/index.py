"""The validated prompts of a data set, small in memory; the scheduler draws from it and nothing else is ever sent.

``prompts.jsonl`` is read once. Of each good line only the place of its ids in the file is kept: they are read again
when they are sent, as the JSON text that they are.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

import msgspec

from contracts.sample_id import SampleId
from daemon.prompts.account import LineAccount
from daemon.prompts.prompt_file import FileCalls, PromptFileError, ReopeningFile
from daemon.prompts.reader import Layout, decode_json, detect_layout, numbered_lines
from daemon.prompts.refusals import PromptError, PromptRefusal, Refusal
from daemon.prompts.shapes import TokenPrompt, recognise
from daemon.prompts.token_ids import vocabulary_fault

_BUFFER_BYTES: Final = 1 << 20
_IMPORT_HINT: Final = "name the file as `prompts = ...` of the data set in run.toml"
_MASK_TEXT: Final = re.compile(rb'"loss_mask"\s*:\s*(\[[^\[\]]*\])')
_IDS_TEXT: Final = re.compile(rb'"input_ids"\s*:\s*(\[[^\[\]]*\])')


class PromptIndexError(PromptError):
    """``prompts.jsonl`` is missing or empty."""


@dataclass(frozen=True)
class PromptLimits:
    """What a prompt must fit; None where no server and no run.toml tells (then only negative ids are refused)."""

    vocab_size: int | None
    max_input_len: int | None
    """A prompt must be shorter than this many tokens (``max_req_input_len`` of the server)."""
    context_length: int | None
    max_new_tokens: int
    over_long: Literal["refuse", "clip"] = "refuse"
    """For prompt + max_new_tokens > context: refuse the prompt, or let its answer be shorter."""


class PromptEntry:
    """One usable prompt. `offset` and `length` are where the JSON text of its ids lies in the file, in bytes."""

    __slots__ = (
        "key",
        "length",
        "line",
        "mask_length",
        "mask_offset",
        "max_new_tokens",
        "n_tokens",
        "offset",
        "sample_id",
    )

    def __init__(
        self,
        sample_id: SampleId,
        key: bytes,
        offset: int,
        length: int,
        n_tokens: int,
        max_new_tokens: int | None,
        line: int,
        mask_offset: int,
        mask_length: int,
    ) -> None:
        self.sample_id = sample_id
        self.key = key
        self.offset = offset
        self.length = length
        self.n_tokens = n_tokens
        self.max_new_tokens = max_new_tokens
        """Its own limit when the configured one would not fit (``clip``); None: the configured one."""
        self.line = line
        self.mask_offset = mask_offset
        self.mask_length = mask_length
        """Where the JSON text of its loss mask lies in the file; a length of 0: it has none."""

    @property
    def pretokenized(self) -> bool:
        """It has a loss mask: a finished sample, not to be generated."""
        return self.mask_length > 0


class _Line(msgspec.Struct):
    """The keys of a line as we write it; any other line takes the slow way, which knows the reasons."""

    sample_id: SampleId
    input_ids: msgspec.Raw
    loss_mask: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    attention_mask: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    source_line: int | None = None


@dataclass(frozen=True, slots=True)
class _Checked:
    """A line whose ids are good as such."""

    sample_id: SampleId
    ids: list[int]
    raw: bytes
    """The text of the ids, as it is in the file."""
    mask: bytes | None
    """The text of the loss mask; None: it has none."""
    source_line: int | None = None


_LINE: Final = msgspec.json.Decoder(_Line)
_IDS: Final = msgspec.json.Decoder(list[int])
_MASK: Final = msgspec.json.Decoder(list[Literal[0, 1]])


class PromptIndex:
    """Entries in the order of the file, refusals with their lines; `build` makes it."""

    def __init__(self, file: ReopeningFile) -> None:
        self._file = file
        self.path = file.path
        self.entries: list[PromptEntry] = []
        self.refusals: list[PromptRefusal] = []
        self.blank = 0
        """Blank lines: neither entries nor refusals."""

    @classmethod
    def build(cls, path: Path, limits: PromptLimits, calls: FileCalls | None = None) -> PromptIndex:
        """Read and check the whole file.

        Args:
            path: A ``prompts.jsonl``.
            limits: What prompts must fit.
            calls: For tests: the file calls.

        Raises:
            PromptIndexError: The file is missing or empty.
            PromptFileError: It cannot be read.
        """
        try:
            file = ReopeningFile(path, calls)
        except PromptFileError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise PromptIndexError(f"{path}: no such file: put the prompts there, or {_IMPORT_HINT}") from None
            raise
        if file.size == 0:
            file.close()
            raise PromptIndexError(
                f"{path}: is empty (0 bytes; was the disk full?): delete it when it was imported (it is made again), "
                f"or put the prompts there again"
            )
        index = cls(file)
        try:
            index._read(limits)
        except PromptFileError:
            file.close()
            raise
        return index

    @property
    def pretokenized(self) -> bool:
        """Whether every entry has a loss mask: nothing to generate in this data set."""
        return bool(self.entries) and all(entry.pretokenized for entry in self.entries)

    @property
    def mixed(self) -> str | None:
        """A sentence when some entries have a loss mask and others don't (each is treated as it is), else None."""
        masked = sum(entry.pretokenized for entry in self.entries)
        if masked in (0, len(self.entries)):
            return None
        return (
            f"{self.path}: {masked} of {len(self.entries)} prompts have a loss_mask: those are finished samples and "
            f"are not generated, the others are generated"
        )

    def read_ids(self, entry: PromptEntry) -> bytes:
        """Return the JSON text of an entry's ids, for a `msgspec.Raw`.

        Raises:
            PromptFileError: The file vanished, changed or was cut since it was indexed.
        """
        return self._read_text(entry, entry.offset, entry.length)

    def read_mask(self, entry: PromptEntry) -> bytes | None:
        """Return the JSON text of a pre-tokenized entry's loss mask; None for any other.

        Raises:
            PromptFileError: The file vanished, changed or was cut since it was indexed.
        """
        return self._read_text(entry, entry.mask_offset, entry.mask_length) if entry.pretokenized else None

    def _read_text(self, entry: PromptEntry, offset: int, length: int) -> bytes:
        text = self._file.pread(length, offset)
        if len(text) != length or not text.startswith(b"[") or not text.endswith(b"]"):
            raise PromptFileError(f"{self.path}: line {entry.line} is not where it was: the file changed while in use")
        return text

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self, limits: PromptLimits) -> None:
        stream = io.BufferedReader(self._file, _BUFFER_BYTES)
        try:
            layout = detect_layout(stream)
            if layout is not Layout.LINES:
                what = "one JSON array" if layout is Layout.ELEMENTS else "pretty-printed JSON"
                self.refusals.append(
                    PromptRefusal(1, None, f"the file is {what}, not one record a line: {_IMPORT_HINT}")
                )
                return
            stream.seek(0)
            self._read_lines(numbered_lines(stream), limits)
        finally:
            stream.detach()

    def _read_lines(self, lines: Iterator[tuple[int, int, bytes]], limits: PromptLimits) -> None:
        account = LineAccount()
        for number, offset, line in lines:
            if not line or line.isspace():
                self.blank += 1
                continue
            found = _check_fast(line) or _check_slowly(line, account)
            if isinstance(found, Refusal):
                account.refuse(number, found.sample_id, found.why)
                continue
            own_limit = _fit(found, limits)
            if isinstance(own_limit, Refusal):
                imported = f" (line {found.source_line} of the imported file)" if found.source_line else ""
                account.refuse(number, found.sample_id, own_limit.why + imported)
                continue
            key = account.accept(number, found.sample_id)
            if key is None:
                continue
            self.entries.append(
                PromptEntry(
                    sample_id=found.sample_id,
                    key=key,
                    offset=offset + _place(line, found.raw, b'"input_ids"'),
                    length=len(found.raw),
                    n_tokens=len(found.ids),
                    max_new_tokens=own_limit,
                    line=number,
                    mask_offset=0 if found.mask is None else offset + _place(line, found.mask, b'"loss_mask"'),
                    mask_length=0 if found.mask is None else len(found.mask),
                )
            )
        self.refusals = account.refusals


def _check_fast(line: bytes) -> _Checked | None:
    """Check a line that is as we write it; None for any other and for any fault."""
    try:
        record = _LINE.decode(line)
        raw = bytes(record.input_ids)
        ids = _IDS.decode(raw)
        mask = None if record.loss_mask is msgspec.UNSET else _MASK.decode(record.loss_mask)
    except (msgspec.DecodeError, RecursionError):
        return None
    plain = record.attention_mask is msgspec.UNSET and record.sample_id != ""
    # A minus is in the text of integers only where one is negative: cheaper to look for than the least of them.
    if not ids or b"-" in raw or not plain or (mask is not None and len(mask) != len(ids)):
        return None
    text = None if record.loss_mask is msgspec.UNSET else bytes(record.loss_mask)
    return _Checked(record.sample_id, ids, raw, text, record.source_line)


def _place(line: bytes, raw: bytes, key: bytes) -> int:
    """Return where a text of ids or mask is in its line: wherever the same text is, the same values are."""
    usual = line.find(b"[", max(0, line.find(key)))
    return usual if line.startswith(raw, usual) else line.index(raw)


def _check_slowly(line: bytes, account: LineAccount) -> _Checked | Refusal:
    """Check any line, with the reason when it cannot be used here."""
    value = decode_json(line)
    prompt = value if isinstance(value, Refusal) else recognise(value)
    if isinstance(prompt, Refusal):
        return prompt
    if not isinstance(prompt, TokenPrompt):
        return Refusal(f"holds text, not input_ids: {_IMPORT_HINT}, with a [tokenizer] table", prompt.sample_id)
    raws = [text for text in _IDS_TEXT.findall(line) if decode_json(text) == prompt.input_ids]
    if not raws:
        return Refusal(f"holds token ids, but not as input_ids: {_IMPORT_HINT}", prompt.sample_id)
    sample_id = account.make_up(prompt) if prompt.sample_id is None else prompt.sample_id
    mask = None
    if prompt.loss_mask is not None:
        masks = [text for text in _MASK_TEXT.findall(line) if decode_json(text) == prompt.loss_mask]
        if not masks:
            return Refusal(f"has a mask, but not as loss_mask: {_IMPORT_HINT}", sample_id)
        mask = masks[-1]
    return _Checked(sample_id, prompt.input_ids, raws[-1], mask)


def _fit(prompt: _Checked, limits: PromptLimits) -> int | Refusal | None:
    """Return a prompt's own max_new_tokens (None: the configured one), or why it does not fit."""
    fault = vocabulary_fault(prompt.ids, limits.vocab_size)
    if fault is not None:
        return Refusal(fault)
    length = len(prompt.ids)
    if limits.max_input_len is not None and length >= limits.max_input_len:
        return Refusal(f"has {length} tokens: the server takes fewer than {limits.max_input_len} (max_req_input_len)")
    context = limits.context_length
    if context is None:
        return None
    if length >= context:
        return Refusal(f"has {length} tokens: the context of {context} leaves no room for an answer")
    if prompt.mask is not None or length + limits.max_new_tokens <= context:
        return None
    if limits.over_long == "clip":
        return context - length
    return Refusal(
        f"has {length} tokens: with max_new_tokens {limits.max_new_tokens} it exceeds the context of {context} "
        f'(over_long = "clip" in [generate] would shorten the answer)'
    )
