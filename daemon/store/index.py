"""``hidden_states.jsonl`` as it stands: which samples are in the store, and which lines could not be used."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from contracts.fold.lines import decoded_lines
from contracts.fold.places import Places
from contracts.journal.tail import Tail
from contracts.records import INDEX_DECODER, DroppedSample, StoredSample
from contracts.sample_id import sample_key
from contracts.wording import counted


class GivenUp(NamedTuple):
    """A record that holds no longer."""

    at: float
    """When it was given up."""
    checksum: str


@dataclass
class Index:
    """What an index says after its last whole line; a `contracts.journal.tail.LineSink`."""

    path: Path
    records: dict[bytes, StoredSample] = field(default_factory=dict)
    """What is stored, by ``sample_key``, in the order in which it was stored."""
    dropped: dict[bytes, DroppedSample] = field(default_factory=dict)
    """What was stored once, was given up since and has not been stored again."""
    given_up: dict[tuple[str, int], GivenUp] = field(default_factory=dict)
    """What was recorded at a place (file, offset) that no later record claims. What still lies there may go."""
    duplicates: int = 0
    """Records of samples that were stored already: the first one holds, as for responses."""
    unreadable: Places = field(default_factory=Places)
    lines: int = 0
    torn: str | None = None
    """A sentence on a last line that a crash cut short, which is not counted; None when the file ends well."""

    def reset(self, why: str) -> None:
        """Start again; see `LineSink`."""
        fresh = Index(self.path)
        for name, value in vars(fresh).items():
            setattr(self, name, value)

    def feed(self, block: bytearray, end: int, offset: int, bulk: bool) -> None:
        """Apply whole lines; see `LineSink`."""
        for record in decoded_lines(block, end, offset, self.lines, INDEX_DECODER, self.unreadable):
            self.apply(record)
        self.lines += block.count(b"\n", 0, end)

    def apply(self, record: StoredSample | DroppedSample) -> None:
        """Apply one record."""
        key = sample_key(record.sample_id)
        if isinstance(record, DroppedSample):
            before = self.records.pop(key, None)
            if before is not None:
                self.dropped[key] = record
                self.given_up[before.file, before.offset] = GivenUp(record.at, before.checksum)
        elif key in self.records:
            self.duplicates += 1
        else:
            self.dropped.pop(key, None)
            self.given_up.pop((record.file, record.offset), None)
            self.records[key] = record


def read_index(path: Path) -> Index:
    """Read a ``hidden_states.jsonl`` to its end; a missing one is an empty one.

    Raises:
        OSError: It is there and cannot be read.
    """
    index = Index(path)
    tail = Tail(path)
    tail.poll(index)
    if tail.position is not None:
        left = path.stat().st_size - tail.position.offset
        if left > 0:
            index.torn = (
                f"{path}: the last line is cut short ({counted(left, 'byte')} from byte {tail.position.offset} on) and "
                f"counts for nothing; the next start of the daemon cuts it off"
            )
    return index
