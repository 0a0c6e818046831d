"""What `eagle3 verify` finds, as it is printed; one kind of finding for each way in which a store can be wrong."""

from __future__ import annotations

import enum
from typing import Final

import msgspec

KEPT: Final = 10
"""Findings of one kind and data set that are told in full; all are counted."""


class Kind(enum.StrEnum):
    """What is wrong."""

    MISSING = "missing"
    """The file of a record is not there."""
    TRUNCATED = "truncated"
    """It is shorter than its record says."""
    CONFLICT = "conflict"
    """Two records claim the same bytes, or the same row number."""
    CHECKSUM = "checksum"
    """Its bytes are not those that were written."""
    UNREADABLE = "unreadable"
    """The disk does not give it: not repaired, since it may be whole."""
    SHAPE = "shape"
    """Other rows, layers, width, type or norm than its record, the other samples or run.toml say."""
    IDS = "ids"
    MASK = "mask"
    NON_FINITE = "non_finite"
    ZERO_ROW = "zero_row"
    UNWANTED = "unwanted"
    """It belongs to no prompt, or to none that has a response."""
    STRAY = "stray"
    """A file that no record accounts for."""
    BESIDE = "beside"
    """A file that its trainer reads beside the samples is missing or was changed."""
    TAIL = "tail"
    """A file goes on behind its last sample."""
    INDEX = "index"
    """A line of the index that cannot be used."""
    NOT_STORED = "not_stored"
    """A run that says it is finished lacks samples."""
    PROMPTS = "prompts"
    """What samples must be cannot be known: ``prompts.jsonl`` is missing or cannot be read."""


class Finding(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One thing that is wrong."""

    kind: Kind
    what: str
    sample_id: str | int | None = None
    """None: it concerns no sample alone."""
    file: str | None = None
    """Below the data set's store."""


class StoreReport(msgspec.Struct, kw_only=True):
    """One data set's store."""

    dataset: str
    layout: str
    samples: int = 0
    """In the index."""
    tokens: int = 0
    bytes: int = 0
    examined: int = 0
    """Samples that were read and compared in full."""
    examined_bytes: int = 0
    not_stored: int = 0
    """Samples with a response (or pre-tokenized) without hidden states, those given up or left out not counted."""
    given_up: int = 0
    """Those whose extraction failed for good."""
    retried: int = 0
    """Those of the given-up ones that ``eagle3 retry`` puts back without being told a class."""
    left_out: int = 0
    """Those that a rule leaves out: too long, or nothing in them to learn from."""
    counts: dict[str, int] = {}
    """Findings by kind."""
    first: list[Finding] = []
    """The first `KEPT` findings of each kind."""
    notes: list[str] = []
    """What was not looked at, and why."""

    def add(self, finding: Finding) -> None:
        """Count a finding, and keep it when it is among the first of its kind."""
        count = self.counts.get(finding.kind, 0)
        self.counts[finding.kind] = count + 1
        if count < KEPT:
            self.first.append(finding)


class VerifyReport(msgspec.Struct, kw_only=True):
    """What ``python -m daemon verify --json`` prints."""

    run: str
    daemon: bool | None
    """Whether one is at work: then strays and tails are not looked for."""
    stores: list[StoreReport] = []
    repaired: list[str] | None = None
    """What was done, one sentence each; None: no repair was asked for."""
    left: int = 0
    """Findings that remain: all of them, or after a repair those that it could not put right."""
