"""What may be wrong with a request's dump, on request: with a probability each, or one by one.

Everything is done to what goes to the writer, so that whoever reads the dumps meets it as it would on a disk.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from daemon.embedded.faults import Switches
from daemon.sglang_plugin.eagle3_sglang.dump_files import DumpFiles
from daemon.sglang_plugin.eagle3_sglang.dump_format import MARK_BYTES, About

if TYPE_CHECKING:
    from torch import Tensor  # noqa: TID251

DumpFault = Literal[
    "wrong_layers", "missing_layer", "wrong_hidden_size", "wrong_dtype", "wrong_norm",
    "nan_row", "inf_row", "zero_row", "wrong_ids", "hole", "short", "extra", "swap", "late", "never", "error_file",
]  # fmt: skip
"""What can happen to the dump of one request:

- wrong_layers, wrong_hidden_size, wrong_dtype, wrong_norm: header and rows are of another kind than the server's
- missing_layer: header and rows have one layer less
- nan_row, inf_row: one value in the middle of the prompt; zero_row: a whole row there
- wrong_ids: the token id at that position is another one; hole: that position was never written
- short: the last `short_rows` rows are never written; extra: one row too many, as an overlapped scheduler leaves
- swap: rows of two requests in flight are exchanged (this one waits for the next that is to be swapped)
- late: all rows come `late_s` seconds after the answer; never: no dump; error_file: a reason instead of a dump
"""
DUMP_FAULTS: tuple[DumpFault, ...] = get_args(DumpFault)
OTHER_FORM = ("wrong_layers", "missing_layer", "wrong_hidden_size", "wrong_dtype", "wrong_norm")
"""Those whose rows are of another form than the server's, all through."""


@dataclass
class DumpFaults(Switches[DumpFault]):
    """The switches; all may be changed while the server runs, and apply to requests whose first row comes later.

    Args:
        late_s: seconds after the answer at which rows appear.
        short_rows: rows that are missing at the end.
        seed: of the draws.
    """

    wrong_layers: float = 0.0
    missing_layer: float = 0.0
    wrong_hidden_size: float = 0.0
    wrong_dtype: float = 0.0
    wrong_norm: float = 0.0
    nan_row: float = 0.0
    inf_row: float = 0.0
    zero_row: float = 0.0
    wrong_ids: float = 0.0
    hole: float = 0.0
    short: float = 0.0
    extra: float = 0.0
    swap: float = 0.0
    late: float = 0.0
    never: float = 0.0
    error_file: float = 0.0
    late_s: float = 1.0
    short_rows: int = 2
    seed: int = 0
    injected: Counter[str] = field(default_factory=Counter)
    """How often each kind was injected."""

    def __post_init__(self) -> None:
        self._set_up(DUMP_FAULTS, DUMP_FAULTS, "dumps")
        if self.short_rows < 1:
            raise ValueError(f"short_rows must be at least 1, not {self.short_rows}")


@dataclass(frozen=True)
class Part:
    """Rows of one pass, as a rule of one request: rows [T, (K+1)*H], ids and positions [T]."""

    rows: Tensor
    ids: Tensor
    positions: Tensor

    def between(self, begin: int, end: int) -> Part:
        """The rows `begin` to `end` - 1 of it, by their place in it."""
        return replace(
            self, rows=self.rows[begin:end], ids=self.ids[begin:end], positions=self.positions[begin:end]
        )  # fmt: skip


class Alteration:
    """What one fault makes of one request's rows, as they come.

    Args:
        fault: its kind.
        switches: its figures.
    """

    def __init__(self, fault: DumpFault, switches: DumpFaults) -> None:
        self.fault: DumpFault = fault
        self._keep_back = switches.short_rows if fault == "short" else 0
        self._at: int | None = None
        self._waiting: list[Part] = []
        self._last: Part | None = None

    def take(self, part: Part) -> list[Part]:
        """What of it is to be written now."""
        if self._at is None:
            self._at = int(part.positions[len(part.positions) // 2])
        if self.fault in ("never", "error_file"):
            return []
        if self.fault in ("late", "swap"):
            self._waiting.append(part)
            return []
        if self.fault == "short":
            return self._all_but_the_last(part)
        if self.fault == "extra":
            self._last = part.between(len(part.ids) - 1, len(part.ids))
        elif 0 <= self._at - int(part.positions[0]) < len(part.positions):
            self._spoil(part, self._at - int(part.positions[0]))
        return [part]

    def release(self) -> list[Part]:
        """What was kept back and may be written now."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def one_more(self, token: int) -> list[Part]:
        """A row for the last token, which is not fed in truth."""
        if self.fault != "extra" or self._last is None:
            return []
        last = self._last
        return [Part(last.rows.clone(), last.ids.new_tensor([token]), last.positions + 1)]

    @property
    def hole(self) -> int | None:
        """The position that must read as never written, once it is known."""
        return self._at if self.fault == "hole" else None

    def _spoil(self, part: Part, row: int) -> None:
        if self.fault == "nan_row":
            part.rows[row, part.rows.shape[1] // 3] = float("nan")
        elif self.fault == "inf_row":
            part.rows[row, part.rows.shape[1] // 3] = float("inf")
        elif self.fault == "zero_row":
            part.rows[row] = 0
        elif self.fault == "wrong_ids":
            part.ids[row] ^= 1

    def _all_but_the_last(self, part: Part) -> list[Part]:
        kept = [*self._waiting, part]
        now: list[Part] = []
        self._waiting, missing = [], self._keep_back
        for each in reversed(kept):
            whole = len(each.ids) - missing
            if whole > 0:
                now.insert(0, each.between(0, whole))
            if missing > 0:
                self._waiting.insert(0, each.between(max(0, whole), len(each.ids)))
            missing = max(0, missing - len(each.ids))
        return now


class FilesWithHoles(DumpFiles):
    """Dump files in which some positions read as if they had never been written."""

    def __init__(self, folder: Path, about: About, holes: dict[str, int]) -> None:
        super().__init__(folder, about)
        self._holes = holes

    def write(self, rid: str, first: int, marks: list[memoryview], rows: list[memoryview]) -> bool:
        """As `DumpFiles.write`."""
        hole = self._holes.get(rid)
        if hole is not None:
            marks = _blank(marks, MARK_BYTES, hole - first)
            rows = _blank(rows, self.row_bytes, hole - first)
        return super().write(rid, first, marks, rows)


def _blank(parts: list[memoryview], width: int, place: int) -> list[memoryview]:
    """The same bytes, but zeros for the item at `place`, if there is one."""
    joined = bytearray().join(parts)
    if 0 <= place < len(joined) // width:
        joined[place * width : (place + 1) * width] = bytes(width)
    return [memoryview(joined)]
