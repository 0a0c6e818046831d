"""What is known of a store without reading its samples: records against files, each other and run.toml."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from contracts.records import StoredSample
from contracts.run_config import Extract
from contracts.wording import counted
from daemon.sglang_plugin.eagle3_sglang.dump_format import ITEM_BYTES
from daemon.store.findings import Finding, Kind
from daemon.store.index import Index


def gone(folder: Path, index: Index) -> str | None:
    """Return that a store is not there at all although its index tells of samples, and what to do."""
    if not index.records or any(path.is_file() for path in folder.rglob("*")):
        return None
    return (
        f"{folder} holds no file, its index has {counted(len(index.records), 'sample')}: mount its disk; or, if it was "
        f"deleted on purpose, remove {index.path} too, then every sample is made again"
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
                others = counted(rows[record.row] - 1, "other has", "others have")
                yield _finding(Kind.CONFLICT, record, f"has row {record.row}, which {others} too")


def tails(records: Iterable[StoredSample], sizes: FileSizes) -> Iterator[Finding]:
    """Yield files that go on behind their last sample."""
    ends: dict[str, int] = {}
    for record in records:
        ends[record.file] = max(ends.get(record.file, 0), record.offset + record.bytes)
    for name, end in ends.items():
        size = sizes.of(name)
        if size is not None and size > end:
            what = f"{name} goes on for {counted(size - end, 'byte')} behind its last sample"
            yield Finding(kind=Kind.TAIL, what=what, file=name)


def index_damage(index: Index) -> Iterator[Finding]:
    """Yield lines of an index that say nothing that holds."""
    name = index.path.name
    for place in index.unreadable.first:
        yield Finding(kind=Kind.INDEX, what=f"{name} line {place.line} (byte {place.offset}): {place.why}")
    if more := index.unreadable.count - len(index.unreadable.first):
        yield Finding(kind=Kind.INDEX, what=f"{name}: {counted(more, 'more line')} cannot be read")
    if index.duplicates:
        many = counted(index.duplicates, "record is", "records are")
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
