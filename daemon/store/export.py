"""A run's stores in another layout, sample by sample: ``<target>/<dataset>/`` with the data-set files of that layout.

The same command goes on where it was ended, whatever ended it, and takes over what the run has stored, stored anew or
dropped since (`daemon.store.export_target`). A sample whose bytes are not those that the run stored is left out and
named. The run itself is only read, so that its daemon may be at work meanwhile.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec

from contracts.records import StoredSample
from contracts.run_config import LAYOUTS, RunConfig, load_run_config
from contracts.run_dir import HIDDEN_STATES, RunDir
from contracts.wording import counted, human_bytes
from daemon.store.dataset_files import (
    count_tokens,
    makes_maps,
    read_description,
    write_dataset_files,
    write_run_maps,
)
from daemon.store.export_source import Source
from daemon.store.export_target import ExportError, ExportTarget, open_target
from daemon.store.index import read_index
from daemon.store.layout import StoreError
from daemon.store.layouts import norm_of
from daemon.store.norm_file import NORM_FILE
from daemon.store.norms import NormError, NormWeight
from daemon.store.vocabulary import TokenCounts

__all__ = ["ExportError", "Exported", "export_run"]

FAILED_KEPT: Final = 10


class Exported(msgspec.Struct):
    """How far the export of one data set is."""

    dataset: str
    folder: str
    wanted: int
    """Samples that the run has."""
    todo_bytes: int = 0
    """Of the samples that were not there yet, as the run stores them."""
    already: int = 0
    """Samples that an earlier call had exported."""
    samples: int = 0
    """Exported by this call."""
    tokens: int = 0
    bytes: int = 0
    removed: int = 0
    """Samples that the run has no longer."""
    failed: int = 0
    """Samples that were left out: their bytes are not those that were stored, or cannot be converted."""
    first_failed: list[str] = []
    """A sentence for each of the first `FAILED_KEPT` of them."""
    notes: list[str] = []
    """What else was found and done."""
    missing: list[str] = []
    """What its trainer may want beside the samples and was not written: why, and how to get it; a sentence each."""


Progress = Callable[[Exported], None]
"""Called after each sample, and once when the data set is done."""


def export_run(
    run: Path,
    layout: str,
    target: Path,
    *,
    datasets: list[str] | None = None,
    vocab_size: int | None = None,
    progress: Progress = lambda _: None,
) -> list[Exported]:
    """Export what a run has stored so far; token frequencies and draft vocabulary are those of all that is exported.

    Args:
        run: The run directory.
        layout: Of `contracts.run_config.LAYOUTS`.
        target: A folder; made when missing. Each data set gets a folder in it.
        datasets: Only these; None: all that have an index.
        vocab_size: Size of the model's vocabulary; None: as run.toml says, or what the run's stores tell of it.
        progress: Told of every sample.

    Raises:
        ConfigError: run.toml cannot be used.
        ExportError: It cannot be done; nothing was written to the data set that the message names.
        StoreError: The data-set files cannot be made of what is stored.
        MissingPackageError: pyarrow is needed and not installed.
        OSError: The run cannot be read, or the target not be written; what was exported before stays.
    """
    place = RunDir(run)
    config = load_run_config(place.config)
    if layout not in LAYOUTS:
        raise ExportError(f"layout {layout!r} is not known; known: {', '.join(LAYOUTS)}")
    for inside in (place.stores, place.prepared):
        if target.resolve().is_relative_to(inside.resolve()):
            raise ExportError(f"{target} is in {inside}, which belongs to the run: choose another folder")
    with ExitStack() as targets:
        parts = [
            _export_samples(place, layout, target / name, name, progress, targets)
            for name in _datasets(place, datasets)
        ]
        size = vocab_size or config.generate.vocab_size or known_vocab_size(place)
        _write_files(config, layout, target, parts, size)
    for part in parts:
        progress(part.result)
    return [part.result for part in parts]


@dataclasses.dataclass(frozen=True)
class _Part:
    """One data set whose samples are exported."""

    result: Exported
    folder: Path
    there: ExportTarget
    norm: NormWeight | None

    @property
    def records(self) -> list[StoredSample]:
        return sorted(self.there.records.values(), key=lambda record: record.row)


def known_vocab_size(run: RunDir) -> int | None:
    """Return the size of the model's vocabulary as the stores of a run tell it; None: none does."""
    for store in sorted(path for path in run.stores.glob("*") if path.is_dir()):
        described = read_description(store)
        if described is not None and described.vocab_size is not None:
            return described.vocab_size
    return None


def _write_files(config: RunConfig, layout: str, target: Path, parts: list[_Part], vocabulary: int | None) -> None:
    """Write what belongs beside the samples, and say what of it is missing."""
    draft, counts = config.extract.draft_vocab_size, TokenCounts()
    filled = [part for part in parts if part.there.records]
    for part in filled:
        count_tokens(part.there.layout, part.records, counts, draft)
    for part in filled:
        part.result.notes += write_dataset_files(
            part.there.layout,
            part.folder,
            part.records,
            draft_vocab_size=draft,
            vocab_size=vocabulary,
            norm=part.norm,
            counts=counts,
        )
        part.result.missing = list(_missing(layout, part.norm, draft, vocabulary))
    if filled and draft is not None and vocabulary is not None:
        filled[-1].result.notes += write_run_maps(layout, target, counts, draft, vocabulary)


def _missing(layout: str, norm: NormWeight | None, draft: int | None, vocabulary: int | None) -> Iterator[str]:
    if norm is None:
        yield (
            f"{NORM_FILE}: the run's store has none. A daemon writes it as soon as a server is there; then the same "
            f"command adds it"
        )
    if not makes_maps(layout):
        return
    if draft is None:
        yield "the maps of a draft vocabulary: run.toml has no [extract] draft_vocab_size, and nothing else tells it"
    elif vocabulary is None:
        yield (
            "the maps of the draft vocabulary: neither run.toml nor the run's stores tell the size of the model's "
            "vocabulary. The same command with --vocab-size N (vocab_size in the model's config.json) adds them"
        )


def _datasets(run: RunDir, wanted: list[str] | None) -> list[str]:
    """Return the data sets that have an index, or those asked for."""
    found = sorted(path.parent.name for path in run.prepared.glob(f"*/{HIDDEN_STATES}"))
    if not found:
        raise ExportError(f"{run.path}: no hidden states are stored yet: prepared/*/{HIDDEN_STATES} is not there")
    unknown = [name for name in wanted or [] if name not in found]
    if unknown:
        raise ExportError(f"{run.path}: the data set {unknown[0]!r} has no hidden states; those that have: {found}")
    return found if wanted is None else list(dict.fromkeys(wanted))


def _export_samples(run: RunDir, layout: str, folder: Path, name: str, progress: Progress, targets: ExitStack) -> _Part:
    index = read_index(run.dataset(name).hidden_states)
    records = list(index.records.values())
    source = Source(run.store(name), norm_of(layout))
    source.check(layout, records)
    result = Exported(name, str(folder), len(records))
    if index.unreadable.count:
        result.notes.append(
            f"{index.path}: {counted(index.unreadable.count, 'line')} cannot be read; see: eagle3 verify {run.path}"
        )
    there, said = targets.enter_context(open_target(folder, layout, index.records))
    result.notes += said
    result.removed = there.keep_only(index.records)
    todo = [record for record in records if not there.has(record)]
    result.already = len(records) - len(todo)
    result.todo_bytes = sum(record.bytes for record in todo)
    _check_room(folder, result.todo_bytes)
    for record in todo:
        _export_sample(source, there, record, result)
        progress(result)
    there.close_gaps()
    return _Part(result, folder, there, source.norm)


def _export_sample(source: Source, there: ExportTarget, record: StoredSample, result: Exported) -> None:
    try:
        written = there.add(source.sample(record), record)
    except (StoreError, NormError) as error:
        result.failed += 1
        if result.failed <= FAILED_KEPT:
            result.first_failed.append(f"sample {record.sample_id!r}: {error}")
        return
    result.samples += 1
    result.tokens += written.tokens
    result.bytes += written.bytes


def _check_room(folder: Path, needed: int) -> None:
    """See that the samples fit: layouts differ by a few hundred bytes a sample."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ExportError(
            f"{folder}: {human_bytes(needed)} are to be exported, {human_bytes(free)} are free: make room or choose "
            f"another folder. What is there already stays and is not done again"
        )
