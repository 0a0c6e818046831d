"""What is known of a store without reading its samples: records against files, each other and run.toml."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from contracts.records import StoredSample
from contracts.run_config import Extract
from daemon.sglang_plugin.eagle3_sglang.dump_format import ITEM_BYTES
from daemon.store.findings import Finding, Kind
from daemon.store.index import Index
from daemon.store.layout import Layout
from daemon.store.safetensors_ import OWN_FILE_BYTES
from daemon.store.shards import is_shard
from daemon.store.writing import PART

MOST_UNRECORDED: Final = 64
"""Samples that a crash can have left before the first record of an index was written; more are a store whose index is
lost."""


def gone(folder: Path, index: Index, layout: Layout) -> str | None:
    """Return that a store is not there at all although its index tells of samples, or the other way round; and what to
    do."""
    if index.records:
        if any(path.is_file() for path in folder.rglob("*")):
            return None
        return (
            f"{folder} holds no file, its index has {len(index.records)} samples: mount its disk; or, if it was "
            f"deleted on purpose, remove {index.path} too, then every sample is made again"
        )
    held = [] if index.lines else [path for path in layout.strays([]) if not path.name.endswith(PART)]
    large = any(is_shard(path.name) and path.stat().st_size > MOST_UNRECORDED * OWN_FILE_BYTES for path in held)
    if len(held) <= MOST_UNRECORDED and not large:
        return None
    return (
        f"{index.path} is empty or missing (was a disk full?), but its store holds {len(held)} files of samples, "
        f"{held[0]} first: put the index back; or, if every sample is to be made again, remove {folder}"
    )


@dataclass
class FileSizes:
    """Sizes of a store's files, each looked at once; None: there is no such file."""

    folder: Path
    _known: dict[str, int | None] = field(default_factory=dict)

    def of(self, name: str) -> int | None:
        """Return the size of a file below the store.

        Raises:
            OSError: It cannot be looked at.
        """
        if name not in self._known:
            self._known[name] = self._look(name)
        return self._known[name]

    def _look(self, name: str) -> int | None:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            return None
        try:
            return (self.folder / path).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return None


def file_fault(record: StoredSample, sizes: FileSizes) -> Finding | None:
    """Return that a sample's file is not there, or shorter than its record says."""
    size, end = sizes.of(record.file), record.offset + record.bytes
    if size is None:
        return _finding(Kind.MISSING, record, f"{record.file} is not there")
    if size < end:
        return _finding(Kind.TRUNCATED, record, f"{record.file} has {size:,} bytes, its record says {end:,}")
    return None


def conflicts(records: Iterable[StoredSample]) -> Iterator[Finding]:
    """Yield records that claim the same bytes of a file, or the same row: at most one of them can be right."""
    before: StoredSample | None = None
    told: set[int] = set()
    ordered = sorted(records, key=lambda record: (record.file, record.offset))
    for record in ordered:
        if before is not None and before.file == record.file and before.offset + before.bytes > record.offset:
            for one, other in ((before, record), (record, before)):
                if id(one) not in told:
                    told.add(id(one))
                    yield _finding(
                        Kind.CONFLICT, one, f"claims bytes of {one.file} that {other.sample_id!r} claims too"
                    )
        before = record
    rows = Counter(record.row for record in ordered)
    if rows and rows.most_common(1)[0][1] > 1:
        for record in ordered:
            if rows[record.row] > 1 and id(record) not in told:
                yield _finding(Kind.CONFLICT, record, f"has row {record.row}, as {rows[record.row] - 1} others")


def tails(records: Iterable[StoredSample], sizes: FileSizes) -> Iterator[Finding]:
    """Yield files that go on behind their last sample."""
    ends: dict[str, int] = {}
    for record in records:
        ends[record.file] = max(ends.get(record.file, 0), record.offset + record.bytes)
    for name, end in ends.items():
        size = sizes.of(name)
        if size is not None and size > end:
            yield Finding(
                kind=Kind.TAIL, what=f"{name} goes on for {size - end:,} bytes behind its last sample", file=name
            )


def index_damage(index: Index) -> Iterator[Finding]:
    """Yield lines of an index that say nothing that holds."""
    name = index.path.name
    for place in index.unreadable.first:
        yield Finding(kind=Kind.INDEX, what=f"{name} line {place.line} (byte {place.offset}): {place.why}")
    if more := index.unreadable.count - len(index.unreadable.first):
        yield Finding(kind=Kind.INDEX, what=f"{name}: {more} more lines cannot be read")
    if index.duplicates:
        many = f"{index.duplicates} records are" if index.duplicates > 1 else "1 record is"
        yield Finding(kind=Kind.INDEX, what=f"{name}: {many} of samples that were stored already; the first one holds")
    if index.torn is not None:
        yield Finding(kind=Kind.INDEX, what=index.torn)


@dataclass(frozen=True)
class Form:
    """What all samples of a store have in common."""

    layers: tuple[int, ...]
    hidden_size: int
    dtype: str
    norm: str
    layout: str

    @classmethod
    def of(cls, record: StoredSample) -> Form:
        """Return that of one record."""
        return cls(tuple(record.layers), record.hidden_size, record.dtype, record.norm, record.layout)

    def difference(self, other: Form) -> str | None:
        """Return in what another form differs, in words."""
        words = [
            f"{name.replace('_', ' ')} {_shown(getattr(other, name))} instead of {_shown(value)}"
            for name, value in vars(self).items()
            if getattr(other, name) != value
        ]
        return ", ".join(words) or None


def usual_form(records: Iterable[StoredSample], extract: Extract, norm: str) -> Form | None:
    """Return the form that samples of a store should have: the most frequent one of those that run.toml allows.

    Where it allows none of them, the most frequent one: then run.toml is not that of the store, which is said of the
    store and not of each sample.
    """
    counted = Counter(Form.of(record) for record in records)
    allowed = [form for form in counted if contradiction(form, extract, norm) is None]
    return max(allowed or counted, key=lambda form: counted[form], default=None)


def contradiction(form: Form, extract: Extract, norm: str) -> str | None:
    """Return in what a form is not that of run.toml."""
    wanted = Form(tuple(extract.layers) or form.layers, form.hidden_size, form.dtype, norm, extract.layout)
    if form.dtype not in ITEM_BYTES:
        return f"dtype {form.dtype} instead of one of {', '.join(ITEM_BYTES)}"
    return wanted.difference(form)


def form_faults(records: Iterable[StoredSample], usual: Form) -> Iterator[Finding]:
    """Yield samples of another form than the others."""
    for record in records:
        difference = usual.difference(Form.of(record))
        if difference is not None:
            yield _finding(Kind.SHAPE, record, f"has {difference}")
        elif record.loss_tokens > record.tokens:
            yield _finding(Kind.SHAPE, record, f"has {record.loss_tokens} loss tokens of {record.tokens}")


def _shown(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _finding(kind: Kind, record: StoredSample, what: str) -> Finding:
    return Finding(kind=kind, what=what, sample_id=record.sample_id, file=record.file)
