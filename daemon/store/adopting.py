"""Whole samples of a run that its index has lost: found to be what prompt and response ask for, recorded again."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from contracts.records import StoredSample
from contracts.run_config import AFTERWARDS, Extract
from contracts.run_dir import RunDir
from contracts.wording import counted, human_bytes
from daemon.prompts.refusals import PromptError
from daemon.store.cheap_checks import Form, contradiction, usual_form
from daemon.store.examine import examine
from daemon.store.layout import Layout, StoreError
from daemon.store.row_checks import lacks_a_page
from daemon.store.sequences import Expected, expected_sequences
from daemon.store.unrecorded import Claim, Verdict
from daemon.store.writing import checksum_of

MOST_AT_START: Final = 32_000_000_000
"""Bytes that a start of the daemon reads to adopt samples: a minute or two of reading, not an hour."""
_EACH: Final = 1_000_000
"""Bytes that take as long to read as all else that is done for a sample."""

Progress = Callable[[int, int, int], None]
"""Called for each sample that was read: how many were, of how many, and their bytes."""


@dataclass(frozen=True)
class Adopting:
    """The judge of a run's own store; see `daemon.store.unrecorded.Judge`.

    What a file does not say of itself is taken from the records that hold (the model) and from run.toml (how the rows
    were captured).
    """

    run: RunDir
    dataset: str
    extract: Extract
    at_most: int | None = None
    """Bytes that may be read, each sample counted as a megabyte more; None: all there are."""
    progress: Progress = lambda *_: None

    def __call__(self, layout: Layout, claims: list[Claim], good: dict[bytes, StoredSample]) -> Verdict:
        """See `daemon.store.unrecorded.Judge`.

        Raises:
            StoreError: It would be too much to read.
            OSError: A journal or a sample cannot be read.
        """
        found = Verdict()
        if not claims:
            return found
        self._bound(claims)
        form = usual_form(good.values(), self.extract, layout.norm)
        work = _Work(self, layout, found, form, _model(good.values()), _Rows(layout, good.values()), len(claims))
        by_key: dict[bytes, list[Claim]] = {}
        for claim in claims:
            by_key.setdefault(claim.key, []).append(claim)
        try:
            for expected in expected_sequences(self.run, self.dataset, frozenset(by_key)):
                work.of_sample(by_key.pop(expected.key), expected)
        except PromptError as error:
            found.undecided = f"what samples must be is not known: {error}"
        for left in by_key.values():
            what = "no prompt with a usable response" if found.undecided is None else "not compared"
            found.odd += [(claim.piece, f"sample {claim.identity.sample_id!r}: {what}") for claim in left]
        return found

    def _bound(self, claims: list[Claim]) -> None:
        size = sum(claim.piece.length for claim in claims)
        if self.at_most is not None and size + _EACH * len(claims) > self.at_most:
            raise StoreError(
                f"{self.run.store(self.dataset)} holds {counted(len(claims), 'sample')} ({human_bytes(size)}) of which "
                f"{self.run.dataset(self.dataset).hidden_states} says nothing: did it lose lines? Put it back; or have "
                f"them read, compared and recorded again: eagle3 verify {self.run.path} --repair"
            )


@dataclass
class _Work:
    """The work on one store."""

    adopting: Adopting
    layout: Layout
    found: Verdict
    form: Form | None
    """What all samples of the store have in common; None: the first one decides."""
    model: str | None
    rows: _Rows
    claims: int
    read: int = 0
    read_bytes: int = 0

    def of_sample(self, claims: list[Claim], expected: Expected) -> None:
        """Adopt the first whole one of the claims to a sample."""
        adopted: StoredSample | None = None
        for claim in claims:
            piece = claim.piece
            if adopted is None:
                why = self._examine(claim, expected)
                adopted = self.found.adopted[-1] if why is None else None
                if why is not None:
                    self.found.odd.append((piece, f"sample {claim.identity.sample_id!r}: {why}"))
            else:
                self.found.repeated(piece, adopted, f" in {adopted.file}")

    def _examine(self, claim: Claim, expected: Expected) -> str | None:
        """Adopt a sample, or return why not."""
        piece, extract = claim.piece, self.adopting.extract
        whole, tokens = len(expected.ids), claim.identity.tokens
        if tokens != whole and not (tokens < whole and extract.over_long == "truncate"):
            return f"{counted(tokens, 'token')}, prompt and response make {whole:,}"
        row = self.rows.free(piece.file)
        if row is None:
            return "its number is another sample's"
        form = claim.identity.form
        record = StoredSample(
            sample_id=expected.sample_id,
            file=piece.file,
            row=row,
            offset=piece.offset,
            bytes=piece.length,
            checksum=checksum_of(piece.path, piece.offset, piece.length),
            tokens=tokens,
            loss_tokens=int(expected.mask[:tokens].sum(dtype="int64")),
            layers=list(form.layers),
            hidden_size=form.hidden_size,
            dtype=form.dtype,
            norm=form.norm,
            layout=self.layout.name,
            model=self.model,
            capture=AFTERWARDS if expected.pretokenized else extract.capture,
            truncated_from=whole if tokens < whole else None,
            at=time.time(),
        )
        own = Form.of(record)
        other = contradiction(own, extract, self.layout.norm) or (self.form and self.form.difference(own))
        if other:
            return f"it has {other}"
        folder = self.adopting.run.store(self.adopting.dataset)
        fault = next(examine(folder, self.layout, record, expected), None)
        # The checksum is new: it says nothing of what a power cut may have left unwritten.
        torn = fault is None and any(map(lacks_a_page, self.layout.load(record).rows.blocks()))
        self.read, self.read_bytes = self.read + 1, self.read_bytes + record.bytes
        self.adopting.progress(self.read, self.claims, self.read_bytes)
        if fault is not None:
            return fault.what
        if torn:
            return "a part of its rows is nothing but zeros, as after a power cut"
        self.form = own
        self.rows.take(row)
        self.found.adopted.append(record)
        return None


class _Rows:
    """Row numbers of a store."""

    def __init__(self, layout: Layout, records: Iterable[StoredSample]) -> None:
        self._layout = layout
        self._taken = {record.row for record in records}
        self._next = 0

    def free(self, file: str) -> int | None:
        """Return the number for a file: that in its name, or the lowest free one; None: somebody has it."""
        named = self._layout.row_of(file)
        if named is not None:
            return None if named in self._taken else named
        while self._next in self._taken:
            self._next += 1
        return self._next

    def take(self, row: int) -> None:
        """Give a number away."""
        self._taken.add(row)


def adopted_sentences(adopted: list[StoredSample]) -> list[str]:
    """Return a sentence for each."""
    return [
        f"sample {record.sample_id!r} is recorded again: {record.file} holds it whole, the index had lost it"
        for record in adopted
    ]


def _model(records: Iterable[StoredSample]) -> str | None:
    models = Counter(record.model for record in records if record.model is not None)
    return models.most_common(1)[0][0] if models else None
