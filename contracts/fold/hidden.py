"""The fold over one ``hidden_states.jsonl``: which samples are in the store, at which row, how much that is."""

from __future__ import annotations

import msgspec

from contracts.fold.anew import start_again
from contracts.fold.history import History
from contracts.fold.lines import located_records
from contracts.fold.places import Place, Places
from contracts.records import INDEX_DECODER, DroppedSample, StoredSample
from contracts.sample_id import sample_key


class StoredForm(msgspec.Struct, array_like=True, frozen=True):
    """What the rows of a store are and how they are written; the same for all of its samples."""

    layers: tuple[int, ...]
    hidden_size: int
    dtype: str
    norm: str
    layout: str
    model: str | None


class StoredSize(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What has to be taken off when a stored sample is dropped."""

    tokens: int
    loss_tokens: int
    bytes: int
    capture: str
    truncated: bool


class HiddenFold(msgspec.Struct):
    """Counts of one store's index; a `contracts.journal.tail.LineSink`.

    Sums are over the samples that hold: stored, and not dropped since.
    """

    lines: int = 0
    stored: dict[bytes, int] = {}
    """Key of each sample that holds -> its row in the store."""
    sizes: dict[bytes, StoredSize] = {}
    rows: dict[int, bytes] = {}
    """Row -> key of the sample that has it: no two may have the same."""
    tokens: int = 0
    loss_tokens: int = 0
    stored_bytes: int = 0
    captures: dict[str, int] = {}
    """Samples by the way in which their rows were taken: ``generating``, ``afterwards``."""
    truncated: int = 0
    """Samples that were cut to the data set's limit of length."""
    duplicates: int = 0
    """Further records of a sample that is stored: ignored."""
    dropped: int = 0
    """Samples taken out again, whether they were stored anew since or not."""
    form: StoredForm | None = None
    """Of the first sample that was stored, while any holds."""
    odd: dict[bytes, Place] = {}
    """Samples that hold and contradict the others: of another form than the first, or at the row of another one."""
    unreadable: Places = msgspec.field(default_factory=Places)
    history: History = msgspec.field(default_factory=History)
    """What was stored when, also of samples that were dropped since."""
    notes: list[str] = []

    def reset(self, why: str) -> None:
        """Start again; see `LineSink`."""
        start_again(self)
        self.notes.append(why)

    def feed(self, block: bytearray, end: int, offset: int, bulk: bool) -> None:
        """Apply whole lines; see `LineSink`."""
        for place, line, record in located_records(block, end, offset, self.lines, INDEX_DECODER, self.unreadable):
            self.apply(record, place, line)
        self.lines += block.count(b"\n", 0, end)

    def apply(self, record: StoredSample | DroppedSample, place: int, line: int) -> None:
        """Apply one record.

        Args:
            record: What the line says.
            place: Where in the file it begins, in bytes.
            line: Its number, from 1.
        """
        key = sample_key(record.sample_id)
        if isinstance(record, DroppedSample):
            self._drop(key)
        elif key in self.stored:
            self.duplicates += 1
        else:
            self._store(key, record, place, line)

    def _store(self, key: bytes, record: StoredSample, place: int, line: int) -> None:
        form = StoredForm(
            tuple(record.layers), record.hidden_size, record.dtype, record.norm, record.layout, record.model
        )
        if self.form is None:
            self.form = form
        why = _difference(form, self.form)
        if record.row in self.rows:
            other = self.rows[record.row].decode("utf-8", "backslashreplace")
            why = f"row {record.row} is that of sample {other!r} too"
        if why is not None:
            self.odd[key] = Place(place, line, why)
        self.rows.setdefault(record.row, key)
        self.stored[key] = record.row
        size = StoredSize(
            record.tokens, record.loss_tokens, record.bytes, record.capture, record.truncated_from is not None
        )
        self.sizes[key] = size
        self._add(size, 1)
        bucket = self.history.bucket(record.at)
        bucket.responses += 1
        bucket.tokens += record.tokens
        bucket.bytes += record.bytes

    def _drop(self, key: bytes) -> None:
        row = self.stored.pop(key, None)
        if row is None:
            return
        self.dropped += 1
        self._add(self.sizes.pop(key), -1)
        self.odd.pop(key, None)
        if self.rows.get(row) == key:
            del self.rows[row]
            for other in self.odd:
                if (
                    self.stored[other] == row
                ):  # it had this row too, and keeps it; it stays odd: which one is in the file?
                    self.rows[row] = other
                    break
        if not self.stored:
            self.form = None

    def _add(self, size: StoredSize, sign: int) -> None:
        self.tokens += sign * size.tokens
        self.loss_tokens += sign * size.loss_tokens
        self.stored_bytes += sign * size.bytes
        self.truncated += sign * size.truncated
        self.captures[size.capture] = self.captures.get(size.capture, 0) + sign


def _difference(form: StoredForm, first: StoredForm) -> str | None:
    """Return in what a form differs from the first, or None."""
    for name in form.__struct_fields__:
        own, others = getattr(form, name), getattr(first, name)
        if own != others and None not in (own, others):
            own, others = (list(value) if isinstance(value, tuple) else value for value in (own, others))
            return f"{name} is {own!r}, that of the first stored sample {others!r}"
    return None
