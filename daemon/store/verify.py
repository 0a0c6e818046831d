"""A run's stores against their indexes, the indexes against prompts and responses; writes nothing."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from contracts.fold.dataset import DatasetFold
from contracts.liveness import look
from contracts.monitor import Monitor
from contracts.records import StoredSample
from contracts.run_config import ConfigError, Extract
from contracts.run_dir import RunDir
from contracts.sample_id import sample_key
from contracts.status import RunState
from contracts.wording import counted
from daemon.prompts.index import PromptIndex
from daemon.prompts.refusals import PromptError
from daemon.store.cheap_checks import (
    FileSizes,
    conflicts,
    contradiction,
    file_fault,
    form_faults,
    gone,
    index_damage,
    tails,
    usual_form,
)
from daemon.store.dataset_files import files_beside, read_description
from daemon.store.examine import examine
from daemon.store.findings import Finding, Kind, StoreReport, VerifyReport
from daemon.store.index import Index, read_index
from daemon.store.layout import Layout
from daemon.store.layouts import make_layout
from daemon.store.reading import find_foreign
from daemon.store.sequences import Expected, expected_sequences, open_prompts
from daemon.store.unrecorded import pieces_of

Progress = Callable[[str, StoreReport, int], None]
"""Called now and then with the data set, its report so far, and how many samples are to be examined."""

_NOT_REPAIRED: Final = frozenset({Kind.UNREADABLE, Kind.NOT_STORED, Kind.PROMPTS})
"""Kinds that a repair does nothing about, also where they name a sample."""
_NAMED: Final = 3
"""So many files of others are named in a note."""
_OF_FILES: Final = frozenset({Kind.STRAY, Kind.TAIL, Kind.INDEX})
"""Kinds that name no sample and are repaired."""


@dataclass
class VerifiedStore:
    """What was found in one data set, with all that a repair needs."""

    run: RunDir
    name: str
    layout: Layout
    index: Index
    report: StoreReport
    extract: Extract
    """Of run.toml."""
    bad: dict[bytes, str] = field(default_factory=dict)
    """Key of each sample that must be made again, with the reason."""
    gone: str | None = None
    """Why nothing at all may be repaired: the index has samples and the store has no file."""
    beyond_repair: int = 0
    """Findings that a person has to see to."""

    def add(self, finding: Finding) -> None:
        """Take a finding."""
        self.report.add(finding)
        if finding.kind in _NOT_REPAIRED or (finding.sample_id is None and finding.kind not in _OF_FILES):
            self.beyond_repair += 1
        elif finding.sample_id is not None:
            self.bad.setdefault(sample_key(finding.sample_id), f"{finding.kind}: {finding.what}")

    @property
    def folder(self) -> Path:
        """Of the tensors."""
        return self.run.store(self.name)


def verify_run(
    path: Path,
    *,
    sample: int | None = None,
    holding_lock: bool = False,
    progress: Progress | None = None,
    chance: random.Random | None = None,
) -> tuple[VerifyReport, list[VerifiedStore]]:
    """Look at every store of a run.

    Args:
        path: The run directory.
        sample: Examine only so many samples of each data set, chosen by chance; None: all. What needs no reading of
            samples is looked at for all of them in any case.
        holding_lock: This process holds the run's lock, so no daemon is at work.
        progress: Told now and then how far it is.
        chance: Chooses the samples.

    Raises:
        ConfigError: run.toml cannot be used, or names no layers.
        OSError: A journal or a folder cannot be read.
    """
    monitor = Monitor(path)
    state, fold, run = monitor.refresh().state, monitor.fold, monitor.fold.run
    config = fold.config
    if config is None:
        raise ConfigError(f"{run.config}: no such file: a folder of other tools has no store to verify")
    daemon = False if holding_lock else look(run).alive
    report = VerifyReport(run=str(path), daemon=daemon)
    stores = []
    for dataset in fold.datasets.values():
        if not config.extracts and not dataset.folder.hidden_states.exists():
            continue
        layout = make_layout(config.extract.layout, run.store(dataset.name))
        index = read_index(dataset.folder.hidden_states)
        # Responses after the index: a daemon may be at work, and a sample is stored after its response.
        dataset.poll()
        report_of_it = StoreReport(dataset=dataset.name, layout=layout.name)
        store = VerifiedStore(run, dataset.name, layout, index, report_of_it, config.extract)
        finished = state is RunState.FINISHED and not daemon
        _Verification(store, dataset, config.extract, sample, progress, chance or random.Random()).work(
            finished=finished, alone=daemon is False
        )
        stores.append(store)
    report.stores = [store.report for store in stores]
    report.left = sum(sum(one.counts.values()) for one in report.stores)
    return report, stores


class _Verification:
    """The work on one data set."""

    def __init__(
        self,
        store: VerifiedStore,
        dataset: DatasetFold,
        extract: Extract,
        sample: int | None,
        progress: Progress | None,
        chance: random.Random,
    ) -> None:
        self._store = store
        self._dataset = dataset
        self._extract = extract
        self._sample = sample
        self._progress = progress
        self._chance = chance
        self._records = store.index.records
        self._wanted: set[bytes] = set()
        """Keys of the samples that there should be; empty while that is not known."""

    def work(self, *, finished: bool, alone: bool) -> None:
        """Find everything.

        Args:
            finished: The run says that nothing is left to do.
            alone: No daemon is at work.
        """
        store, report, records = self._store, self._store.report, self._records
        report.samples = len(records)
        report.tokens = sum(record.tokens for record in records.values())
        report.bytes = sum(record.bytes for record in records.values())
        self._add(index_damage(store.index))
        store.gone = gone(store.folder, store.index)
        if store.gone is not None:
            store.add(Finding(kind=Kind.MISSING, what=store.gone))
            return
        self._cheap(alone)
        try:
            with open_prompts(store.run, store.name) as prompts:
                self._against_prompts(prompts, finished)
                self._examine(prompts)
        except PromptError as error:
            store.add(Finding(kind=Kind.PROMPTS, what=f"{error}; ids and masks cannot be compared"))
            self._examine(None)

    def _add(self, findings: Iterator[Finding]) -> None:
        for finding in findings:
            self._store.add(finding)

    def _cheap(self, alone: bool) -> None:
        store, records = self._store, self._records
        usual = usual_form(records.values(), self._extract, store.layout.norm)
        if usual is not None:
            odd = contradiction(usual, self._extract, store.layout.norm)
            if odd is not None:
                what = f"its samples have {odd}: put run.toml right, or begin a new run"
                store.add(Finding(kind=Kind.SHAPE, what=what))
            self._add(form_faults(records.values(), usual))
        sizes = FileSizes(store.folder)
        for record in records.values():
            fault = file_fault(record, sizes)
            if fault is not None:
                store.add(fault)
        self._add(conflicts(records.values()))
        if not alone:
            store.report.notes.append("a daemon is at work here: files that no record accounts for are not looked for")
            return
        self._beside()
        self._foreign()
        self._add(tails(records.values(), sizes))
        for piece in pieces_of(store.layout, store.folder, list(records.values())):
            if piece.stretch is None or piece.stretch.whole:
                place = piece.file if piece.stretch is None else f"{piece.file} at byte {piece.offset:,}"
                store.add(Finding(kind=Kind.STRAY, what=f"{place}: no record accounts for it", file=piece.file))

    def _beside(self) -> None:
        """Compare the files beside the samples with what was noted when they were written."""
        store = self._store
        described = read_description(store.folder)
        if described is None or not described.files:
            return
        there = files_beside(store.folder)
        for name, size in described.files.items():
            if there.get(name) != size:
                what = "is missing" if name not in there else f"has {there[name]} bytes instead of {size}"
                store.add(Finding(kind=Kind.BESIDE, what=f"{name} {what}", file=name))

    def _foreign(self) -> None:
        """Name files that somebody else put there; nothing is known of them, so nothing is wrong with them."""
        store, records = self._store, list(self._records.values())
        own = {record.file for record in records}.union(files_beside(store.folder))
        names = find_foreign(store.folder, store.layout.strays(records), own)
        if names:
            first = ", ".join(names[:_NAMED]) + (" first" if len(names) > _NAMED else "")
            note = f"not of this store, neither read nor removed: {counted(len(names), 'file')}, {first}"
            store.report.notes.append(note)

    def _against_prompts(self, prompts: PromptIndex, finished: bool) -> None:
        """Which samples there must be, and which there are."""
        store, done, records = self._store, self._dataset.responses.done, self._records
        wanted = {entry.key for entry in prompts.entries if entry.pretokenized or entry.key in done}
        known = {entry.key for entry in prompts.entries}
        self._wanted = wanted
        # Those that bring their own answer say nothing of the responses.
        own = {entry.key for entry in prompts.entries if entry.pretokenized}
        exchanged = bool(records) and (wanted - own).isdisjoint(records) and not records.keys() <= own
        if exchanged:
            what = "none of its samples belongs to a prompt with a response: was one of the two files exchanged?"
            store.add(Finding(kind=Kind.UNWANTED, what=what))
        else:
            for key in records.keys() - wanted:
                what = "has no response" if key in known else "belongs to no prompt"
                store.add(_finding(Kind.UNWANTED, records[key], what))
        lacking = wanted - records.keys()
        failures = self._dataset.failures.extract
        given_up = {key for key in lacking & failures.keys() if failures[key].is_final}
        store.report.left_out = sum(failures[key].is_skipped for key in given_up)
        store.report.given_up = len(given_up) - store.report.left_out
        store.report.retried = sum(failures[key].is_helped_by(None) for key in given_up)
        store.report.not_stored = len(lacking) - len(given_up)
        if finished and not exchanged:
            # What was dropped is known to be missing and is made again at the next start.
            lost = lacking - given_up - store.index.dropped.keys()
            for entry in prompts.entries:
                if entry.key in lost:
                    what = "the run says it is finished, but of this sample nothing is stored"
                    store.add(Finding(kind=Kind.NOT_STORED, what=what, sample_id=entry.sample_id))

    def _examine(self, prompts: PromptIndex | None) -> None:
        """Read samples in full: as their sequences come, then those of which no sequence is known."""
        keys = [key for key in self._records if not self._is_absent(key)]
        if self._sample is not None and self._sample < len(keys):
            keys = self._chance.sample(keys, self._sample)
        left = dict.fromkeys(keys)
        if prompts is not None:
            for expected in expected_sequences(self._store.run, self._store.name, frozenset(keys), prompts):
                del left[expected.key]
                self._examine_one(expected.key, expected, len(keys))
        for key in left:
            if key in self._wanted:
                what = "its response states no usable token ids any more"
                self._store.add(_finding(Kind.IDS, self._records[key], what))
            self._examine_one(key, None, len(keys))

    def _is_absent(self, key: bytes) -> bool:
        """Whether it is known already that there is nothing to read."""
        said = self._store.bad.get(key, "")
        return said.startswith((f"{Kind.MISSING}:", f"{Kind.TRUNCATED}:"))

    def _examine_one(self, key: bytes, expected: Expected | None, wanted: int) -> None:
        record, report = self._records[key], self._store.report
        self._add(examine(self._store.folder, self._store.layout, record, expected))
        report.examined += 1
        report.examined_bytes += record.bytes
        if self._progress is not None:
            self._progress(self._store.name, report, wanted)


def _finding(kind: Kind, record: StoredSample, what: str) -> Finding:
    return Finding(kind=kind, what=what, sample_id=record.sample_id, file=record.file)
